"""The draws: the same bits for the same seed, whoever else draws, and nothing else disturbed."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention import reference
from attention.config import MAX_SEED, MAX_TOKENS, AttentionConfig, head_counts
from attention.sample import AttentionParameters, BlockParameters, draw_block, draw_head, draw_parameters, draw_tokens
from attention.verify import probe, verify

SMALL = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, seed=0)


def tensors(config: AttentionConfig) -> dict[str, Tensor]:
    """Everything that is drawn for a config, by name."""
    parameters = draw_parameters(config)
    named = {field.name: getattr(parameters, field.name) for field in fields(AttentionParameters)}
    return {"tokens": draw_tokens(config), **named}


def block_tensors(config: AttentionConfig, index: int = 0) -> dict[str, Tensor]:
    """Everything that is drawn for one block, by name."""
    block = draw_block(config, index)
    rest = {field.name: getattr(block, field.name) for field in fields(BlockParameters)[1:]}
    return {field.name: getattr(block.attention, field.name) for field in fields(AttentionParameters)} | rest


def assert_same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_same_seed_same_bits_in_every_thread() -> None:
    # X01: sessions share one process; here they also shake the global seed
    configs = [replace(SMALL, seed=seed) for seed in range(6)] * 8
    alone = [tensors(config) for config in configs]

    def session(config: AttentionConfig) -> dict[str, Tensor]:
        torch.manual_seed(config.seed)
        torch.randn(17)
        return tensors(config)

    with ThreadPoolExecutor(max_workers=6) as pool:
        for mine, expected in zip(pool.map(session, configs), alone, strict=True):
            assert_same_bits(mine, expected)


def test_global_random_state_is_neither_read_nor_changed() -> None:
    # R07
    before = torch.get_rng_state()
    first = tensors(SMALL)
    reference.as_module(draw_parameters(SMALL), SMALL.num_heads)
    verify(SMALL)
    probe.__wrapped__()  # the scene itself, not the copy that may have been kept
    assert torch.equal(torch.get_rng_state(), before)

    torch.manual_seed(12345)
    assert_same_bits(tensors(SMALL), first)


@pytest.mark.parametrize("embed_dim", [1, 3, 4, 5, 8, 16])
def test_one_more_token_leaves_the_earlier_ones(embed_dim: int) -> None:
    # R01
    config = AttentionConfig(embed_dim=embed_dim, num_heads=1, num_tokens=MAX_TOKENS, seed=0)
    longest = draw_tokens(config)
    for num_tokens in (1, 2, 3, 4, 9, 16, 17, 255):
        drawn = draw_tokens(replace(config, num_tokens=num_tokens))
        assert drawn.shape == (1, num_tokens, embed_dim)
        assert torch.equal(drawn, longest[:, :num_tokens])
        assert drawn.untyped_storage().nbytes() == drawn.numel() * 4  # no hold on the rows that were cut off


@given(st.integers(1, 64), st.integers(0, MAX_SEED), st.data())
def test_heads_tokens_and_mask_change_no_draw(embed_dim: int, seed: int, data: st.DataObject) -> None:
    config = AttentionConfig(embed_dim=embed_dim, num_heads=1, num_tokens=4, seed=seed)
    heads = data.draw(st.sampled_from(head_counts(embed_dim)))
    assert_same_bits(tensors(config), tensors(replace(config, num_heads=heads, causal=False)))
    assert_same_bits(vars(draw_parameters(config)), vars(draw_parameters(replace(config, num_tokens=9))))


def test_every_tensor_has_numbers_of_its_own() -> None:
    # R05: one seed for each call would make q = k = v
    config = AttentionConfig(embed_dim=64, num_heads=4, num_tokens=64, seed=7)
    drawn = tensors(config)
    for a, b in combinations(drawn.values(), 2):
        n = min(a.numel(), b.numel())
        together = torch.stack([a.flatten()[:n], b.flatten()[:n]])
        assert abs(torch.corrcoef(together)[0, 1].item()) < 4 / n**0.5
    for name, tensor in tensors(replace(config, seed=8)).items():
        assert not torch.equal(tensor, drawn[name]), name


@pytest.mark.parametrize("seed", [0, 7, MAX_SEED])
def test_another_precision_is_the_same_experiment(seed: int) -> None:
    # R08
    single = tensors(replace(SMALL, seed=seed))
    double = tensors(replace(SMALL, seed=seed, dtype="float64"))
    assert_same_bits({name: tensor.float() for name, tensor in double.items()}, single)
    assert_same_bits({name: tensor.double() for name, tensor in single.items()}, double)
    for half in ("bfloat16", "float16"):
        config = replace(SMALL, seed=seed, dtype=half)
        assert_same_bits({name: t.to(config.torch_dtype) for name, t in single.items()}, tensors(config))
        assert all(tensor.dtype is config.torch_dtype for tensor in tensors(config).values())


def test_a_default_dtype_set_elsewhere_changes_nothing() -> None:
    # X03: the default dtype belongs to the whole process
    expected = tensors(SMALL)
    torch.set_default_dtype(torch.float64)
    try:
        assert_same_bits(tensors(SMALL), expected)
        assert verify(SMALL).equal
    finally:
        torch.set_default_dtype(torch.float32)


def test_golden_numbers_of_seed_0() -> None:
    # R03: the same on every machine; the tolerance is for another libm's last digits
    drawn = tensors(replace(SMALL, embed_dim=4, num_heads=2))
    golden = {
        "tokens": [0.99975055, 0.41376272, 0.45938885, 0.80972004],
        "w_q": [-0.0422116, 0.9166200, 1.0328667, -0.9177986],
        "b_q": [-0.7860755, -0.3882698, -0.5664883, -0.1745991],
        "w_k": [-0.2812751, 0.4923847, 0.1960619, 0.6941367],
        "b_k": [0.5833013, -0.3868508, 0.2387460, 0.1237621],
        "w_v": [-0.6120130, -0.1434501, 0.3740623, -0.4589536],
        "b_v": [0.1674496, -0.2023360, -0.5987285, -0.7073607],
        "w_o": [0.5222337, 0.2336528, 0.5879412, 0.3642272],
        "b_o": [0.4992988, -0.0806501, -0.0367241, -0.3247103],
    }
    assert golden.keys() == drawn.keys()
    for name, numbers in golden.items():
        assert_close(drawn[name].flatten()[:4], torch.tensor(numbers), rtol=1e-5, atol=1e-6)


def test_moments() -> None:
    config = AttentionConfig(embed_dim=256, num_heads=1, num_tokens=256, seed=1)
    for name, tensor in tensors(config).items():
        numbers = tensor.double() * (1 if name == "tokens" else 256**0.5)
        n = numbers.numel()
        assert abs(numbers.mean().item()) < 4 / n**0.5, name
        assert abs(numbers.std().item() - 1) < 4 / (2 * n) ** 0.5, name


def test_no_bias_is_zero() -> None:
    # zero biases, as PyTorch starts with, would hide an attention that drops them
    for seed in range(20):
        parameters = draw_parameters(replace(SMALL, seed=seed))
        for bias in (parameters.b_q, parameters.b_k, parameters.b_v, parameters.b_o):
            assert bias.ne(0).all()


WIDE = AttentionConfig(embed_dim=64, num_heads=4, num_tokens=8, seed=7)


def test_one_head_and_blocks_have_numbers_of_their_own() -> None:
    # R05: no two tensors that are drawn for a seed are the same draw, whatever they are drawn for
    drawn = [*tensors(WIDE).values(), *draw_head(WIDE, 64, 64).values()]
    first = block_tensors(WIDE)
    drawn += [tensor for name, tensor in first.items() if name.endswith(("_1", "_2")) or name.startswith("norm")]
    drawn += list(block_tensors(WIDE, 1).values()) + list(block_tensors(WIDE, 2).values())
    for a, b in combinations(drawn, 2):
        n = min(a.numel(), b.numel())
        together = torch.stack([a.flatten()[:n], b.flatten()[:n]])
        assert abs(torch.corrcoef(together)[0, 1].item()) < 4.5 / n**0.5


def test_the_first_block_attends_with_the_parameters_of_the_scene() -> None:
    # what the reader saw of the attention is what the block does
    scene, first = vars(draw_parameters(WIDE)), vars(draw_block(WIDE).attention)
    assert_same_bits(scene, first)
    later = vars(draw_block(WIDE, 1).attention)
    assert not any(torch.equal(tensor, later[name]) for name, tensor in first.items())


def test_shapes_of_one_head_and_of_a_block() -> None:
    config = replace(SMALL, embed_dim=12)
    assert {name: tuple(tensor.shape) for name, tensor in draw_head(config, 5, 7).items()} == {
        "w_q.weight": (5, 12),
        "w_k.weight": (5, 12),
        "w_v.weight": (7, 12),
    }
    shapes = {name: tuple(tensor.shape) for name, tensor in block_tensors(config, 1).items()}
    assert (shapes["w_1"], shapes["b_1"], shapes["w_2"], shapes["b_2"]) == ((48, 12), (48,), (12, 48), (12,))
    assert {shapes[name] for name in shapes if name.startswith("norm")} == {(12,)}
    assert shapes["w_q"] == (12, 12)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_one_head_and_a_block_in_another_precision(dtype: str) -> None:
    # R08
    other = replace(SMALL, dtype=dtype)
    for single, drawn in (
        (draw_head(SMALL, 5, 7), draw_head(other, 5, 7)),
        (block_tensors(SMALL), block_tensors(other)),
        (block_tensors(SMALL, 3), block_tensors(other, 3)),
    ):
        assert_same_bits({name: tensor.to(other.torch_dtype) for name, tensor in single.items()}, drawn)
        assert all(tensor.dtype is other.torch_dtype for tensor in drawn.values())


@pytest.mark.parametrize("change", [{"num_heads": 1}, {"num_tokens": 9}, {"causal": False}])
def test_heads_tokens_and_mask_change_no_head_and_no_block(change: dict[str, int]) -> None:
    # R01
    other = replace(SMALL, **change)  # type: ignore[arg-type]  # mypy sees the bool among them
    assert_same_bits(draw_head(SMALL, 5, 7), draw_head(other, 5, 7))
    assert_same_bits(block_tensors(SMALL, 1), block_tensors(other, 1))


def test_the_random_state_is_not_touched_by_heads_and_blocks() -> None:
    # R07
    before = torch.get_rng_state()
    one, other = draw_head(SMALL, 5, 7), block_tensors(SMALL, 1)
    assert torch.equal(torch.get_rng_state(), before)
    assert_same_bits(draw_head(SMALL, 5, 7), one)
    assert_same_bits(block_tensors(SMALL, 1), other)


def test_moments_of_one_head_and_of_a_block() -> None:
    # weights 1/√(their inputs), biases 1/√E, the scale of a norm about 1, its shift about 0
    config = replace(WIDE, embed_dim=256)
    small, wide = 256**-0.5, 1024**-0.5
    expected = dict.fromkeys(
        ("w_1", "b_1", "b_2", "w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o", "b_o"), (0.0, small)
    )
    expected |= {"w_2": (0.0, wide)}
    expected |= {f"norm_{i}_{kind}": (float(kind == "weight"), 0.2) for i in (1, 2) for kind in ("weight", "bias")}
    drawn = block_tensors(config, 1)
    assert drawn.keys() == expected.keys()
    expected |= {f"{name}.weight": (0.0, small) for name in ("w_q", "w_k", "w_v")}
    for name, tensor in (drawn | draw_head(config, 64, 100)).items():
        (mean, deviation), n = expected[name], tensor.numel()
        assert abs(tensor.mean().item() - mean) < 4 * deviation / n**0.5, name
        assert abs(tensor.std().item() / deviation - 1) < 4 / (2 * n) ** 0.5, name


def test_golden_numbers_of_one_head_and_a_block() -> None:
    # R03: the same on every machine
    config = replace(SMALL, embed_dim=4, num_heads=2)
    head, block, later = draw_head(config, 3, 5), block_tensors(config), block_tensors(config, 1)
    golden = {
        "w_q.weight": [-0.7557283, -0.2273954, 0.3669128],
        "w_v.weight": [0.0444486, 0.2456682, -0.1937605],
        "norm_1_weight": [0.9902117, 1.0588015, 1.2797649],
        "w_1": [-0.0383739, 0.8086115, 0.3984982],
        "w_2": [-0.1033994, -0.0475154, 0.2554864],
        "w_o": [-0.8035647, -0.1330654, -0.9264395],
    }
    drawn = {"w_q.weight": head, "w_v.weight": head, "norm_1_weight": block, "w_1": block, "w_2": block, "w_o": later}
    for name, numbers in golden.items():
        assert_close(drawn[name][name].flatten()[:3], torch.tensor(numbers), rtol=1e-5, atol=1e-6)
