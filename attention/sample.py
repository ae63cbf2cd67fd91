"""Tokens and parameters of a scene: seeded random numbers, each named tensor from a generator of its own.

Where the scene's weights are those of a trained layer, they and the tokens are that layer's (`trained.inputs`), and
what it has not, such as a feed-forward network, is random. They are imported when they are wanted: what is trained is
itself made of what stands on this file.

A generator is seeded with a digest of (seed, name), so that tensors do not depend on the order
in which they are drawn, on other sessions in the process, or on the global random state, which
is neither read nor changed.
"""

import hashlib
import math
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from attention.config import MAX_TOKENS, AttentionConfig


@dataclass(frozen=True)
class AttentionParameters:
    """The weights and biases of one multi-head attention; weights are (out, in), as `F.linear` takes them.

    The tokens may be of another width than the embedding that comes out.
    """

    w_q: Float[Tensor, "E in"]
    b_q: Float[Tensor, " E"]
    w_k: Float[Tensor, "E in"]
    b_k: Float[Tensor, " E"]
    w_v: Float[Tensor, "E in"]
    b_v: Float[Tensor, " E"]
    w_o: Float[Tensor, "E E"]
    b_o: Float[Tensor, " E"]

    def to(self, dtype: torch.dtype) -> "AttentionParameters":
        """The same numbers in another precision."""
        return AttentionParameters(*(getattr(self, f.name).to(dtype) for f in fields(self)))


# the state of a `SelfAttention`, by name
HeadWeights = dict[str, Tensor]


@dataclass(frozen=True)
class BlockParameters:
    """The weights and biases of one transformer block; F is the width inside its feed-forward network."""

    attention: AttentionParameters
    norm_1_weight: Float[Tensor, " E"]
    norm_1_bias: Float[Tensor, " E"]
    norm_2_weight: Float[Tensor, " E"]
    norm_2_bias: Float[Tensor, " E"]
    w_1: Float[Tensor, "F E"]
    b_1: Float[Tensor, " F"]
    w_2: Float[Tensor, "E F"]
    b_2: Float[Tensor, " E"]

    def to(self, dtype: torch.dtype) -> "BlockParameters":
        """The same numbers in another precision."""
        return BlockParameters(*(getattr(self, f.name).to(dtype) for f in fields(self)))


def draw_tokens(config: AttentionConfig) -> Float[Tensor, "1 T E"]:
    """Standard normal token embeddings, in the config's dtype; with trained weights what their layer is given.

    Drawn for the largest number of tokens and cut: PyTorch's generator gives other first values
    for other sizes, and a reader who adds a token must see the earlier ones stay.
    """
    if config.trained:
        from attention.trained import inputs

        return inputs.tokens(config)
    embeddings = _draw("tokens", (MAX_TOKENS, config.embed_dim), config.seed)
    # clone: a view would keep all the MAX_TOKENS rows alive
    return embeddings[None, : config.num_tokens].clone().to(config.torch_dtype)


def draw_stream(config: AttentionConfig) -> Float[Tensor, "1 T E"]:
    """What goes into the first block: the tokens; with trained weights what goes into their layer."""
    if config.trained:
        from attention.trained import inputs

        return inputs.stream(config)
    return draw_tokens(config)


def draw_parameters(config: AttentionConfig) -> AttentionParameters:
    """Weights and biases with standard deviation 1/√E, in the config's dtype; or the trained ones.

    With it q, k and v have about unit variance for standard normal tokens. Biases are drawn too:
    zero biases would hide an attention that drops them.
    """
    if config.trained:
        from attention.trained import inputs

        return inputs.parameters(config)
    scale = 1 / math.sqrt(config.embed_dim)
    shapes = {"w": (config.embed_dim, config.embed_dim), "b": (config.embed_dim,)}
    return AttentionParameters(
        *(_draw(f.name, shapes[f.name[0]], config.seed).mul_(scale) for f in fields(AttentionParameters))
    ).to(config.torch_dtype)


def draw_head(config: AttentionConfig, head_dim: int, value_dim: int, head: int = 0) -> HeadWeights:
    """The state of a `SelfAttention` without biases, with standard deviation 1/√E, in the config's dtype.

    With trained weights it is one head of their layer, with its biases and its own width.
    """
    if config.trained:
        from attention.trained import inputs

        return inputs.head_weights(config, head)
    widths = {"w_q": head_dim, "w_k": head_dim, "w_v": value_dim}
    scale = 1 / math.sqrt(config.embed_dim)
    return {
        f"{name}.weight": _draw(f"head/{name}", (width, config.embed_dim), config.seed)
        .mul_(scale)
        .to(config.torch_dtype)
        for name, width in widths.items()
    }


def draw_block(config: AttentionConfig, index: int = 0) -> BlockParameters:
    """One block's parameters, in the config's dtype; block 0 attends with the parameters of `draw_parameters`.

    With trained weights it is a whole layer of theirs, if that has a feed-forward network. If not, only the attention
    of block 0 is trained, and all else random.

    Weights have standard deviation 1/√(their inputs) and biases 1/√E. LayerNorm's scale is drawn about 1 and
    its shift about 0, both with a deviation of 0.2: with 1 and 0, as modules begin, a norm that forgets
    them would go unseen.
    """
    if config.trained and config.trained.blocks:
        from attention.trained import inputs

        return inputs.block(config, index)
    embed_dim, hidden = config.embed_dim, 4 * config.embed_dim

    def drawn(name: str, *shape: int, scale: float) -> Tensor:
        return _draw(f"block {index}/{name}", shape, config.seed).mul_(scale)

    small = 1 / math.sqrt(embed_dim)
    attention = (
        draw_parameters(config)
        if index == 0
        else AttentionParameters(
            *(
                drawn(f.name, *((embed_dim, embed_dim) if f.name[0] == "w" else (embed_dim,)), scale=small)
                for f in fields(AttentionParameters)
            )
        )
    )
    return BlockParameters(
        attention,
        1 + drawn("norm_1_weight", embed_dim, scale=0.2),
        drawn("norm_1_bias", embed_dim, scale=0.2),
        1 + drawn("norm_2_weight", embed_dim, scale=0.2),
        drawn("norm_2_bias", embed_dim, scale=0.2),
        drawn("w_1", hidden, embed_dim, scale=small),
        drawn("b_1", hidden, scale=small),
        drawn("w_2", embed_dim, hidden, scale=1 / math.sqrt(hidden)),
        drawn("b_2", embed_dim, scale=small),
    ).to(config.torch_dtype)


def generator(name: str, seed: int) -> torch.Generator:
    """A generator of its own for each name.

    The digest is what tells them apart: PyTorch's CPU generator takes no more than the lower 32 bits of a seed.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "little", signed=True))


def _draw(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """A standard normal tensor that depends on its name, its shape and the seed, and on nothing else.

    Always drawn in float32 on the CPU: a stream differs by dtype and by device, and a change of
    precision must not change the experiment.
    """
    return torch.randn(shape, generator=generator(name, seed), dtype=torch.float32, device="cpu")
