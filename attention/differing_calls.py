"""Calls of PyTorch that look alike and are not: for each hidden switch, the pairs that show it.

Every call is one small function, and its source is what the page shows. Gradients are on, as they are when nobody
says otherwise, and modules are in eval mode; so `nn.MultiheadAttention` keeps to its ordinary path unless a call says
`torch.no_grad()`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from attention import masks, sample
from attention.block import run_block
from attention.differing_scene import Scene
from attention.masks import Corner
from attention.multi_head import AttentionTrace, allowed_by, attend


def sdpa_mask(s: Scene) -> Tensor:
    """True = may attend. The identity in place of v gives the weights."""
    return F.scaled_dot_product_attention(s.q, s.k, s.eye, attn_mask=s.allowed)


def mha_same_mask(s: Scene) -> Tensor:
    """The very same mask: here True = blocked."""
    return s.mha(s.x, s.x, s.x, attn_mask=s.allowed, average_attn_weights=False)[1]


def mha_turned_mask(s: Scene) -> Tensor:
    """The mask turned round, as this module means it; the weights of every head."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.allowed, average_attn_weights=False)[1]


def mha_averaged(s: Scene) -> Tensor:
    """By default average_attn_weights=True."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.allowed)[1]


def mha_with_weights(s: Scene) -> Tensor:
    """Asked for weights, which is the default."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.allowed, need_weights=True)[0]


def mha_without_weights(s: Scene) -> Tensor:
    """Not asked for weights."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.allowed, need_weights=False)[0]


def mha_gap_with_weights(s: Scene) -> Tensor:
    """One query may attend to nothing; asked for weights."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.gap, need_weights=True)[0]


def mha_gap_without_weights(s: Scene) -> Tensor:
    """One query may attend to nothing; not asked for weights."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.gap, need_weights=False)[0]


def sdpa_is_causal(s: Scene) -> Tensor:
    """Here is_causal is a mask."""
    return F.scaled_dot_product_attention(s.q, s.k, s.eye, is_causal=True)


def mha_is_causal(s: Scene) -> Tensor:
    """Here is_causal is a hint about a mask, and there is none."""
    return s.mha(s.x, s.x, s.x, is_causal=True, average_attn_weights=False)[1]


def mha_is_causal_with_mask(s: Scene) -> Tensor:
    """The hint, and the mask that it is about."""
    return s.mha(s.x, s.x, s.x, is_causal=True, attn_mask=~s.causal, average_attn_weights=False)[1]


def mha_is_causal_no_grad(s: Scene) -> Tensor:
    """The hint without a mask, gradients off."""
    with torch.no_grad():
        return s.mha(s.x, s.x, s.x, is_causal=True, average_attn_weights=False)[1]


def layer_is_causal(s: Scene) -> Tensor:
    """The hint without a mask, gradients on."""
    return s.layer(s.x, is_causal=True)


def layer_is_causal_no_grad(s: Scene) -> Tensor:
    """The hint without a mask, gradients off."""
    with torch.no_grad():
        return s.layer(s.x, is_causal=True)


def layer_is_causal_with_mask(s: Scene) -> Tensor:
    """The hint, and the mask that it is about."""
    with torch.no_grad():
        return s.layer(s.x, is_causal=True, src_mask=~s.causal)


def layer_grad(s: Scene) -> Tensor:
    """Gradients on, as they are by default."""
    return s.layer(s.x, src_mask=~s.allowed)


def layer_no_grad(s: Scene) -> Tensor:
    """Gradients off."""
    with torch.no_grad():
        return s.layer(s.x, src_mask=~s.allowed)


def mha_no_grad(s: Scene) -> Tensor:
    """Gradients off."""
    with torch.no_grad():
        return s.mha(s.x, s.x, s.x, attn_mask=~s.allowed, need_weights=True)[0]


def sdpa_gap(s: Scene) -> Tensor:
    """One query may attend to nothing."""
    return F.scaled_dot_product_attention(s.q, s.k, s.eye, attn_mask=s.gap)


def mha_gap(s: Scene) -> Tensor:
    """One query may attend to nothing; the weights of every head."""
    return s.mha(s.x, s.x, s.x, attn_mask=~s.gap, average_attn_weights=False)[1]


def sdpa_gap_context(s: Scene) -> Tensor:
    """One query may attend to nothing; -inf for what is forbidden."""
    return F.scaled_dot_product_attention(s.q, s.k, s.v, attn_mask=s.gap)


def sdpa_gap_finfo_min(s: Scene) -> Tensor:
    """The least number of the dtype for what is forbidden."""
    lowest = torch.finfo(s.x.dtype).min
    added = torch.zeros_like(s.gap, dtype=s.x.dtype).masked_fill(~s.gap, lowest)
    return F.scaled_dot_product_attention(s.q, s.k, s.v, attn_mask=added)


def sdpa_top_left(s: Scene) -> Tensor:
    """Fewer queries than keys: the last tokens ask."""
    return F.scaled_dot_product_attention(s.last, s.k, s.eye, is_causal=True)


def sdpa_lower_right(s: Scene) -> Tensor:
    """The same, with PyTorch's other corner."""
    mask = causal_lower_right(s.last.shape[2], s.k.shape[2])
    return F.scaled_dot_product_attention(s.last, s.k, s.eye, attn_mask=mask)


Call = Callable[[Scene], Tensor]


