"""What the calls of `differing_calls` work on: a config's tokens and parameters in PyTorch's forms."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attention import masks, reference, reference_block, sample
from attention.config import AttentionConfig


@dataclass(frozen=True)
class Scene:
    """What the calls work on: tokens and parameters of a config, in PyTorch's forms.

    `allowed` is the config's own mask, `causal` the causal one, `gap` the config's own with one row that may attend to
    nothing: the middle one. `eye` is the identity: as values it makes the context the weights. `mha` is
    `nn.MultiheadAttention` with `batch_first=True`.
    """

    config: AttentionConfig
    x: Float[Tensor, "1 T E"]
    q: Float[Tensor, "1 H T D"]
    k: Float[Tensor, "1 H T D"]
    v: Float[Tensor, "1 H T D"]
    eye: Float[Tensor, "1 H T T"]
    allowed: Bool[Tensor, "T T"]
    causal: Bool[Tensor, "T T"]
    gap: Bool[Tensor, "T T"]
    mha: Callable[..., tuple[Tensor, Tensor]]

    @cached_property
    def layer(self) -> Callable[..., Tensor]:
        """The encoder layer with the config's block in it, `batch_first=True`, post-norm."""
        block = sample.draw_block(self.config)
        heads = self.config.num_heads
        return reference_block.as_layer(block, heads, norm_first=False, activation="gelu", batch_first=True)

    @property
    def last(self) -> Float[Tensor, "1 H L D"]:
        """The queries of the last half of the tokens, at least one."""
        return self.q[:, :, -max(1, self.config.num_tokens // 2) :]


def scene_of(config: AttentionConfig) -> Scene:
    """Draw a config's scene. The projections are `F.linear`; modules are built on the meta device and then filled."""
    x, p, heads = sample.draw_tokens(config), sample.draw_parameters(config), config.num_heads
    pairs = (p.w_q, p.b_q), (p.w_k, p.b_k), (p.w_v, p.b_v)
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2) for w, b in pairs)  # (1, H, T, D)
    causal = masks.grid(masks.causal, config.num_tokens)
    allowed = causal if config.causal else torch.ones_like(causal)
    gap = allowed.clone()
    gap[config.num_tokens // 2] = False
    eye = torch.eye(config.num_tokens, dtype=x.dtype).expand(1, heads, -1, -1)
    mha = reference.as_module(p, heads)
    mha.batch_first = True  # as most people build it; the fused path asks for it
    return Scene(config, x, q, k, v, eye, allowed, causal, gap, mha)
