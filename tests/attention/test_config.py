"""The config: what it refuses, what it says then, and the head counts it offers."""

from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention.config import (
    DTYPES,
    MAX_EMBED_DIM,
    MAX_HEADS,
    MAX_SEED,
    MAX_TOKENS,
    AttentionConfig,
    head_counts,
    nearest_head_count,
)

embed_dims = st.integers(1, MAX_EMBED_DIM)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        # S07: both numbers, and the counts that would do
        ({"embed_dim": 10, "num_heads": 3}, ["embed_dim 10", "3 heads", "1, 2, 5, 10"]),
        ({"embed_dim": 4, "num_heads": 8}, ["embed_dim 4", "8 heads", "1, 2, 4."]),
        ({"embed_dim": 12, "num_heads": 0}, ["num_heads is 0", "from 1 to 32"]),
        ({"embed_dim": 12, "num_heads": -2}, ["num_heads is -2", "from 1 to 32"]),
        ({"embed_dim": 12, "num_heads": 2.0}, ["num_heads is 2.0", "whole number"]),
        ({"embed_dim": 12.5}, ["embed_dim is 12.5", "whole number"]),
        ({"embed_dim": "12"}, ["embed_dim is '12'", "whole number"]),
        ({"embed_dim": None}, ["embed_dim is None", "whole number"]),
        ({"num_heads": True}, ["num_heads is True", "whole number"]),
        ({"num_tokens": False}, ["num_tokens is False", "whole number"]),
        ({"num_tokens": 0}, ["num_tokens is 0", "from 1 to 256"]),  # S16
        ({"num_tokens": -1}, ["num_tokens is -1", "from 1 to 256"]),
        ({"num_tokens": MAX_TOKENS + 1}, ["num_tokens is 257", "from 1 to 256"]),
        ({"embed_dim": 0}, ["embed_dim is 0", "from 1 to 1024"]),
        ({"embed_dim": MAX_EMBED_DIM + 1, "num_heads": 1}, ["embed_dim is 1025", "from 1 to 1024"]),
        ({"embed_dim": 66, "num_heads": MAX_HEADS + 1}, ["num_heads is 33", "from 1 to 32"]),
        ({"seed": -1}, ["seed is -1", "from 0 to 4294967295"]),
        ({"seed": MAX_SEED + 1}, ["seed is 4294967296", "from 0 to 4294967295"]),
        ({"seed": 7.0}, ["seed is 7.0", "whole number"]),
        ({"causal": 1}, ["causal is 1", "True or False"]),
        ({"causal": None}, ["causal is None", "True or False"]),
        ({"dtype": "float8"}, ["dtype is 'float8'", "float64, float32, bfloat16, float16"]),
        ({"dtype": torch.float32}, ["dtype is torch.float32", "float64, float32, bfloat16, float16"]),
    ],
)
def test_a_refusal_carries_the_numbers_and_what_would_do(values: dict[str, object], said: list[str]) -> None:
    with pytest.raises(ValueError, match=r"\d|must be") as refused:
        AttentionConfig(**values)  # type: ignore[arg-type]  # wrong on purpose
    for words in said:
        assert words in str(refused.value)


def test_a_dtype_that_cannot_be_hashed_is_refused_too() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        AttentionConfig(dtype=["float32"])  # type: ignore[arg-type]


# S15: extremes that are all valid
@pytest.mark.parametrize(("embed_dim", "num_heads"), [(8, 8), (8, 1), (1, 1), (1024, 32), (1024, 1), (32, 32)])
@pytest.mark.parametrize("num_tokens", [1, MAX_TOKENS])
@pytest.mark.parametrize("seed", [0, MAX_SEED])
@pytest.mark.parametrize("causal", [True, False])
def test_extremes_are_accepted(embed_dim: int, num_heads: int, num_tokens: int, seed: int, causal: bool) -> None:
    config = AttentionConfig(embed_dim=embed_dim, num_heads=num_heads, num_tokens=num_tokens, seed=seed, causal=causal)
    assert config.head_dim * num_heads == embed_dim


def test_equal_configs_are_one_key_and_cannot_be_changed() -> None:
    one, same, other = AttentionConfig(), AttentionConfig(), AttentionConfig(seed=43)
    assert len({one, same, other}) == 2
    with pytest.raises(FrozenInstanceError):
        one.seed = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        AttentionConfig(768, 12)  # type: ignore[call-arg]  # sizes in a row could be swapped unseen


def test_dtype_names_are_pytorchs() -> None:
    for name, dtype in DTYPES.items():
        assert AttentionConfig(dtype=name).torch_dtype is dtype
        assert str(dtype) == f"torch.{name}"


@given(embed_dims)
def test_head_counts_are_exactly_what_the_config_accepts(embed_dim: int) -> None:
    accepted = []
    for count in range(1, MAX_HEADS + 1):
        try:
            AttentionConfig(embed_dim=embed_dim, num_heads=count)
        except ValueError:
            continue
        accepted.append(count)
    assert head_counts(embed_dim) == tuple(accepted)
    assert accepted[0] == 1


@given(embed_dims, st.integers(-5, 2 * MAX_HEADS))
def test_nearest_head_count_is_allowed_and_none_is_nearer(embed_dim: int, wanted: int) -> None:
    nearest = nearest_head_count(embed_dim, wanted)
    distance = abs(nearest - wanted)
    assert embed_dim % nearest == 0
    for count in head_counts(embed_dim):
        assert abs(count - wanted) > distance or (abs(count - wanted) == distance and count >= nearest)


@pytest.mark.parametrize(
    ("embed_dim", "wanted", "nearest"),
    [(20, 12, 10), (20, 20, 20), (16, 3, 2), (16, 6, 4), (31, 12, 1), (1, 32, 1), (62, 32, 31), (1024, 99, 32)],
)
def test_nearest_head_count_by_hand(embed_dim: int, wanted: int, nearest: int) -> None:
    assert nearest_head_count(embed_dim, wanted) == nearest
