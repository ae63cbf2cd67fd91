"""The verdict on a trained model: every step of every layer against PyTorch, on the sequences on screen.

As for a stack of blocks: in float64 each side goes on with its own output, in float32 both go on with ours.
"""

from collections.abc import Iterator
from dataclasses import replace
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
    found = [
        _named(Sides(*sides, exact=lambda wide=wide: wide).judge(tolerance, Report(())), name)  # type: ignore[misc]
        for (name, *sides), (_, *wide) in zip(on_screen, exact, strict=True)
    ]
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


def _one(name: str, value: Tensor) -> Trace:
    """A trace of a single step."""
    return SimpleNamespace(steps=(name,), **{name: value})


def _named(verdict: Verdict, before: str) -> Verdict:
    def named(report: Report) -> Report:
        return Report(tuple(replace(check, step=before + check.step) for check in report.checks))

    distances = tuple(replace(distance, step=before + distance.step) for distance in verdict.distances)
    return Verdict(named(verdict.maths), named(verdict.arithmetic), distances, verdict.probe)
