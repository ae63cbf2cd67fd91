"""The wrong pieces, as people wrote them. Each stands in for the right piece of the same arguments."""

import math

import torch
from torch import Tensor

from attention import sample
from attention.dropout import dropout
from attention.feed_forward import ACTIVATIONS
from attention.layer_norm import layer_norm

# What each is, the catalogue says; the arguments are those of the piece that it replaces.


def no_scale(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
    return scores


def scale_by_embed_dim(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
    return scores / math.sqrt(head_dim * num_heads)


def scale_twice(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
    return scores / math.sqrt(head_dim) / math.sqrt(head_dim)


def softmax_over_queries(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    return torch.softmax(masked, dim=-2).nan_to_num()


def mask_inverted(scaled: Tensor, allowed: Tensor) -> Tensor:
    return torch.where(~allowed, scaled, -math.inf)


def mask_off_by_one(scaled: Tensor, allowed: Tensor) -> Tensor:
    one_more = allowed | torch.cat([allowed[..., :1], allowed[..., :-1]], dim=-1)
    return torch.where(one_more, scaled, -math.inf)


def mask_of_upper_triangle(scaled: Tensor, allowed: Tensor) -> Tensor:
    return torch.where(allowed.mT, scaled, -math.inf)


def softmax_then_mask(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    return torch.softmax(scaled, dim=-1) * allowed


def softmax_then_mask_then_renormalise(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    kept = torch.softmax(scaled, dim=-1) * allowed
    return kept / kept.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(kept.dtype).tiny)


def masked_scores_zero(scaled: Tensor, allowed: Tensor) -> Tensor:
    return scaled * allowed


def masked_by_ten_thousand(scaled: Tensor, allowed: Tensor) -> Tensor:
    return scaled + torch.where(allowed, 0.0, -1e4).to(scaled.dtype)


def plain_softmax(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    exponentials = torch.exp(masked)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def split_by_view(x: Tensor, num_heads: int) -> Tensor:
    batch, num_tokens, embed_dim = x.shape
    return x.reshape(batch, num_heads, num_tokens, embed_dim // num_heads)


def split_interleaved(x: Tensor, num_heads: int) -> Tensor:
    batch, num_tokens, embed_dim = x.shape
    return x.reshape(batch, num_tokens, embed_dim // num_heads, num_heads).permute(0, 3, 1, 2)


def merge_by_view(context: Tensor) -> Tensor:
    batch, heads, num_tokens, head_dim = context.shape
    return context.reshape(batch, num_tokens, heads * head_dim)


def keys_ask(q: Tensor, k: Tensor) -> Tensor:
    return k @ q.mT


def keys_for_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return k


def without_bias(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x @ weight.mT


def weight_not_transposed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x @ weight + bias


def no_projection(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x


def dropout_left_on(weights: Tensor, allowed: Tensor) -> Tensor:
    return dropout(weights, 0.1, sample.generator("a dropout that nobody switched off", 0))


def averaged_over_heads(weights: Tensor, allowed: Tensor) -> Tensor:
    return weights.mean(dim=1, keepdim=True).expand_as(weights)


def mask_not_passed(allowed: Tensor | None) -> Tensor | None:
    return None


def norm_elsewhere(norm_first: bool) -> bool:
    return not norm_first


def norm_with_small_eps(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return layer_norm(x, weight, bias, eps=1e-12)


def norm_by_unbiased_variance(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = x.std(dim=-1, keepdim=True, unbiased=x.shape[-1] > 1)  # over n - 1
    return centred / (deviation + 1e-5) * weight + bias


def no_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x


def no_residual(stream: Tensor, branch: Tensor) -> Tensor:
    return branch


def always_relu(hidden: Tensor, activation: str) -> Tensor:
    return ACTIVATIONS["relu"](hidden)


def gelu_by_tanh(hidden: Tensor, activation: str) -> Tensor:
    if activation != "gelu":
        return ACTIVATIONS[activation](hidden)
    cubic = hidden + 0.044715 * hidden**3
    return 0.5 * hidden * (1 + torch.tanh(math.sqrt(2 / math.pi) * cubic))
