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
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention.multi_head import STEPS
from attention.sample import AttentionParameters, HeadWeights
from attention.single_head import HeadTrace


@dataclass(frozen=True)
class ReferenceTrace:
    """PyTorch's answer for every step that `multi_head.AttentionTrace` has.

    What comes before the softmax is computed when it is asked for, each by a call of its own from q and k, and not
    kept: all steps of a large scene at once would fill the memory of a small machine.
    """

    q: Float[Tensor, "B H T D"]
    k: Float[Tensor, "B H S D"]
    v: Float[Tensor, "B H S D"]
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"]
    weights: Float[Tensor, "B H T S"]
    context: Float[Tensor, "B H T D"]
    output: Float[Tensor, "B T E"]

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that are compared."""
        return STEPS

    @property
    def scores(self) -> Float[Tensor, "B H T S"]:
        """Query times key."""
        return _scores(self.q, self.k)

    @property
    def scaled(self) -> Float[Tensor, "B H T S"]:
        """The same over √D, in one call from q and k."""
        return _scaled(self.q, self.k)

    @property
    def masked(self) -> Float[Tensor, "B H T S"]:
        """The same with -inf added where nothing may be attended to."""
        return _masked(self.q, self.k, self.allowed)

    @property
    def dropped(self) -> Float[Tensor, "B H T S"]:
        """The weights: PyTorch is never run with dropout, since it draws from the random state of the process."""
        return self.weights

    @property
    def merged(self) -> Float[Tensor, "B T E"]:
        """The context, head after head."""
        return torch.cat(self.context.unbind(dim=1), dim=-1)


def attend(
    tokens: Float[Tensor, "B T E"],
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None = None,
    memory: Float[Tensor, "B S E"] | None = None,
) -> ReferenceTrace:
    """The steps of `multi_head.attend`, each by the PyTorch call that stands for it.

    | step | call |
    |---|---|
    | q k v | `F.linear` with the packed weights |
    | scores, scaled, masked | `torch.baddbmm`, as in `F.multi_head_attention_forward` |
    | weights, output | `nn.MultiheadAttention` |
    | context | `F.scaled_dot_product_attention` |
    | merged | that context, head after head, by `torch.cat` |
    """
    return attend_with(as_module(parameters, num_heads), tokens, allowed, memory)


def attend_with(
    module: nn.MultiheadAttention,
    tokens: Float[Tensor, "B T E"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"] | None = None,
    memory: Float[Tensor, "B S E"] | None = None,
) -> ReferenceTrace:
    """The same, by a module that holds the parameters already."""
    memory = tokens if memory is None else memory
    num_tokens, num_keys = tokens.shape[1], memory.shape[1]
    if allowed is None:
        allowed = torch.ones(num_tokens, num_keys, dtype=torch.bool)
    q, k, v = _packed(module, tokens)  # (B, H, T, D)
    if memory is not tokens:
        _, k, v = _packed(module, memory)  # (B, H, S, D)

    per_head = allowed.expand(*q.shape[:3], num_keys)
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=per_head)
    weights, output = _module_answer(module, tokens, memory, q, k, allowed)
    return ReferenceTrace(q, k, v, allowed, weights, context, output)


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
    identity = torch.eye(num_tokens, dtype=tokens.dtype).expand(len(tokens), 1, -1, -1)
    found = F.scaled_dot_product_attention(q, k, identity, attn_mask=allowed)
    return HeadTrace(
        q=q,
        k=k,
        v=v,
        scores=_scores(q, k),
        scaled=_scaled(q, k),
        masked=_masked(q, k, allowed),
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


def _scores(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"]) -> Float[Tensor, "B H T S"]:
    return _products(_nothing(q), q, k, 1.0)


def _scaled(q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"]) -> Float[Tensor, "B H T S"]:
    return _products(_nothing(q), q, k, 1 / math.sqrt(q.shape[-1]))


def _masked(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"],
) -> Float[Tensor, "B H T S"]:
    added = torch.zeros(allowed.shape, dtype=q.dtype).masked_fill(~allowed, -math.inf)
    return _products(added, q, k, 1 / math.sqrt(q.shape[-1]))


def _nothing(q: Tensor) -> Tensor:
    """What is added where nothing is."""
    return torch.zeros((), dtype=q.dtype)


def _products(
    added: Tensor, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B H S D"], scale: float
) -> Float[Tensor, "B H T S"]:
    """Added + scale · q kᵀ, in PyTorch's one call for it, with the heads of one sequence together: (B·H, T, S)."""
    added = added.expand(*q.shape[:3], k.shape[2]).flatten(0, 1)
    flat: Tensor = torch.baddbmm(added, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=scale)
    batch, heads = q.shape[:2]
    return flat.view(batch, heads, *flat.shape[1:])


def _module_answer(
    module: nn.MultiheadAttention,
    tokens: Float[Tensor, "B T E"],
    memory: Float[Tensor, "B S E"],
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B H S D"],
    allowed: Bool[Tensor, "#B #H T S"] | Bool[Tensor, "T S"],
) -> tuple[Float[Tensor, "B H T S"], Float[Tensor, "B T E"]]:
    """Weights and output of the module; (T, B, E) is its native order."""
    x, m = tokens.transpose(0, 1), memory.transpose(0, 1)
    per_head = allowed.expand(*q.shape[:3], k.shape[2])
    # one mask for all, or (B·H, T, S), heads of one sequence next to each other
    blocked = ~(allowed if allowed.ndim == 2 else per_head.flatten(0, 1))
    has_empty_row = bool(blocked.all(dim=-1).any())
    output, weights = module(x, m, m, attn_mask=blocked, need_weights=not has_empty_row, average_attn_weights=False)
    if has_empty_row:
        identity = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:3], -1)
        weights = F.scaled_dot_product_attention(q, k, identity, attn_mask=per_head)
    return weights, output.transpose(0, 1)
