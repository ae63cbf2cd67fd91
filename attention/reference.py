"""PyTorch's own answer for every step, on the same numbers.

Nothing here is shared with what it checks. PyTorch's hidden switches are fixed, so that the
answer does not depend on who asks:

- eval mode, so no dropout;
- `batch_first=False`, which keeps `nn.MultiheadAttention` on its ordinary path (with
  `batch_first=True`, in eval mode with gradients off, an even head count takes a fused one);
- `average_attn_weights=False`: by default the heads come back averaged;
- the mask of `nn.MultiheadAttention` is `~allowed`: there True = blocked;
- a mask is always handed over: `is_causal=True` alone raises in `nn.MultiheadAttention`.

A row that may attend to nothing is zeros in `F.scaled_dot_product_attention` and NaN in
`nn.MultiheadAttention` when it is asked for its weights. Where a mask has such a row, weights
and output come from the path that gives zeros.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention.multi_head import AttentionTrace
from attention.sample import AttentionParameters, HeadWeights
from attention.single_head import HeadTrace


def attend(
    tokens: Float[Tensor, "B T E"],
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None = None,
    memory: Float[Tensor, "B S E"] | None = None,
) -> AttentionTrace:
    """The steps of `multi_head.attend`, each by the PyTorch call that stands for it.

    | step | call |
    |---|---|
    | q k v | `F.linear` with the packed weights |
    | scores, scaled, masked | `torch.baddbmm`, as in `F.multi_head_attention_forward` |
    | weights, output | `nn.MultiheadAttention` |
    | context | `F.scaled_dot_product_attention` |
    | merged | that context, head after head, by `torch.cat` |
    """
    batch, num_tokens, _ = tokens.shape
    memory = tokens if memory is None else memory
    num_keys = memory.shape[1]
    if allowed is None:
        allowed = torch.ones(num_tokens, num_keys, dtype=torch.bool)
    module = as_module(parameters, num_heads)
    q, k, v = _packed(module, tokens)  # (B, H, T, D)
    if memory is not tokens:
        _, k, v = _packed(module, memory)  # (B, H, S, D)

    per_head = allowed.expand(batch, num_heads, num_tokens, num_keys)
    scores, scaled, masked = _before_softmax(q, k, allowed)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=per_head)
    weights, output = _module_answer(module, tokens, memory, q, k, per_head)
    return AttentionTrace(
        q=q,
        k=k,
        v=v,
        scores=scores,
        scaled=scaled,
        masked=masked,
        weights=weights,
        dropped=weights,
        context=context,
        merged=torch.cat(context.unbind(dim=1), dim=-1),
        output=output,
    )


def attend_one(
    tokens: Float[Tensor, "B T E"],
    weights: HeadWeights,
    allowed: Bool[Tensor, "T T"] | None = None,
) -> HeadTrace:
    """The steps of `single_head.SelfAttention`, whose state `weights` is, each by the PyTorch call that stands for it.

    | step | call |
    |---|---|
    | q k v | `F.linear` |
    | scores, scaled, masked | `torch.baddbmm` |
    | weights | `F.scaled_dot_product_attention` with the identity for values |
    | context | `F.scaled_dot_product_attention` |
    """
    num_tokens = tokens.shape[1]
    if allowed is None:
        allowed = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    q, k, v = (
        F.linear(tokens, weights[f"{name}.weight"], weights.get(f"{name}.bias"))[:, None]
        for name in ("w_q", "w_k", "w_v")
    )  # (B, 1, T, D)
    scores, scaled, masked = _before_softmax(q, k, allowed)
    identity = torch.eye(num_tokens, dtype=tokens.dtype).expand(len(tokens), 1, -1, -1)
    found = F.scaled_dot_product_attention(q, k, identity, attn_mask=allowed)
    return HeadTrace(
        q=q,
        k=k,
        v=v,
        scores=scores,
        scaled=scaled,
        masked=masked,
        weights=found,
        dropped=found,
        context=F.scaled_dot_product_attention(q, k, v, attn_mask=allowed),
    )


def as_module(parameters: AttentionParameters, num_heads: int) -> nn.MultiheadAttention:
    """`nn.MultiheadAttention` in eval mode, holding these very parameters.

    Built on the meta device: the usual constructor draws from the global random state.
    """
    p = parameters
    embed_dim = p.w_q.shape[0]
    module = nn.MultiheadAttention(embed_dim, num_heads, device="meta", dtype=p.w_q.dtype).eval()
    module.load_state_dict(
        {
            "in_proj_weight": torch.cat([p.w_q, p.w_k, p.w_v]),
            "in_proj_bias": torch.cat([p.b_q, p.b_k, p.b_v]),
            "out_proj.weight": p.w_o,
            "out_proj.bias": p.b_o,
        },
        assign=True,
    )
    return module


def _packed(module: nn.MultiheadAttention, tokens: Float[Tensor, "B T E"]) -> Float[Tensor, "3 B H T D"]:
    """All three projections of the tokens by the packed weights, one head after the other."""
    projected = F.linear(tokens, module.in_proj_weight, module.in_proj_bias)
    heads: Tensor = projected.unflatten(-1, (3, module.num_heads, -1))
    return heads.permute(2, 0, 3, 1, 4)


def _before_softmax(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"],
) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B H T S"], Float[Tensor, "B H T S"]]:
    """Scores, scaled and masked."""
    additive = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -math.inf)
    additive = additive.expand(*q.shape[:3], k.shape[2]).flatten(0, 1)  # (B·H, T, S), heads of one sequence together
    nothing = torch.zeros((), dtype=q.dtype).expand(additive.shape)
    scale = 1 / math.sqrt(q.shape[-1])
    return _products(nothing, q, k, 1.0), _products(nothing, q, k, scale), _products(additive, q, k, scale)


def _products(
    added: Float[Tensor, "BH T S"], q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], scale: float
) -> Float[Tensor, "B H T S"]:
    """Added + scale · q kᵀ, in PyTorch's one call for it."""
    flat: Tensor = torch.baddbmm(added, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=scale)
    batch, heads = q.shape[:2]
    return flat.view(batch, heads, *flat.shape[1:])


def _module_answer(
    module: nn.MultiheadAttention,
    tokens: Float[Tensor, "B T E"],
    memory: Float[Tensor, "B S E"],
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    per_head: Bool[Tensor, "B H T S"],
) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B T E"]]:
    """Weights and output of the module; (T, B, E) is its native order."""
    x, m = tokens.transpose(0, 1), memory.transpose(0, 1)
    blocked = ~per_head.flatten(0, 1)  # (B·H, T, S), heads of one sequence next to each other
    has_empty_row = bool(blocked.all(dim=-1).any())
    output, weights = module(x, m, m, attn_mask=blocked, need_weights=not has_empty_row, average_attn_weights=False)
    if has_empty_row:
        identity = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:3], -1)
        weights = F.scaled_dot_product_attention(q, k, identity, attn_mask=per_head)
    return weights, output.transpose(0, 1)
