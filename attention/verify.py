"""The verdict: is each step of ours equal to PyTorch's, and if not, which is the first that differs.

Two lines. *The maths*: everything repeated in float64 with a tight tolerance, where correct code
always passes and a wrong step never does. *The arithmetic*: the dtype on screen, with the
tolerance the reader sets. Beside it stands how far each side is from the float64 answer, which
is what "why is allclose False?" asks.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from attention import masks, reference, sample
from attention.compare import Check, Tolerance, compare, largest_distance
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.multi_head import AttentionTrace, Inputs, allowed_by, attend, draw, masked_scene
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


class Trace(Protocol):
    """Anything with named steps; a dot in a name leads into a trace within."""

    @property
    def steps(self) -> tuple[str, ...]:
        """The names, in the order in which they were computed."""


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
        return self.scene_equal and self.probe.equal

    @property
    def scene_equal(self) -> bool:
        """Whether both lines are: what tells scenes apart, since all share the probe."""
        return self.maths.equal and self.arithmetic.equal

    @property
    def rows(self) -> Iterator[tuple[Check, Check, Distance]]:
        """What there is of each step: the maths, the arithmetic, how far both are from the float64 answer."""
        return zip(self.maths.checks, self.arithmetic.checks, self.distances, strict=True)


def report(ours: Trace, pytorch: Trace, tolerance: Tolerance) -> Report:
    """Compare two traces step by step.

    atol is meant for numbers of about unit size. Before they are scaled, scores are larger by √D,
    and so is their rounding: they get √D times the atol.
    """
    return Report(tuple(checks(ours, pytorch, tolerance)))


def checks(ours: Trace, pytorch: Trace, tolerance: Tolerance) -> Iterator[Check]:
    """The checks of a report one by one, for whoever stops at the first that fails."""
    return (_check(ours, pytorch, step, tolerance) for step in ours.steps)


def _check(ours: Trace, pytorch: Trace, step: str, tolerance: Tolerance) -> Check:
    if step.endswith("scores"):
        head_dim = attrgetter(f"{step.removesuffix('scores')}q")(ours).shape[-1]
        tolerance = Tolerance(rtol=tolerance.rtol, atol=math.sqrt(head_dim) * tolerance.atol)
    return compare(step, attrgetter(step)(ours), attrgetter(step)(pytorch), tolerance)


@dataclass(frozen=True)
class Sides:
    """What is judged: both sides in the dtype on screen, and both in float64.

    Those in float64 are made when they are wanted, ours and PyTorch's, and let go: of a large scene they are most of
    what it takes.
    """

    ours: Trace
    pytorch: Trace
    exact: Callable[[], tuple[Trace, Trace]]

    def judge(self, tolerance: Tolerance, probe: Report) -> Verdict:
        """The verdict, with the probe that goes with it."""
        ours, answer = self.exact()
        maths = report(ours, answer, MATHS)
        del ours  # only the answer is still wanted
        return Verdict(
            maths=maths,
            arithmetic=report(self.ours, self.pytorch, tolerance),
            distances=tuple(self._distance(step, answer) for step in self.ours.steps),
            probe=probe,
        )

    def _distance(self, step: str, exact: Trace) -> Distance:
        read = attrgetter(step)
        answer: Tensor = read(exact)
        return Distance(step, largest_distance(read(self.ours), answer), largest_distance(read(self.pytorch), answer))


def verify(
    config: AttentionConfig,
    tolerance: Tolerance | None = None,
    ours: AttentionTrace | None = None,
    inputs: Inputs | None = None,
    mask: MaskConfig | None = None,
) -> Verdict:
    """Check a scene against PyTorch, in float64 and in its own dtype.

    Args:
        config: the scene.
        tolerance: of the arithmetic line; by default that of `torch.testing.assert_close`.
        ours: the scene's trace, where the caller has it already.
        inputs: the scene's tokens and parameters, likewise.
        mask: another mask than the config's own, with its own numbers of queries and keys.
    """
    return sides_of(config, ours, inputs, mask).judge(tolerance or ARITHMETIC[config.dtype], probe())


@torch.no_grad()
def sides_of(
    config: AttentionConfig,
    ours: AttentionTrace | None = None,
    inputs: Inputs | None = None,
    mask: MaskConfig | None = None,
) -> Sides:
    """What `verify` judges, for callers who want to look at it too."""
    tokens, parameters = inputs or draw(config)
    scene = masked_scene(tokens, mask) if mask else (tokens, allowed_by(config), None)
    heads = config.num_heads

    def run(attention: Callable[..., Trace], scene: Any, parameters: AttentionParameters) -> Trace:
        queries, allowed, memory = scene
        return attention(queries, parameters, heads, allowed, memory=memory)

    @torch.no_grad()
    def exact() -> tuple[Trace, Trace]:
        wide = tuple(x.double() if x is not None and x.is_floating_point() else x for x in scene)
        numbers = parameters.to(torch.float64)
        return run(attend, wide, numbers), run(reference.attend, wide, numbers)

    return Sides(ours or run(attend, scene, parameters), run(reference.attend, scene, parameters), exact)


@cache
def probe() -> Report:
    """Fixed scenes that hide nothing, in float64: see `check_probe`."""
    return check_probe(attend)


@torch.no_grad()
def check_probe(attention: Callable[..., AttentionTrace]) -> Report:
    """An attention against PyTorch's on two fixed scenes, in float64: an ordinary one, then a loud one.

    Every size is a different prime, the batch is more than one, tokens are large enough for sharp weights, biases
    are as large as the projections, and each sequence has a mask of its own. In the loud one scores are so large
    that their exponentials overflow, and one query may attend to nothing.

    Args:
        attention: called as `multi_head.attend` is: tokens, parameters, head count, mask.
    """
    heads, head_dim, num_tokens, batch = 3, 5, 7, 2
    embed_dim = heads * head_dim
    small = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=num_tokens * batch, seed=11)
    tokens = sample.draw_tokens(small).double().view(batch, num_tokens, embed_dim)
    parameters = sample.draw_parameters(small).to(torch.float64)
    biased = AttentionParameters(
        *(getattr(parameters, f.name) * (4 if f.name[0] == "b" else 1) for f in fields(parameters))
    )
    causal, full = masks.grid(masks.causal, num_tokens), masks.grid(masks.full, num_tokens)
    with_empty_row = full.clone()
    with_empty_row[2] = False
    found: list[Check] = []
    # loud under no causal mask: one that is put on after the softmax would be right, and have nothing left to divide
    for loudness, first in ((3, causal), (60, with_empty_row)):
        allowed = torch.stack([first, full])[:, None]  # (B, 1, T, T)
        scene = loudness * tokens, biased, heads, allowed
        found += checks(attention(*scene), reference.attend(*scene), MATHS)
    return Report(tuple(found))
