"""A small transformer out of this library's own pieces, as a value: a config and its parameters by name.

    x = token embedding + position embedding
    x = x + attention(norm(x)), and with the feed-forward x = x + feed_forward(norm(x)); in each layer
    logits = x W + b

A layer is a pre-norm block, or the first half of one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attention import masks, multi_head, sample
from attention.block import BlockTrace, run_block
from attention.layer_norm import layer_norm
from attention.multi_head import AttentionTrace, attend, project
from attention.sample import AttentionParameters, BlockParameters
from attention.trained.config import TrainConfig

ACTIVATION: Final = "relu"
EMBEDDING_SCALE: Final = 0.5
_ATTENTION: Final = tuple(field.name for field in fields(AttentionParameters))
_NORM: Final = ("norm_1_weight", "norm_1_bias")
_FEED_FORWARD: Final = ("norm_2_weight", "norm_2_bias", "w_1", "b_1", "w_2", "b_2")


@dataclass(frozen=True)
class AttentionLayerTrace:
    """Every step of a layer that has attention only: x + attention(norm(x)).

    `attention` has the steps of an `AttentionTrace`; PyTorch's makes some of them when they are asked for.
    """

    x: Float[Tensor, "B T E"]
    norm_1: Float[Tensor, "B T E"]
    attention: Any
    sum_1: Float[Tensor, "B T E"]

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps, in the order in which they were computed."""
        return ("norm_1", *(f"attention.{step}" for step in multi_head.STEPS), "sum_1")

    @property
    def output(self) -> Float[Tensor, "B T E"]:
        """What the layer gives out."""
        return self.sum_1


@dataclass(frozen=True)
class ModelTrace:
    """Every step of every layer, and what comes before and after."""

    embedded: Float[Tensor, "B T E"]
    layers: tuple[AttentionLayerTrace | BlockTrace, ...]
    logits: Float[Tensor, "B T V"]

    @property
    def attention(self) -> tuple[AttentionTrace, ...]:
        """The attention of each layer, as the other pages show it."""
        return tuple(layer.attention for layer in self.layers)


@dataclass(frozen=True)
class Model:
    """A model: what it was made for, and its parameters by name (see `shapes`)."""

    config: TrainConfig
    parameters: Mapping[str, Tensor]

    def run(self, tokens: Int[Tensor, "B T"]) -> ModelTrace:
        """Every step for these sequences; gradients reach the parameters.

        Raises:
            ValueError: the sequences are longer than the task's, or a token is not in its vocabulary.
        """
        check_tokens(self.config, tokens)
        p, num_tokens = self.parameters, tokens.shape[1]
        x = embedded = p["tokens"][tokens] + p["positions"][:num_tokens]
        allowed = allowed_by(self.config, num_tokens)
        layers: list[AttentionLayerTrace | BlockTrace] = []
        for index in range(self.config.layers):
            layers.append(self._run_layer(index, x, allowed))
            x = layers[-1].output
        return ModelTrace(embedded, tuple(layers), project(x, p["unembed.w"], p["unembed.b"]))

    @torch.no_grad()
    def trace(self, tokens: Int[Tensor, "B T"]) -> ModelTrace:
        """The same without gradients, for whoever shows it."""
        return self.run(tokens)

    def without_head(self, layer: int, head: int) -> "Model":
        """The model with what one head gives out set to 0: its columns of `w_o` are.

        Raises:
            ValueError: there is no such layer or head.
        """
        config = self.config
        for name, index, number in (("layer", layer, config.layers), ("head", head, config.heads)):
            if not 0 <= index < number:
                raise ValueError(f"{name} is {index}; it must be from 0 to {number - 1}.")
        name = f"layers.{layer}.w_o"
        w_o = self.parameters[name].detach().clone()
        w_o[:, head * config.head_dim : (head + 1) * config.head_dim] = 0
        return Model(config, {**self.parameters, name: w_o})

    def layer(self, index: int) -> tuple[AttentionParameters, tuple[Tensor, Tensor], BlockParameters | None]:
        """The parameters of one layer: its attention, the norm before it, and the whole block if it is one."""
        p, before = self.parameters, f"layers.{index}."
        attention = AttentionParameters(*(p[before + name] for name in _ATTENTION))
        norm = p[before + _NORM[0]], p[before + _NORM[1]]
        if not self.config.feed_forward:
            return attention, norm, None
        rest = (p[before + name] for name in _FEED_FORWARD)
        return attention, norm, BlockParameters(attention, *norm, *rest)

    def to(self, dtype: torch.dtype) -> "Model":
        """The same numbers in another precision."""
        return Model(self.config, {name: tensor.to(dtype) for name, tensor in self.parameters.items()})

    def _run_layer(
        self, index: int, x: Float[Tensor, "B T E"], allowed: Bool[Tensor, "T T"] | None
    ) -> AttentionLayerTrace | BlockTrace:
        parameters, norm, block = self.layer(index)
        heads = self.config.heads
        if block is not None:
            return run_block(x, block, heads, allowed, norm_first=True, activation=ACTIVATION)
        norm_1 = layer_norm(x, *norm)
        attention = attend(norm_1, parameters, heads, allowed)
        return AttentionLayerTrace(x, norm_1, attention, x + attention.output)