@dataclass(frozen=True)
class Ours:
    """What both calls of a pair are compared with: of our own code, and what that is in words.

    `context` and `weights` are (1, H, …), `output` is (1, T, E).
    """

    what: str
    find: Callable[[Scene], Tensor]
    has_empty_row: bool = False


def _trace(s: Scene, allowed: Tensor | None) -> AttentionTrace:
    return attend(s.x, sample.draw_parameters(s.config), s.config.num_heads, allowed)


def _block(s: Scene, allowed: Tensor | None) -> Tensor:
    return run_block(s.x, sample.draw_block(s.config), s.config.num_heads, allowed).output


def _lower_right(s: Scene) -> Tensor:
    count = s.last.shape[2]
    allowed = masks.grid(masks.causal, count, s.config.num_tokens, corner=Corner.BOTTOM_RIGHT)
    queries = s.x[:, -count:]
    parameters = sample.draw_parameters(s.config)
    return attend(queries, parameters, s.config.num_heads, allowed, memory=s.x).weights


WEIGHTS: Final = Ours("ours under the scene's mask", lambda s: _trace(s, allowed_by(s.config)).weights)
OUTPUT: Final = Ours("ours under the scene's mask", lambda s: _trace(s, allowed_by(s.config)).output)
GAP_WEIGHTS: Final = Ours("ours, where an empty row is zeros", lambda s: _trace(s, s.gap).weights, True)
GAP_CONTEXT: Final = Ours("ours, where an empty row is zeros", lambda s: _trace(s, s.gap).context, True)
GAP_OUTPUT: Final = Ours("ours, where an empty row gives the bias", lambda s: _trace(s, s.gap).output, True)
CAUSAL_WEIGHTS: Final = Ours("ours under a causal mask", lambda s: _trace(s, s.causal).weights)
CAUSAL_BLOCK: Final = Ours("our block under a causal mask", lambda s: _block(s, s.causal))
BLOCK: Final = Ours("our block under the scene's mask", lambda s: _block(s, allowed_by(s.config)))
LOWER_RIGHT: Final = Ours("ours, aligned at the bottom-right corner", _lower_right)


@dataclass(frozen=True)
class Pair:
    """Two calls side by side: `step` says what they give, `titles` what each is, `ours` what both are held against."""

    name: str
    step: str
    left: Call
    right: Call
    titles: tuple[str, str]
    ours: Ours


_SDPA, _MHA = "F.scaled_dot_product_attention", "nn.MultiheadAttention"
_BY_GRADIENTS: Final = ("gradients on", "torch.no_grad()")

# of each switch its pairs; names of pairs are unique, so that a link needs no more than that
PAIRS: Final[dict[str, tuple[Pair, ...]]] = {
    "mask polarity": (
        Pair("the same mask", "weights", sdpa_mask, mha_same_mask, (_SDPA, _MHA), WEIGHTS),
        Pair("turned for one", "weights", sdpa_mask, mha_turned_mask, (_SDPA, f"{_MHA}, ~mask"), WEIGHTS),
    ),
    "averaged heads": (
        Pair("averaged or not", "weights", mha_averaged, mha_turned_mask, ("the default", "per head"), WEIGHTS),
    ),
    "need_weights": (
        Pair("the scene", "output", mha_with_weights, mha_without_weights, ("True", "False"), OUTPUT),
        Pair(
            "with an empty row", "output", mha_gap_with_weights, mha_gap_without_weights, ("True", "False"), GAP_OUTPUT
        ),
    ),
    "is_causal": (
        Pair("alone", "weights", sdpa_is_causal, mha_is_causal, (_SDPA, _MHA), CAUSAL_WEIGHTS),
        Pair("with a mask", "weights", sdpa_is_causal, mha_is_causal_with_mask, (_SDPA, _MHA), CAUSAL_WEIGHTS),
        Pair("no gradients", "weights", mha_is_causal, mha_is_causal_no_grad, _BY_GRADIENTS, CAUSAL_WEIGHTS),
        Pair("encoder layer", "output", layer_is_causal, layer_is_causal_no_grad, _BY_GRADIENTS, CAUSAL_BLOCK),
        Pair(
            "encoder layer, masked",
            "output",
            layer_is_causal_no_grad,
            layer_is_causal_with_mask,
            ("no mask", "src_mask"),
            CAUSAL_BLOCK,
        ),
    ),
    "fast path": (
        Pair("of an encoder layer", "output", layer_grad, layer_no_grad, _BY_GRADIENTS, BLOCK),
        Pair("of attention", "output", mha_with_weights, mha_no_grad, _BY_GRADIENTS, OUTPUT),
    ),
    "empty rows": (
        Pair("weights", "weights", sdpa_gap, mha_gap, (_SDPA, _MHA), GAP_WEIGHTS),
        Pair("finfo.min", "context", sdpa_gap_context, sdpa_gap_finfo_min, ("bool mask", "finfo.min"), GAP_CONTEXT),
        Pair(
            "output",
            "output",
            mha_gap_with_weights,
            mha_gap_without_weights,
            ("need_weights=True", "need_weights=False"),
            GAP_OUTPUT,
        ),
    ),
    "T ≠ S": (
        Pair(
            "either corner",
            "weights",
            sdpa_top_left,
            sdpa_lower_right,
            ("is_causal=True", "causal_lower_right"),
            LOWER_RIGHT,
        ),
    ),
}
PAIR_NAMES: Final = tuple(pair.name for pairs in PAIRS.values() for pair in pairs)
