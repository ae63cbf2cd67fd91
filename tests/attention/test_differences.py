"""The seven switches: what each call says is what PyTorch says when it is called directly."""

import math
import threading
from typing import Final

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention import sample
from attention.config import DTYPES, AttentionConfig
from attention.differences import Difference, Facts, Shown, Side, differ
from attention.differing_calls import PAIR_NAMES, PAIRS
from attention.verify import ARITHMETIC

SMALL: Final = AttentionConfig(embed_dim=12, num_heads=2, num_tokens=6)
ODD: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)


def run(topic: str, name: str, config: AttentionConfig = SMALL, head: int = 0) -> Shown:
    return differ(config, topic, name, head, ARITHMETIC[config.dtype])


def of(side: Side) -> Facts:
    assert side.facts is not None, side.refused
    return side.facts


def tiles(shown: Shown) -> tuple[Tensor, Tensor]:
    assert shown.left is not None
    assert shown.right is not None
    return shown.left, shown.right


def equals(found: Difference) -> tuple[bool, bool]:
    return of(found.left).equals_ours, of(found.right).equals_ours


def module(config: AttentionConfig) -> tuple[nn.MultiheadAttention, Tensor]:
    """PyTorch's module with the scene's parameters, put in one by one, in its own order of axes."""
    p, x = sample.draw_parameters(config), sample.draw_tokens(config)
    with torch.device("meta"):
        mha = nn.MultiheadAttention(config.embed_dim, config.num_heads, dtype=x.dtype)
    mha = mha.to_empty(device="cpu").eval()
    with torch.no_grad():
        mha.in_proj_weight.copy_(torch.cat([p.w_q, p.w_k, p.w_v]))
        mha.in_proj_bias.copy_(torch.cat([p.b_q, p.b_k, p.b_v]))
        mha.out_proj.weight.copy_(p.w_o)
        mha.out_proj.bias.copy_(p.b_o)
    return mha, x.transpose(0, 1)


def softmax_by_hand(config: AttentionConfig, head: int, allowed: Tensor) -> Tensor:
    p, x = sample.draw_parameters(config), sample.draw_tokens(config)[0].double()
    part = slice(head * config.head_dim, (head + 1) * config.head_dim)
    q, k = (x @ w[part].double().T + b[part].double() for w, b in ((p.w_q, p.b_q), (p.w_k, p.b_k)))
    scores = (q @ k.T / math.sqrt(config.head_dim)).masked_fill(~allowed, -math.inf)
    return torch.softmax(scores, dim=-1)


