"""The kinds of scene that pages show, and what they have in common."""

from dataclasses import replace

from attention.config import RANDOM, AttentionConfig
from attention.mask_config import MaskConfig
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig

# attention, one head of free widths, blocks, attention under a mask of its own
Scene = AttentionConfig | HeadConfig | BlockConfig | tuple[AttentionConfig, MaskConfig]


def in_dtype(scene: Scene, dtype: str) -> Scene:
    """The same scene in another precision."""
    config = replace(config_of(scene), dtype=dtype)
    if isinstance(scene, tuple):
        return config, scene[1]
    return config if isinstance(scene, AttentionConfig) else replace(scene, scene=config)


def with_random_weights(config: AttentionConfig) -> AttentionConfig:
    """A config of the same sizes whose weights are random, if they are not."""
    return replace(config, weights=RANDOM)


def config_of(scene: Scene) -> AttentionConfig:
    """What every scene has: sizes, seed, dtype."""
    if isinstance(scene, tuple):
        return scene[0]
    return scene if isinstance(scene, AttentionConfig) else scene.scene
