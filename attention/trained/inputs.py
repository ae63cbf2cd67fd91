"""What a scene with trained weights attends with: the layer's projections, and a sequence as its attention is given it.

All of it is float32 as it was trained, and then in the dtype of the scene.
"""

from dataclasses import fields
from functools import cache

from jaxtyping import Float, Int
from torch import Tensor

from attention.config import AttentionConfig
from attention.sample import AttentionParameters, BlockParameters, HeadWeights
from attention.trained.measuring import fresh
from attention.trained.model import Model
from attention.trained.presets import load_preset
from attention.trained_layers import TrainedLayer


def tokens(config: AttentionConfig) -> Float[Tensor, "1 T E"]:
    """The scene's sequence after the embedding, the layers before, and the norm before the attention.

    Raises:
        ValueError: the scene's weights are random.
    """
    layer = _layer(config)
    trace = _model(layer.task).trace(sequence(config))
    return trace.layers[layer.layer].norm_1.to(config.torch_dtype)


def stream(config: AttentionConfig) -> Float[Tensor, "1 T E"]:
    """The same before the norm: what goes into the layer.

    Raises:
        ValueError: the scene's weights are random.
    """
    layer = _layer(config)
    return _model(layer.task).trace(sequence(config)).layers[layer.layer].x.to(config.torch_dtype)


def block(config: AttentionConfig, index: int) -> BlockParameters:
    """The parameters of a whole layer: of the scene's own, 0, or of one after it.

    Raises:
        ValueError: the scene's weights are random, or there is no such block.
    """
    layer = _layer(config)
    if not 0 <= index < layer.blocks:
        raise ValueError(f"block is {index}; from {layer.name} on there are {layer.blocks}.")
    found = _model(layer.task).layer(layer.layer + index)[2]
    assert found is not None, "a layer that is counted as a block"
    rest = {field.name: getattr(found, field.name).clone() for field in fields(found)[1:]}
    return BlockParameters(_copied(found.attention), **rest).to(config.torch_dtype)


def parameters(config: AttentionConfig) -> AttentionParameters:
    """The layer's projections.

    Raises:
        ValueError: the scene's weights are random.
    """
    layer = _layer(config)
    return _copied(_model(layer.task).layer(layer.layer)[0]).to(config.torch_dtype)


def head_weights(config: AttentionConfig, head: int) -> HeadWeights:
    """One head's part of the projections to q, k and v, biases too, as the state of a `SelfAttention`.

    Raises:
        ValueError: the scene's weights are random, or the layer has no such head.
    """
    layer, all_heads = _layer(config), parameters(config)
    if not 0 <= head < layer.heads:
        raise ValueError(f"head is {head}; {layer.name} has heads 0 to {layer.heads - 1}.")
    mine = slice(head * layer.head_dim, (head + 1) * layer.head_dim)
    kinds = {"w": "weight", "b": "bias"}
    return {
        f"w_{to}.{kind}": getattr(all_heads, f"{letter}_{to}")[mine] for to in "qkv" for letter, kind in kinds.items()
    }


def sequence(config: AttentionConfig) -> Int[Tensor, "1 T"]:
    """The one sequence of a scene, cut to its tokens: fresh, which the training has not seen, and chosen by the seed.

    Raises:
        ValueError: the scene's weights are random.
    """
    return fresh(_model(_layer(config).task).config.learns, 1, config.seed).tokens[:, : config.num_tokens]


def labels(config: AttentionConfig) -> tuple[str, ...]:
    """What the tokens of a scene are called; nothing where its weights are random, as its tokens are then."""
    if config.trained is None:
        return ()
    return tuple(_model(config.trained.task).config.learns.labels(sequence(config)[0]))


def _layer(config: AttentionConfig) -> TrainedLayer:
    if config.trained is None:
        raise ValueError("the weights of this scene are random; it has no trained layer.")
    return config.trained


def _copied(held: AttentionParameters) -> AttentionParameters:
    return AttentionParameters(*(getattr(held, field.name).clone() for field in fields(held)))


@cache
def _model(task: str) -> Model:
    """Read once; what leaves this file is a copy, since others may change it."""
    return load_preset(task)
