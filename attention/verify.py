"""The verdict: is each step of ours equal to PyTorch's, and if not, which is the first that differs.

Two lines. *The maths*: everything repeated in float64 with a tight tolerance, where correct code
always passes and a wrong step never does. *The arithmetic*: the dtype on screen, with the
tolerance the reader sets. Beside it stands how far each side is from the float64 answer, which
is what "why is allclose False?" asks.
"""

import math
from dataclasses import dataclass, fields
from functools import cache
from typing import Final

import torch
from torch import Tensor

from attention import masks, reference, sample
from attention.compare import Check, Tolerance, compare, largest_distance
from attention.config import AttentionConfig
from attention.multi_head import STEPS, AttentionTrace, Inputs, allowed_by, attend, draw
from attention.sample import AttentionParameters

# float64, over 1,920 runs of correct code: largest difference 4.4e-15, no false alarm
MATHS: Final = Tolerance(rtol=1e-7, atol=1e-9)
# the defaults of torch.testing.assert_close
ARITHMETIC: Final[dict[str, Tolerance]] = {
    "float64": Tolerance(rtol=1e-7, atol=1e-7),
    "float32": Tolerance(rtol=1.3e-6, atol=1e-5),
    "bfloat16": Tolerance(rtol=1.6e-2, atol=1e-5),
    "float16": Tolerance(rtol=1e-3, atol=1e-5),
}


@dataclass(frozen=True)
class Report:
    """One check per step, in the order of the steps."""

    checks: tuple[Check, ...]

    @property
    def equal(self) -> bool:
        """Whether every step is equal."""
        return self.first_difference is None

    @property
    def first_difference(self) -> Check | None:
        """The first step that is not equal: what follows it only inherits its fault."""
        return next((check for check in self.checks if not check.equal), None)


@dataclass(frozen=True)
class Distance:
    """The largest distances of one step from its float64 answer."""

    step: str
    ours: float
    pytorch: float


@dataclass(frozen=True)
class Verdict:
    """Both lines, and the probe: a fixed hard scene, since some settings cannot show any fault."""

    maths: Report
    arithmetic: Report
    distances: tuple[Distance, ...]
    probe: Report

    @property
    def equal(self) -> bool:
        """Whether both lines and the probe are all equal."""
        return self.maths.equal and self.arithmetic.equal and self.probe.equal


def report(ours: AttentionTrace, pytorch: AttentionTrace, tolerance: Tolerance) -> Report:
    """Compare two traces step by step.

    atol is meant for numbers of about unit size. Before they are scaled, scores are larger by √D,
    and so is their rounding: they get √D times the atol.
    """
    root = math.sqrt(ours.q.shape[-1])
    unscaled = Tolerance(rtol=tolerance.rtol, atol=root * tolerance.atol)
    return Report(
        tuple(
            compare(step, getattr(ours, step), getattr(pytorch, step), unscaled if step == "scores" else tolerance)
            for step in STEPS
        )
    )


@torch.no_grad()
def verify(
    config: AttentionConfig,
    tolerance: Tolerance | None = None,
    ours: AttentionTrace | None = None,
    inputs: Inputs | None = None,
) -> Verdict:
    """Check a scene against PyTorch, in float64 and in its own dtype.

    Args:
        config: the scene.
        tolerance: of the arithmetic line; by default that of `torch.testing.assert_close`.
        ours: the scene's trace, where the caller has it already.
        inputs: the scene's tokens and parameters, likewise.
    """
    tokens, parameters = inputs or draw(config)
    allowed, heads = allowed_by(config), config.num_heads
    if ours is None:
        ours = attend(tokens, parameters, heads, allowed)
    pytorch = reference.attend(tokens, parameters, heads, allowed)
    exact_input = tokens.double(), parameters.to(torch.float64), heads, allowed
    exact = reference.attend(*exact_input)
    return Verdict(
        maths=report(attend(*exact_input), exact, MATHS),
        arithmetic=report(ours, pytorch, tolerance or ARITHMETIC[config.dtype]),
        distances=tuple(_distance(step, ours, pytorch, exact) for step in STEPS),
        probe=probe(),
    )


@cache
@torch.no_grad()
def probe() -> Report:
    """A fixed scene that hides nothing, in float64.

    Every size is a different prime, the batch is more than one, tokens are large enough for
    sharp weights, biases are as large as the projections, and each sequence has a mask of its own.
    """
    heads, head_dim, num_tokens, batch = 3, 5, 7, 2
    embed_dim = heads * head_dim
    small = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=num_tokens * batch, seed=11)
    tokens = 3 * sample.draw_tokens(small).double().view(batch, num_tokens, embed_dim)
    parameters = sample.draw_parameters(small).to(torch.float64)
    loud = AttentionParameters(
        *(getattr(parameters, f.name) * (4 if f.name[0] == "b" else 1) for f in fields(parameters))
    )
    allowed = torch.stack([masks.causal(num_tokens), masks.full(num_tokens)])[:, None]  # (B, 1, T, T)
    scene = tokens, loud, heads, allowed
    return report(attend(*scene), reference.attend(*scene), MATHS)


def _distance(step: str, ours: AttentionTrace, pytorch: AttentionTrace, exact: AttentionTrace) -> Distance:
    answer: Tensor = getattr(exact, step)
    return Distance(
        step, largest_distance(getattr(ours, step), answer), largest_distance(getattr(pytorch, step), answer)
    )
