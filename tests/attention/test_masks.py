"""The masks: by hand, and which way round True is."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from attention import masks
from attention.config import AttentionConfig
from attention.multi_head import allowed_by, attend_as_configured
from tests.attention.scenes import normal


def test_causal_by_hand() -> None:
    assert masks.grid(masks.causal, 4).int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_full_by_hand() -> None:
    assert masks.grid(masks.full, 3).int().tolist() == [[1, 1, 1], [1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("num_tokens", [0, 1, 2, 4, 7, 256])
def test_sizes_dtype_and_diagonal(num_tokens: int) -> None:
    # M16: blocked is what lies strictly above the diagonal; a token may see itself
    ones = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    assert torch.equal(~masks.grid(masks.causal, num_tokens), ones.triu(diagonal=1))
    assert torch.equal(masks.grid(masks.full, num_tokens), ones)
    assert masks.grid(masks.causal, num_tokens).dtype is masks.grid(masks.full, num_tokens).dtype is torch.bool


def test_true_means_may_attend() -> None:
    # M05: what SDPA means by True; nn.MultiheadAttention means the opposite
    q, k, v = (normal(seed, 2, 3, 4, 5) for seed in range(3))
    allowed = masks.grid(masks.causal, 4)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed), expected)

    module = nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64)
    x = normal(3, 1, 4, 6)
    assert_close(module(x, x, x, attn_mask=~allowed)[1][0, 0], torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))


def test_first_token_sees_only_itself() -> None:
    # M06: weights[0] = [1, 0, 0, 0] in every head
    weights = attend_as_configured(AttentionConfig(embed_dim=6, num_heads=3, num_tokens=4)).weights
    assert torch.equal(weights[0, :, 0], torch.tensor([1.0, 0, 0, 0]).expand(3, 4))


def test_config_chooses_the_mask() -> None:
    assert_close(allowed_by(AttentionConfig(num_tokens=5)), masks.grid(masks.causal, 5))
    assert allowed_by(AttentionConfig(num_tokens=5, causal=False)) is None  # which is what full means
