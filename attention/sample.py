"""Seeded tokens and parameters: each named tensor has a random generator of its own.

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
    """The weights and biases of one multi-head attention; weights are (out, in), as `F.linear` takes them."""

    w_q: Float[Tensor, "E E"]
    b_q: Float[Tensor, " E"]
    w_k: Float[Tensor, "E E"]
    b_k: Float[Tensor, " E"]
    w_v: Float[Tensor, "E E"]
    b_v: Float[Tensor, " E"]
    w_o: Float[Tensor, "E E"]
    b_o: Float[Tensor, " E"]

    def to(self, dtype: torch.dtype) -> "AttentionParameters":
        """The same numbers in another precision."""
        return AttentionParameters(*(getattr(self, f.name).to(dtype) for f in fields(self)))


def draw_tokens(config: AttentionConfig) -> Float[Tensor, "1 T E"]:
    """Standard normal token embeddings, in the config's dtype.

    Drawn for the largest number of tokens and cut: PyTorch's generator gives other first values
    for other sizes, and a reader who adds a token must see the earlier ones stay.
    """
    embeddings = _draw("tokens", (MAX_TOKENS, config.embed_dim), config.seed)
    # clone: a view would keep all the MAX_TOKENS rows alive
    return embeddings[None, : config.num_tokens].clone().to(config.torch_dtype)


def draw_parameters(config: AttentionConfig) -> AttentionParameters:
    """Weights and biases with standard deviation 1/√E, in the config's dtype.

    With it q, k and v have about unit variance for standard normal tokens. Biases are drawn too:
    zero biases would hide an attention that drops them.
    """
    scale = 1 / math.sqrt(config.embed_dim)
    shapes = {"w": (config.embed_dim, config.embed_dim), "b": (config.embed_dim,)}
    return AttentionParameters(
        *(_draw(f.name, shapes[f.name[0]], config.seed).mul_(scale) for f in fields(AttentionParameters))
    ).to(config.torch_dtype)


def _draw(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    """A standard normal tensor that depends on its name, its shape and the seed, and on nothing else.

    Always drawn in float32 on the CPU: a stream differs by dtype and by device, and a change of
    precision must not change the experiment.
    """
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    generator = torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "little", signed=True))
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
