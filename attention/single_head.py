"""One head of attention: q and k of one width, v of any: softmax(QKᵀ / √D) V.

Source: "Attention Is All You Need" (Vaswani et al., 2017), section 3.2.1, equation 1, with
Q = X W_Qᵀ, K = X W_Kᵀ and V = X W_Vᵀ.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention.multi_head import check_tokens
from attention.scaled_dot_product import scaled_dot_product

STEPS = ("q", "k", "v", "scores", "scaled", "masked", "weights", "context")


@dataclass(frozen=True)
class HeadTrace:
    """Every step of one head. The axis of heads is kept, with one head in it, so that it reads as any other trace."""

    q: Float[Tensor, "B 1 T D"]
    k: Float[Tensor, "B 1 T D"]
    v: Float[Tensor, "B 1 T V"]
    scores: Float[Tensor, "B 1 T T"]
    scaled: Float[Tensor, "B 1 T T"]
    masked: Float[Tensor, "B 1 T T"]
    weights: Float[Tensor, "B 1 T T"]
    dropped: Float[Tensor, "B 1 T T"]
    context: Float[Tensor, "B 1 T V"]

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that are compared."""
        return STEPS

    @property
    def output(self) -> Float[Tensor, "B T V"]:
        """What one head gives out: its context, without the axis of heads."""
        return self.context.squeeze(1)


class SelfAttention(nn.Module):
    """One head over tokens of width `embed_dim`; `head_dim` is the width of q and k, `value_dim` that of v.

    Args:
        embed_dim: the width of the tokens.
        head_dim: D, the width of queries and keys; it sets the scale 1/√D.
        value_dim: the width of values, and so of what comes out; that of the tokens unless given.
        bias: whether the three projections have one.

    Raises:
        ValueError: a width is no whole number from 1 up.

    Example:
        >>> from torch import zeros
        >>> SelfAttention(256, head_dim=64)(zeros(1, 5, 256)).shape
        torch.Size([1, 5, 256])
    """

    def __init__(self, embed_dim: int, head_dim: int, value_dim: int | None = None, *, bias: bool = False) -> None:
        super().__init__()
        value_dim = embed_dim if value_dim is None else value_dim
        for name, width in (("embed_dim", embed_dim), ("head_dim", head_dim), ("value_dim", value_dim)):
            if isinstance(width, bool) or not isinstance(width, int) or width < 1:
                raise ValueError(f"{name} is {width!r}; it must be a whole number from 1 up.")
        self.w_q = nn.Linear(embed_dim, head_dim, bias=bias)
        self.w_k = nn.Linear(embed_dim, head_dim, bias=bias)
        self.w_v = nn.Linear(embed_dim, value_dim, bias=bias)

    def forward(self, x: Float[Tensor, "B T E"], allowed: Bool[Tensor, "T T"] | None = None) -> Float[Tensor, "B T V"]:
        """The context of every token; `allowed` as in `scaled_dot_product`."""
        return self.trace(x, allowed).output

    def trace(self, x: Float[Tensor, "B T E"], allowed: Bool[Tensor, "T T"] | None = None) -> HeadTrace:
        """Every step, the last of which is what `forward` gives."""
        return attend_one(x, (self.w_q, self.w_k, self.w_v), allowed)


def attend_one(
    x: Float[Tensor, "B T E"],
    projections: tuple[nn.Linear, nn.Linear, nn.Linear],
    allowed: Bool[Tensor, "T T"] | None = None,
    drop: Callable[[Tensor], Tensor] | None = None,
) -> HeadTrace:
    """One head with these projections to q, k and v.

    Raises:
        ValueError: the tokens do not fit the projections, or the mask the tokens.
    """
    to_q, to_k, to_v = projections
    check_tokens(x, to_q.weight)
    q, k, v = (to(x).unsqueeze(1) for to in (to_q, to_k, to_v))  # (B, T, D) -> (B, 1, T, D)
    return HeadTrace(q, k, v, *scaled_dot_product(q, k, v, allowed, drop))
