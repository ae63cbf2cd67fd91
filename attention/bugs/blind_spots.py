"""What a scene cannot show: the mistakes that leave every step of it equal, found by making each of them.

One token, one head, a head width of 1 or no mask each hide whole classes of mistakes, and a green light there says
little. Mistakes are made in a twin of the scene: small, and of the same structure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import torch

from attention import masks, reference, reference_block, sample, verify_head
from attention.bugs.catalogue import BUGS, Bug
from attention.bugs.pieces import BlockPieces, attend, run_block, within_heads
from attention.config import RANDOM, AttentionConfig, head_counts
from attention.mask_config import MaskConfig
from attention.multi_head import allowed_by, draw, masked_scene
from attention.scenes import Scene, config_of, with_random_weights
from attention.single_head import HeadTrace
from attention.verify import MATHS, Trace, checks
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig

# so large a twin is at most, and what it keeps of a scene: whatever is 1 there stays 1
_HEADS: Final = 3
_HEAD_DIM: Final = 4
_TOKENS: Final = 6


@dataclass(frozen=True)
class BlindSpots:
    """What the settings of a scene hide, of so many mistakes that such a scene can show.

    `instead` are settings that show more of it, by the names of the controls; empty where there are none.
    """

    hidden: tuple[str, ...]
    of: int
    instead: tuple[tuple[str, Any], ...]
    hidden_then: int


@lru_cache(maxsize=1024)
def blind_spots(scene: Scene) -> BlindSpots:
    """What a scene's settings hide: mistakes that do not show there, and do with the settings that a page begins with.

    What shows with no settings of such a scene, as biases do on a head that has none, is not counted: the fixed
    probe is there for it.
    """
    never = _unseen(twin(_default(scene)))
    can_show = [bug.key for bug in BUGS if not bug.right and bug.key not in never]
    hidden = tuple(key for key in _unseen(twin(scene)) if key in can_show)
    settings: dict[str, Any] = {}
    left = len(hidden)
    for change in _changes(scene):  # of the scene itself: other head counts divide the twin
        if not left:
            break
        still = sum(key in can_show for key in _unseen(twin(_with(scene, settings | change))))
        if still < left:
            settings, left = settings | change, still
    return BlindSpots(hidden, len(can_show), tuple(settings.items()), left)


@lru_cache(maxsize=1024)
@torch.no_grad()
def _unseen(scene: Scene) -> tuple[str, ...]:
    """The mistakes that leave every step of a scene equal to PyTorch's. One that cannot even run is seen."""
    run, pytorch = _sides(scene)
    return tuple(bug.key for bug in BUGS if not bug.right and _is_equal(run, pytorch, bug, scene))


def _is_equal(run: Callable[[BlockPieces], Trace], pytorch: Trace, bug: Bug, scene: Scene) -> bool:
    if bug.of_block and not isinstance(scene, BlockConfig):
        return True
    try:
        return all(check.equal for check in checks(run(bug.pieces), pytorch, MATHS))
    except (RuntimeError, TypeError, ValueError):  # shapes that do not fit
        return False


def _sides(scene: Scene) -> tuple[Callable[[BlockPieces], Trace], Trace]:
    """How a scene is run with other pieces, and PyTorch's side of it, in float64."""
    if isinstance(scene, BlockConfig):
        config, allowed = scene.scene, allowed_by(scene.scene)
        given = sample.draw_tokens(config), sample.draw_block(config), config.num_heads, allowed
        block = reference_block.run_block(*given, **scene.switches)
        return (lambda pieces: run_block(*given, pieces, **scene.switches)), block
    if isinstance(scene, HeadConfig):
        return _sides_of_one_head(scene)
    config, mask = scene if isinstance(scene, tuple) else (scene, None)
    tokens, parameters = draw(config)
    queries, allowed, memory = masked_scene(tokens, mask) if mask else (tokens, allowed_by(config), None)
    pytorch = reference.attend(queries, parameters, config.num_heads, allowed, memory)
    return (
        lambda pieces: attend(queries, parameters, config.num_heads, allowed, pieces.attention, memory),
        pytorch,
    )


