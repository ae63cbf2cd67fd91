"""The five controls (and the dtype) as one frozen, validated value; it keys every cache."""

from dataclasses import dataclass
from typing import Final

import torch

from attention.trained_layers import TRAINED_LAYERS, TrainedLayer

MAX_EMBED_DIM: Final = 1024
MAX_HEADS: Final = 32
MAX_TOKENS: Final = 256
MAX_SEED: Final = 2**32 - 1
RANDOM: Final = "random"
DTYPES: Final[dict[str, torch.dtype]] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """One scene: sizes, seed, mask, precision, and whose weights it has.

    The defaults are the multi-head scene of the transformer paper's base model as it is often
    coded: 12 heads over 768 dimensions, and a causal mask.

    `weights` are random, or those of a trained layer (`TRAINED_LAYERS`). Then the tokens are what the attention of
    that layer is given for a sequence of its task, and the seed says which sequence. Heads and mask may be others
    than it was trained with.

    Raises:
        ValueError: a value is not a whole number, lies outside its limits, `embed_dim` does
            not divide by `num_heads`, or the sizes are not possible with these trained weights. The message carries
            the numbers and says what would do.

    Example:
        >>> AttentionConfig(embed_dim=12, num_heads=3).head_dim
        4
    """

    embed_dim: int = 768
    num_heads: int = 12
    num_tokens: int = 16
    seed: int = 42
    causal: bool = True
    dtype: str = "float32"
    weights: str = RANDOM

    def __post_init__(self) -> None:
        check_whole("embed_dim", self.embed_dim, 1, MAX_EMBED_DIM)
        check_whole("num_heads", self.num_heads, 1, MAX_HEADS)
        check_whole("num_tokens", self.num_tokens, 1, MAX_TOKENS)
        check_whole("seed", self.seed, 0, MAX_SEED)
        if not isinstance(self.causal, bool):
            raise ValueError(f"causal is {self.causal!r}; it must be True or False.")
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}.")
        if self.embed_dim % self.num_heads:
            raise ValueError(
                f"embed_dim {self.embed_dim} does not divide into {self.num_heads} heads; "
                f"head counts that do: {', '.join(map(str, head_counts(self.embed_dim)))}."
            )
        self._check_weights()

    def _check_weights(self) -> None:
        if self.weights == RANDOM:
            return
        if not isinstance(self.weights, str) or self.weights not in TRAINED_LAYERS:
            raise ValueError(
                f"weights is {self.weights!r}; it must be {RANDOM}, or one of {'; '.join(TRAINED_LAYERS)}."
            )
        layer = TRAINED_LAYERS[self.weights]
        if self.embed_dim != layer.width:
            raise ValueError(f"embed_dim is {self.embed_dim}; the weights of {self.weights} have {layer.width}.")
        if self.num_tokens > layer.length:
            raise ValueError(
                f"num_tokens is {self.num_tokens}; the sequences of {layer.task} have up to {layer.length}."
            )

    @property
    def trained(self) -> TrainedLayer | None:
        """The trained layer whose weights it has, or None where they are random."""
        return TRAINED_LAYERS.get(self.weights)

    @property
    def head_dim(self) -> int:
        """D, the width of one head: `embed_dim / num_heads`."""
        return self.embed_dim // self.num_heads

    @property
    def in_words(self) -> dict[str, str]:
        """Each setting in words, by its name."""
        return {
            "embed_dim": f"embed dim {self.embed_dim}",
            "num_heads": "1 head" if self.num_heads == 1 else f"{self.num_heads} heads",
            "num_tokens": "1 token" if self.num_tokens == 1 else f"{self.num_tokens} tokens",
            "seed": f"seed {self.seed}",
            "causal": "causal" if self.causal else "no mask",
            "dtype": self.dtype,
            "weights": "random weights" if self.trained is None else f"weights of {self.weights}",
        }

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as PyTorch's own object."""
        return DTYPES[self.dtype]


def head_counts(embed_dim: int) -> tuple[int, ...]:
    """The head counts up to `MAX_HEADS` that divide `embed_dim`, in rising order.

    Example:
        >>> head_counts(20)
        (1, 2, 4, 5, 10, 20)
    """
    return tuple(n for n in range(1, min(embed_dim, MAX_HEADS) + 1) if embed_dim % n == 0)


def nearest_head_count(embed_dim: int, wanted: int) -> int:
    """The allowed head count nearest to `wanted`; of two equally near, the smaller.

    Example:
        >>> nearest_head_count(20, 12)
        10
    """
    return min(head_counts(embed_dim), key=lambda count: (abs(count - wanted), count))


def check_whole(name: str, value: object, smallest: int, largest: int) -> None:
    """Refuse what is no whole number within its limits.

    Raises:
        ValueError: as said; the message carries the name, the value and the limits.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {value!r}; it must be a whole number.")
    if not smallest <= value <= largest:
        raise ValueError(f"{name} is {value}; it must be from {smallest} to {largest}.")