def draw(config: TrainConfig) -> Model:
    """The model before any training: weights normal with standard deviation 1/√(their inputs), biases 0."""
    return Model(config, {name: _drawn(name, shape, config) for name, shape in shapes(config).items()})


def shapes(config: TrainConfig) -> dict[str, tuple[int, ...]]:
    """The name and shape of each parameter; weights are (out, in)."""
    width, hidden, vocabulary = config.width, 2 * config.width, len(config.learns.vocabulary)
    of_layer: dict[str, tuple[int, ...]] = {
        **{name: (width, width) if name[0] == "w" else (width,) for name in _ATTENTION},
        **dict.fromkeys(_NORM, (width,)),
    }
    if config.feed_forward:
        own = ((width,), (width,), (hidden, width), (hidden,), (width, hidden), (width,))
        of_layer |= dict(zip(_FEED_FORWARD, own, strict=True))
    found: dict[str, tuple[int, ...]] = {"tokens": (vocabulary, width), "positions": (config.learns.length, width)}
    for index in range(config.layers):
        found |= {f"layers.{index}.{name}": shape for name, shape in of_layer.items()}
    return {**found, "unembed.w": (vocabulary, width), "unembed.b": (vocabulary,)}


def allowed_by(config: TrainConfig, num_tokens: int) -> Bool[Tensor, "T T"] | None:
    """The mask: causal, or none."""
    return masks.grid(masks.causal, num_tokens) if config.causal else None


def check_tokens(config: TrainConfig, tokens: Tensor) -> None:
    """Refuse sequences that the model has no embedding for.

    Raises:
        ValueError: as said; the message carries the numbers.
    """
    task = config.learns
    shape, size = tuple(tokens.shape), len(task.vocabulary)
    if tokens.ndim != 2 or tokens.dtype != torch.int64 or not 1 <= shape[1] <= task.length or not shape[0]:
        raise ValueError(
            f"the tokens are {shape} of {tokens.dtype}; {task.name} takes (sequences, 1 to {task.length})."
        )
    if tokens.min() < 0 or tokens.max() >= size:
        raise ValueError(
            f"tokens run from {int(tokens.min())} to {int(tokens.max())}; {task.name} has 0 to {size - 1}."
        )


def _drawn(name: str, shape: tuple[int, ...], config: TrainConfig) -> Tensor:
    if len(shape) == 1:
        return torch.ones(shape) if name.endswith(("norm_1_weight", "norm_2_weight")) else torch.zeros(shape)
    drawn = torch.randn(shape, generator=sample.generator(f"train/{name}", config.seed), dtype=torch.float32)
    return drawn * (EMBEDDING_SCALE if name in ("tokens", "positions") else 1 / math.sqrt(shape[1]))