def _sides_of_one_head(scene: HeadConfig) -> tuple[Callable[[BlockPieces], Trace], Trace]:
    """A twin of one head has random weights and so no biases, and nothing is projected out."""
    tokens, weights = verify_head.draw(scene)
    allowed = allowed_by(scene.scene)
    grid = masks.grid(masks.causal if scene.scene.causal else masks.full, scene.scene.num_tokens)

    def run(pieces: BlockPieces) -> HeadTrace:
        put = pieces.attention
        projections = (weights[f"{name}.weight"] for name in ("w_q", "w_k", "w_v"))
        q, k, v = (put.split(put.project(tokens, w, torch.zeros(len(w), dtype=w.dtype)), 1) for w in projections)
        return HeadTrace(**within_heads(q, k, v, grid, put))

    return run, reference.attend_one(tokens, weights, allowed)


def twin(scene: Scene) -> Any:
    """A small scene of the same structure; under a mask of its own it keeps its tokens, of which the mask speaks."""
    if isinstance(scene, tuple):
        config, mask = scene
        return replace(twin(config), num_tokens=config.num_tokens), mask
    if isinstance(scene, HeadConfig):
        widths = min(scene.head_dim, _HEAD_DIM), min(scene.value_dim, _HEAD_DIM)
        # square projections hide one mistake: what is square stays square, and what is not stays so
        width = scene.scene.embed_dim
        embed_dim = widths[0] if width == scene.head_dim else widths[1] if width == scene.value_dim else 5
        return HeadConfig(replace(twin(scene.scene), num_heads=1, embed_dim=min(embed_dim, width)), *widths)
    if isinstance(scene, BlockConfig):
        return replace(scene, scene=twin(scene.scene), depth=1)
    heads, head_dim = min(scene.num_heads, _HEADS), min(scene.head_dim, _HEAD_DIM)
    return AttentionConfig(
        embed_dim=heads * head_dim,
        num_heads=heads,
        num_tokens=min(scene.num_tokens, _TOKENS),
        causal=scene.causal,
        dtype="float64",
    )


def _default(scene: Scene) -> Scene:
    """The scene of this kind that its page begins with."""
    config = AttentionConfig()
    if isinstance(scene, HeadConfig):
        return HeadConfig(config, 64, 64)
    if isinstance(scene, BlockConfig):
        return BlockConfig(config, norm_first=scene.norm_first)
    return config


def _changes(scene: Scene) -> Iterator[dict[str, Any]]:
    """Settings that may show more, one change after the other."""
    config = config_of(scene)
    bare: dict[str, Any] = {}
    if isinstance(scene, tuple) and scene[1] != _mask_without_rules(config, scene[1].causal):
        bare = {"rules": []}
        yield bare
    yield bare | {"num_tokens": 16}  # under no rules, which would go on over more tokens too
    yield {"causal": True}
    if bare:
        yield bare | {"causal": True}
    # a trained layer has its own sizes, and the controls hold others
    freed = {"weights": RANDOM, "embed_dim": config.embed_dim} if config.trained else {}
    if isinstance(scene, HeadConfig):
        yield freed | {"head_dim": 64, "value_dim": 64}
        yield freed | {"embed_dim": 768, "num_heads": 12}
    else:
        counts = [n for n in head_counts(config.embed_dim) if 1 < n < config.embed_dim]
        yield freed | ({"num_heads": counts[0]} if counts else {"embed_dim": 768, "num_heads": 12})
    if isinstance(scene, BlockConfig):
        yield {"activation": "gelu"}


def _mask_without_rules(config: AttentionConfig, causal: bool) -> MaskConfig:
    return MaskConfig(num_queries=config.num_tokens, num_keys=config.num_tokens, causal=causal)


def _with(scene: Scene, settings: dict[str, Any]) -> Scene:
    """The scene under other settings of the controls, with random weights: what its twin will be has them anyway."""
    names = AttentionConfig.__dataclass_fields__
    config = replace(
        with_random_weights(config_of(scene)), **{name: value for name, value in settings.items() if name in names}
    )
    if isinstance(scene, tuple):
        _, mask = scene
        causal = settings.get("causal", mask.causal)
        if "rules" in settings or "num_tokens" in settings:
            return config, _mask_without_rules(config, causal)
        return config, replace(mask, causal=causal)
    if isinstance(scene, HeadConfig):
        widths = {name: settings[name] for name in ("head_dim", "value_dim") if name in settings}
        return replace(scene, scene=config, head=0, **widths)
    if isinstance(scene, BlockConfig):
        return replace(scene, scene=config, activation=settings.get("activation", scene.activation))
    return config
