"""What the verdict says of an attention, or a block, with a mistake in it.

The verdict is the same as everywhere: both sides in float64 and in the dtype on screen, and the fixed probe, each
with the mistake in ours.
"""

from functools import partial
from typing import Final

import torch

from attention import reference, reference_block, sample, verify_block
from attention.bugs.pieces import BlockPieces, attend, run_block
from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.multi_head import allowed_by
from attention.scenes import config_of
from attention.verify import ARITHMETIC, Report, Sides, Trace, Verdict, check_probe
from attention.verify_block import BlockConfig

# an attention alone, or a block around it
Scene = AttentionConfig | BlockConfig

# what a page shows to begin with; mistakes of the block need a block
ATTENTION: Final = AttentionConfig()
BLOCK: Final = BlockConfig(ATTENTION)


@torch.no_grad()
def both_with(scene: Scene, pieces: BlockPieces, dtype: torch.dtype | None = None) -> tuple[Trace, Trace]:
    """Ours, made of these pieces, and PyTorch's, in the scene's dtype or another.

    Of blocks there is one, however deep the scene is.
    """
    config = config_of(scene)
    dtype, allowed, heads = dtype or config.torch_dtype, allowed_by(config), config.num_heads
    if isinstance(scene, AttentionConfig):
        tokens = sample.draw_tokens(config).to(dtype)
        parameters = sample.draw_parameters(config).to(dtype)
        ours = attend(tokens, parameters, heads, allowed, pieces.attention)
        return ours, reference.attend(tokens, parameters, heads, allowed)
    tokens, block = sample.draw_stream(config).to(dtype), sample.draw_block(config).to(dtype)
    run = run_block(tokens, block, heads, allowed, pieces, **scene.switches)
    return run, reference_block.run_block(tokens, block, heads, allowed, **scene.switches)


def sides_with(scene: Scene, pieces: BlockPieces) -> Sides:
    """Both sides of a scene, ours made of these pieces, in its dtype and in float64."""
    return Sides(*both_with(scene, pieces), exact=partial(both_with, scene, pieces, torch.float64))


@torch.no_grad()
def probe_with(scene: Scene, pieces: BlockPieces) -> Report:
    """The fixed probe of the scene's kind, ours made of these pieces."""
    if isinstance(scene, AttentionConfig):
        return check_probe(partial(attend, pieces=pieces.attention))
    return verify_block.check_probe(partial(run_block, pieces=pieces))


def verify_with(scene: Scene, pieces: BlockPieces, tolerance: Tolerance | None = None) -> Verdict:
    """The verdict on a scene that is made of these pieces."""
    tolerance = tolerance or ARITHMETIC[config_of(scene).dtype]
    return sides_with(scene, pieces).judge(tolerance, probe_with(scene, pieces))


def first_step(found: Report) -> str | None:
    """The step that a report names, or None where all are equal."""
    return found.first_difference.step if found.first_difference else None
