"""The verdict on a stack of transformer blocks: every step of every block against PyTorch.

Block by block; of a block that is done only the checks and the outputs stay, since eight blocks of the largest
size would fill the memory of a small machine. In float64 each side goes on with its own output. In the dtype on
screen both go on with ours: a norm over few numbers would make much of the rounding of all blocks before it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
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
        ValueError: the depth is not from 1 to 8, there is no such activation, or there are fewer trained blocks.
    """

    scene: AttentionConfig
    depth: int = 1
    norm_first: bool = False
    activation: str = "gelu"

    def __post_init__(self) -> None:
        check_whole("depth", self.depth, 1, MAX_DEPTH)
        check_activation(self.activation)
        layer = self.scene.trained
        if layer and self.depth > layer.blocks:
            raise ValueError(f"depth is {self.depth}; from {layer.name} on there are {layer.blocks} whole blocks.")

    @property
    def switches(self) -> dict[str, Any]:
        """How a block is built, as `run_block` takes it."""
        return {"norm_first": self.norm_first, "activation": self.activation}


def each_block(config: BlockConfig, parameters: Iterable[BlockParameters] | None = None) -> Iterator[BlockTrace]:
    """The blocks of a scene, one after the other; each trace is the caller's to keep or to let go.

    `parameters` are those of the blocks, for a caller who runs them in two ways; drawn here otherwise.
    """
    x, allowed = sample.draw_stream(config.scene), allowed_by(config.scene)
    for drawn in parameters or draw_blocks(config):
        with torch.no_grad():  # not around the loop: between two blocks whoever asks would be without gradients too
            trace = run_block(x, drawn, config.scene.num_heads, allowed, **config.switches)
        x = trace.output
        yield trace


def draw_blocks(config: BlockConfig) -> Iterator[BlockParameters]:
    """The parameters of each block, drawn when it is its turn: those of eight large ones would fill the memory."""
    return (sample.draw_block(config.scene, index) for index in range(config.depth))


def both_placements(config: BlockConfig) -> tuple[BlockConfig, BlockConfig]:
    """The scene's own placement of the norm first, then the other."""
    return config, replace(config, norm_first=not config.norm_first)


def verify_block(config: BlockConfig, tolerance: Tolerance | None = None) -> Verdict:
    """Check a scene of blocks, in float64 and in its own dtype. Steps are named after their block: "0: sum_1"."""
    return _verify((config,), tolerance)[0]


def verify_both(config: BlockConfig, tolerance: Tolerance | None = None) -> tuple[Verdict, Verdict]:
    """Check a scene of blocks under both placements of the norm: its own, then the other."""
    own, other = _verify(both_placements(config), tolerance)
    return own, other


@torch.no_grad()
def _verify(configs: Sequence[BlockConfig], tolerance: Tolerance | None) -> list[Verdict]:
    """Scenes that differ in their switches alone: block by block, so that each block's parameters are drawn once."""
    tolerance = tolerance or ARITHMETIC[configs[0].scene.dtype]
    all_sides = [_InTwoDtypes(config) for config in configs]
    for index in range(configs[0].depth):
        parameters = sample.draw_block(configs[0].scene, index)
        on_screen = [sides.run(parameters) for sides in all_sides]
        parameters = parameters.to(torch.float64)  # those on screen go: both would be the most that is held here
        for sides, both in zip(all_sides, on_screen, strict=True):
            sides.judge(index, both, parameters, tolerance)
    return [sides.verdict() for sides in all_sides]


@torch.no_grad()
def check_fused(config: BlockConfig, tolerance: Tolerance | None = None) -> Check:
    """Our first block against the layer's other path, which it takes in eval mode without gradients."""
    scene, allowed = config.scene, allowed_by(config.scene)
    tokens, parameters = sample.draw_stream(scene), sample.draw_block(scene)
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


class _InTwoDtypes:
    """Ours and PyTorch's on a scene of blocks, one block after the other, and what was found so far."""

    def __init__(self, config: BlockConfig) -> None:
        self._config = config
        self._x = sample.draw_stream(config.scene)
        self._exact = self._x.double(), self._x.double()  # what ours and PyTorch's have come to
        self._found: list[Verdict] = []

    def run(self, parameters: BlockParameters) -> tuple[BlockTrace, BlockTrace]:
        """One more block in the dtype on screen; both sides go on with ours."""
        ours, pytorch = self._both((self._x, self._x), parameters)
        self._x = ours.output
        return ours, pytorch

    def judge(
        self, index: int, on_screen: tuple[BlockTrace, BlockTrace], exact: BlockParameters, tolerance: Tolerance
    ) -> None:
        """Judge the block that has just been run; its parameters are wanted in float64."""
        sides = Sides(*on_screen, exact=partial(self._in_float64, exact))
        self._found.append(_named(sides.judge(tolerance, Report(())), index))

    def verdict(self) -> Verdict:
        """The verdict on all blocks so far."""
        return Verdict(
            maths=Report(tuple(check for verdict in self._found for check in verdict.maths.checks)),
            arithmetic=Report(tuple(check for verdict in self._found for check in verdict.arithmetic.checks)),
            distances=tuple(distance for verdict in self._found for distance in verdict.distances),
            probe=probe(),
        )

    def _in_float64(self, parameters: BlockParameters) -> tuple[BlockTrace, BlockTrace]:
        """Each goes on with its own output."""
        ours, pytorch = self._both(self._exact, parameters)
        self._exact = ours.output, pytorch.output
        return ours, pytorch

    def _both(self, xs: tuple[Tensor, Tensor], parameters: BlockParameters) -> tuple[BlockTrace, BlockTrace]:
        scene, switches = self._config.scene, self._config.switches
        heads, allowed = scene.num_heads, allowed_by(scene)
        ours = run_block(xs[0], parameters, heads, allowed, **switches)
        return ours, reference_block.run_block(xs[1], parameters, heads, allowed, **switches)


def _named(verdict: Verdict, index: int) -> Verdict:
    def named(report: Report) -> Report:
        return Report(tuple(replace(check, step=f"{index}: {check.step}") for check in report.checks))

    distances = tuple(replace(distance, step=f"{index}: {distance.step}") for distance in verdict.distances)
    return Verdict(named(verdict.maths), named(verdict.arithmetic), distances, verdict.probe)
