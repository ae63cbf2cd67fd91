"""The verdict on a trained model: every step of every layer against PyTorch, on the sequences on screen.

As for a stack of blocks: in float64 each side goes on with its own output, in float32 both go on with ours.

The atol of the arithmetic line is meant for numbers of about unit size. Trained weights make larger ones, and a sum
of large numbers that comes out small keeps their rounding: a part gets as many times the atol as its largest number,
scores aside, is over 1. The line of the maths gets no more than anywhere else.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import SimpleNamespace

import torch
from torch import Tensor

from attention import verify_block
from attention.compare import Tolerance
from attention.trained import reference_model
from attention.trained.model import Model
from attention.verify import ARITHMETIC, Report, Sides, Trace, Verdict, probe


@torch.no_grad()
def verify_model(model: Model, tokens: Tensor, tolerance: Tolerance | None = None) -> Verdict:
    """Check a model on these sequences. Steps of a layer are named after it: "0: norm_1".

    Args:
        model: with its trained weights.
        tokens: the sequences, (B, T).
        tolerance: of the arithmetic line; by default that of `torch.testing.assert_close`.
    """
    tolerance = tolerance or ARITHMETIC["float32"]
    on_screen, exact = _both(model, tokens, apart=False), _both(model.to(torch.float64), tokens, apart=True)
    found: list[Verdict] = []
    for (name, ours, pytorch), (_, *wide) in zip(on_screen, exact, strict=True):
        sides = Sides(ours, pytorch, exact=partial(_pair, *wide))
        found.append(_named(sides.judge(_for_size(tolerance, pytorch), Report(())), name))
    return Verdict(
        maths=Report(tuple(check for verdict in found for check in verdict.maths.checks)),
        arithmetic=Report(tuple(check for verdict in found for check in verdict.arithmetic.checks)),
        distances=tuple(distance for verdict in found for distance in verdict.distances),
        probe=Report(probe().checks + verify_block.probe().checks),
    )


def _both(model: Model, tokens: Tensor, *, apart: bool) -> Iterator[tuple[str, Trace, Trace]]:
    """What stands before the steps' names, ours and PyTorch's, part by part; `apart`: each goes on with its own."""
    ours = model.run(tokens)
    pytorch = reference_model.embed(model, tokens)
    yield "", _one("embedded", ours.embedded), _one("embedded", pytorch)
    for index, layer in enumerate(ours.layers):
        answer = reference_model.run_layer(model, index, pytorch if apart else layer.x)
        yield f"{index}: ", layer, answer
        pytorch = answer.output
    last = pytorch if apart else ours.layers[-1].output
    yield "", _one("logits", ours.logits), _one("logits", reference_model.unembed(model, last))


def _pair(ours: Trace, pytorch: Trace) -> tuple[Trace, Trace]:
    return ours, pytorch


def _for_size(tolerance: Tolerance, pytorch: Trace) -> Tolerance:
    """The tolerance for a part whose numbers may be large."""
    steps = (step for step in pytorch.steps if step.rpartition(".")[2] not in ("scores", "scaled", "masked"))
    largest = max(attrgetter(step)(pytorch).abs().max().item() for step in steps)
    return Tolerance(rtol=tolerance.rtol, atol=tolerance.atol * max(1.0, largest))


def _one(name: str, value: Tensor) -> Trace:
    """A trace of a single step."""
    return SimpleNamespace(steps=(name,), **{name: value})


def _named(verdict: Verdict, before: str) -> Verdict:
    def named(report: Report) -> Report:
        return Report(tuple(replace(check, step=before + check.step) for check in report.checks))

    distances = tuple(replace(distance, step=before + distance.step) for distance in verdict.distances)
    return Verdict(named(verdict.maths), named(verdict.arithmetic), distances, verdict.probe)
