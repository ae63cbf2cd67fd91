"""What the verdict says of an attention, or a block, with a mistake in it.

The verdict is the same as everywhere: both sides in float64 and in the dtype on screen, and the fixed probe, each
with the mistake in ours.
"""

from functools import partial
from typing import Final

import torch
from torch import Tensor

from attention import reference, reference_block, sample, verify_block
from attention.bugs.pieces import BlockPieces, attend, run_block
from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.multi_head import allowed_by, draw
from attention.verify import ARITHMETIC, Report, Sides, Verdict, check_probe
from attention.verify_block import BlockConfig

# an attention alone, or a block around it
Scene = AttentionConfig | BlockConfig

# what a page shows to begin with; mistakes of the block need a block
ATTENTION: Final = AttentionConfig()
BLOCK: Final = BlockConfig(ATTENTION)


@torch.no_grad()
def sides_with(scene: Scene, pieces: BlockPieces) -> Sides:
    """Both sides of a scene, ours made of these pieces. Of blocks there is one, however deep the scene is."""
    config = scene if isinstance(scene, AttentionConfig) else scene.scene
    allowed, heads = allowed_by(config), config.num_heads
    if isinstance(scene, AttentionConfig):
        tokens, parameters = draw(config)
        exact = tokens.double(), parameters.to(torch.float64)
        return Sides(
            ours=attend(tokens, parameters, heads, allowed, pieces.attention),
            pytorch=reference.attend(tokens, parameters, heads, allowed),
            ours_exact=attend(*exact, heads, allowed, pieces.attention),
            pytorch_exact=reference.attend(*exact, heads, allowed),
        )
    x, block = sample.draw_tokens(config), sample.draw_block(config)
    exact_x, exact_block = x.double(), block.to(torch.float64)
    return Sides(
        ours=run_block(x, block, heads, allowed, pieces, **scene.switches),
        pytorch=reference_block.run_block(x, block, heads, allowed, **scene.switches),
        ours_exact=run_block(exact_x, exact_block, heads, allowed, pieces, **scene.switches),
        pytorch_exact=reference_block.run_block(exact_x, exact_block, heads, allowed, **scene.switches),
    )


@torch.no_grad()
def probe_with(scene: Scene, pieces: BlockPieces) -> Report:
    """The fixed probe of the scene's kind, ours made of these pieces."""
    if isinstance(scene, AttentionConfig):
        return check_probe(partial(attend, pieces=pieces.attention))
    return verify_block.check_probe(partial(run_block, pieces=pieces))


def verify_with(
    scene: Scene, pieces: BlockPieces, tolerance: Tolerance | None = None, sides: Sides | None = None
) -> Verdict:
    """The verdict on a scene made of these pieces; `sides` are the scene's, where the caller has them."""
    dtype = (scene if isinstance(scene, AttentionConfig) else scene.scene).dtype
    found = sides or sides_with(scene, pieces)
    return found.judge(tolerance or ARITHMETIC[dtype], probe_with(scene, pieces))


def first_step(found: Report) -> str | None:
    """The step that a report names, or None where all are equal."""
    return found.first_difference.step if found.first_difference else None


def matrix(tensor: Tensor, head: int) -> Tensor:
    """A step of the first sequence as (rows, columns): of the steps within heads, those of one head."""
    return tensor[0, head] if tensor.ndim == 4 else tensor[0]
