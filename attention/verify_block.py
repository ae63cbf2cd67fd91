"""The verdict on a stack of transformer blocks: every step of every block against PyTorch.

Block by block; of a block that is done only the checks and the outputs stay, since eight blocks of the largest
size would fill the memory of a small machine. In float64 each side goes on with its own output. In the dtype on
screen both go on with ours: a norm over few numbers would make much of the rounding of all blocks before it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from attention import masks, reference_block, sample
from attention.block import BlockTrace, run_block
from attention.compare import Check, Tolerance, compare
from attention.config import AttentionConfig, check_whole
from attention.feed_forward import check_activation
from attention.multi_head import allowed_by
from attention.sample import BlockParameters
from attention.verify import ARITHMETIC, MATHS, Report, Sides, Verdict, report

MAX_DEPTH: Final = 8


@dataclass(frozen=True)
class BlockConfig:
    """A scene of blocks: the config's tokens and mask, and how the blocks are built.

    Raises:
        ValueError: the depth is not from 1 to 8, or there is no such activation.
    """

    scene: AttentionConfig
    depth: int = 1
    norm_first: bool = False
    activation: str = "gelu"

    def __post_init__(self) -> None:
        check_whole("depth", self.depth, 1, MAX_DEPTH)
        check_activation(self.activation)

    @property
    def switches(self) -> dict[str, Any]:
        """How a block is built, as `run_block` takes it."""
        return {"norm_first": self.norm_first, "activation": self.activation}


@torch.no_grad()
def each_block(config: BlockConfig) -> Iterator[BlockTrace]:
    """The blocks of a scene, one after the other; each trace is the caller's to keep or to let go."""
    x, allowed = sample.draw_tokens(config.scene), allowed_by(config.scene)
    for index in range(config.depth):
        parameters = sample.draw_block(config.scene, index)
        trace = run_block(x, parameters, config.scene.num_heads, allowed, **config.switches)
        x = trace.output
        yield trace


@torch.no_grad()
def verify_block(config: BlockConfig, tolerance: Tolerance | None = None) -> Verdict:
    """Check a scene of blocks, in float64 and in its own dtype. Steps are named after their block: "0: sum_1"."""
    scene, allowed = config.scene, allowed_by(config.scene)
    tolerance = tolerance or ARITHMETIC[scene.dtype]
    tokens = sample.draw_tokens(scene)
    xs = [tokens, tokens, tokens.double(), tokens.double()]  # what each of the four sides has come to
    verdicts: list[Verdict] = []
    for index in range(config.depth):
        parameters = sample.draw_block(scene, index)
        traces = _four_sides(xs, parameters, allowed, config)
        verdicts.append(_named(Sides(*traces).judge(tolerance, Report(())), index))
        ours, _, ours_exact, exact = (trace.output for trace in traces)
        xs = [ours, ours, ours_exact, exact]
    return Verdict(
        maths=Report(tuple(check for verdict in verdicts for check in verdict.maths.checks)),
        arithmetic=Report(tuple(check for verdict in verdicts for check in verdict.arithmetic.checks)),
        distances=tuple(distance for verdict in verdicts for distance in verdict.distances),
        probe=probe(),
    )


@torch.no_grad()
def check_fused(config: BlockConfig, tolerance: Tolerance | None = None) -> Check:
    """Our first block against the layer's other path, which it takes in eval mode without gradients."""
    scene, allowed = config.scene, allowed_by(config.scene)
    tokens, parameters = sample.draw_tokens(scene), sample.draw_block(scene)
    ours = run_block(tokens, parameters, scene.num_heads, allowed, **config.switches).output
    fused = reference_block.fused_output(tokens, parameters, scene.num_heads, allowed, **config.switches)
    return compare("output", ours, fused, tolerance or ARITHMETIC[scene.dtype])


@cache
def probe() -> Report:
    """Fixed scenes that hide nothing, in float64: see `check_probe`."""
    return check_probe(run_block)


@torch.no_grad()
def check_probe(block: Callable[..., BlockTrace]) -> Report:
    """A block against PyTorch's on fixed scenes, in float64: norms after and before, then scores that overflow.

    Sizes are odd and weights sharp; the mask is causal, but where scores overflow.

    Args:
        block: called as `block.run_block` is: x, parameters, head count, mask, and the two switches by name.
    """
    scene = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7, seed=11, dtype="float64")
    tokens, parameters = sample.draw_tokens(scene), sample.draw_block(scene)
    checks: list[Check] = []
    for loudness, rule, norm_first, activation in (
        (3, masks.causal, False, "gelu"),
        (3, masks.causal, True, "relu"),
        (60, masks.full, False, "gelu"),
    ):
        given = loudness * tokens + 1, parameters, scene.num_heads, masks.grid(rule, scene.num_tokens)
        ours = block(*given, norm_first=norm_first, activation=activation)
        pytorch = reference_block.run_block(*given, norm_first=norm_first, activation=activation)
        checks += report(ours, pytorch, MATHS).checks
    return Report(tuple(checks))


def _four_sides(
    xs: list[Tensor], parameters: BlockParameters, allowed: Tensor | None, config: BlockConfig
) -> tuple[BlockTrace, BlockTrace, BlockTrace, BlockTrace]:
    """One block: ours and PyTorch's in the dtype on screen, ours and PyTorch's in float64."""
    exact, heads, switches = parameters.to(torch.float64), config.scene.num_heads, config.switches
    return (
        run_block(xs[0], parameters, heads, allowed, **switches),
        reference_block.run_block(xs[1], parameters, heads, allowed, **switches),
        run_block(xs[2], exact, heads, allowed, **switches),
        reference_block.run_block(xs[3], exact, heads, allowed, **switches),
    )


def _named(verdict: Verdict, index: int) -> Verdict:
    def named(report: Report) -> Report:
        return Report(tuple(replace(check, step=f"{index}: {check.step}") for check in report.checks))

    distances = tuple(replace(distance, step=f"{index}: {distance.step}") for distance in verdict.distances)
    return Verdict(named(verdict.maths), named(verdict.arithmetic), distances, verdict.probe)