def test_the_same_mask_means_the_opposite() -> None:  # M05, M06
    shown = run("mask polarity", "the same mask", head=1)
    left, right = tiles(shown)
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    torch.testing.assert_close(left.double(), softmax_by_hand(SMALL, 1, causal), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(right.double(), softmax_by_hand(SMALL, 1, ~causal), rtol=1e-5, atol=1e-6, equal_nan=True)
    assert right[0, 0] == 0
    assert right[-1].isnan().all()
    found = shown.difference
    assert equals(found) == (True, False)
    assert (of(found.right).nans, of(found.right).nan_rows, of(found.right).rows) == (12, 2, 12)
    assert (found.differing, found.cells) == (72, 72)
    assert equals(run("mask polarity", "turned for one").difference) == (True, True)


def test_a_mask_that_lets_all_pass_blocks_all() -> None:  # M05
    found = run(
        "mask polarity", "the same mask", AttentionConfig(embed_dim=12, num_heads=2, num_tokens=6, causal=False)
    )
    assert of(found.difference.right).nans == 72
    assert of(found.difference.left).equals_ours


def test_heads_come_back_averaged() -> None:
    shown = run("averaged heads", "", head=1)
    left, right = tiles(shown)
    mha, x = module(SMALL)
    blocked = ~torch.ones(6, 6, dtype=torch.bool).tril()
    per_head = mha(x, x, x, attn_mask=blocked, average_attn_weights=False)[1][0].detach()
    torch.testing.assert_close(left, per_head.mean(0))
    torch.testing.assert_close(right, per_head[1])
    found = shown.difference
    assert equals(found) == (False, True)
    assert of(found.left).shape == (1, 6, 6)
    assert found.largest == pytest.approx((per_head.mean(0) - per_head[1]).abs().max().item(), rel=1e-4)
    assert found.cells == 36


def test_need_weights_changes_bits_and_empty_rows() -> None:  # M02
    plain = run("need_weights", "the scene").difference
    assert equals(plain) == (True, True)
    assert plain.largest < 1e-6
    shown = run("need_weights", "with an empty row")
    left, right = tiles(shown)
    assert left.isnan().any(-1).tolist() == [False, False, False, True, False, False]
    assert torch.equal(right[3], sample.draw_parameters(SMALL).b_o)
    assert equals(shown.difference) == (False, True)
    said = of(shown.difference.left).empty_row, of(shown.difference.right).empty_row
    assert said == ("NaN", "zeros, and so the output's bias")


def test_is_causal_alone_raises_and_with_a_mask_does_not() -> None:  # M09
    found = run("is_causal", "alone").difference
    assert of(found.left).equals_ours
    assert of(found.left).future == 0
    mha, x = module(SMALL)
    with pytest.raises(RuntimeError) as refusal:
        mha(x, x, x, is_causal=True)
    assert found.right.refused == str(refusal.value)
    assert found.right.facts is None
    assert equals(run("is_causal", "with a mask").difference) == (True, True)


def test_is_causal_alone_masks_nothing_on_the_fast_path() -> None:  # M11
    found = run("is_causal", "no gradients").difference
    assert found.left.refused
    assert of(found.right).future or 0 > 0.1
    assert not of(found.right).equals_ours
    assert found.right.kernels == ("_native_multi_head_attention",)
    assert run("is_causal", "no gradients", ODD).difference.right.refused, "an odd head count has no fast path"
    layer = run("is_causal", "encoder layer")
    assert layer.difference.left.refused
    free = run(
        "fast path", "of an encoder layer", AttentionConfig(embed_dim=12, num_heads=2, num_tokens=6, causal=False)
    )
    assert layer.right is not None
    assert free.right is not None
    torch.testing.assert_close(layer.right, free.right)  # it is the layer that sees all tokens
    assert equals(run("is_causal", "encoder layer, masked").difference) == (False, True)


def test_the_fast_path_is_another_kernel() -> None:
    found = run("fast path", "of an encoder layer").difference
    assert found.right.kernels == ("_transformer_encoder_layer_fwd",)
    assert found.left.kernels != found.right.kernels
    assert equals(found) == (True, True)
    assert run("fast path", "of attention").difference.right.kernels == ("_native_multi_head_attention",)
    odd = run("fast path", "of an encoder layer", ODD).difference
    assert odd.left.kernels == odd.right.kernels
    assert odd.differing == 0


def test_an_empty_row_is_zeros_or_nan_or_the_mean() -> None:  # M01, M02
    shown = run("empty rows", "weights")
    left, right = tiles(shown)
    assert not left[3].any()
    assert right[3].isnan().all()
    assert equals(shown.difference) == (True, False)
    assert of(shown.difference.left).empty_rows == 2
    shown = run("empty rows", "finfo.min", head=1)
    left, right = tiles(shown)
    p, x = sample.draw_parameters(SMALL), sample.draw_tokens(SMALL)[0]
    v = F.linear(x, p.w_v, p.b_v)[:, 6:]
    assert not left[3].any()
    torch.testing.assert_close(right[3], v.mean(0))
    assert of(shown.difference.right).empty_row == "the mean of all v"
    assert equals(shown.difference) == (True, False)


def test_each_corner() -> None:  # M13
    shown = run("T ≠ S", "either corner")
    left, right = tiles(shown)
    assert (left > 0).int().tolist() == [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]]
    assert (right > 0).int().tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert equals(shown.difference) == (False, True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("embed_dim", "heads", "tokens", "causal"),
    [(1, 1, 1, False), (12, 1, 1, True), (12, 3, 5, False), (12, 4, 2, True)],
)
def test_every_pair_in_every_scene(dtype: str, embed_dim: int, heads: int, tokens: int, causal: bool) -> None:
    config = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=tokens, dtype=dtype, causal=causal)
    for topic, pairs in PAIRS.items():
        for pair in pairs:
            found = run(topic, pair.name, config, heads - 1).difference
            assert (found.topic, found.pair) == (topic, pair.name)
            for side, call in ((found.left, pair.left), (found.right, pair.right)):
                assert bool(side.refused) != bool(side.facts)
                assert f"def {call.__name__}(" in side.source


def test_nothing_of_the_process_or_the_random_state_is_touched() -> None:  # X01, X03
    before = torch.get_rng_state(), torch.is_grad_enabled(), torch.backends.mha.get_fastpath_enabled()
    for topic, pairs in PAIRS.items():
        for pair in pairs:
            run(topic, pair.name)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (torch.is_grad_enabled(), torch.backends.mha.get_fastpath_enabled()) == before[1:]


def test_two_threads_get_the_same_answers() -> None:
    alone = run("fast path", "of an encoder layer").difference
    found: list[Difference] = []

    def work() -> None:
        found.extend(run("fast path", "of an encoder layer").difference for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 15


def test_names_of_pairs_are_unique() -> None:
    assert len(PAIR_NAMES) == len(set(PAIR_NAMES))
    assert len(PAIRS) == 7
