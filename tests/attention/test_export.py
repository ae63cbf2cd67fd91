"""CSV and NPZ give back every bit, to pandas and NumPy as they come."""

import io
import json
import math
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attention import export, tensors
from attention.config import DTYPES, AttentionConfig
from attention.export import Part, as_csv, as_npz, parts
from attention.mask_config import MaskConfig
from tests.attention.scenes import normal

SPECIAL: Final = (0.0, -0.0, 1.0, -math.inf, math.inf, math.nan, 0.1, 1 / 3, 6e-8)
BITS: Final = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view(BITS.get(x.dtype, torch.int16))


def same(found: Tensor, expected: Tensor) -> bool:
    """To the last bit, with every NaN the same."""
    nan = expected.isnan()
    return torch.equal(found.isnan(), nan) and torch.equal(bits(found)[~nan], bits(expected)[~nan])


def read_csv(file: bytes, tensor: Tensor) -> Tensor:
    """What pandas reads, put where its index columns say."""
    table = pd.read_csv(io.BytesIO(file))
    *index, value = table.columns
    assert value == "value"
    found = torch.full(tensor.shape, math.nan, dtype=torch.float64)
    found[tuple(torch.from_numpy(table[axis].to_numpy(copy=True)) for axis in index)] = torch.from_numpy(
        table[value].to_numpy(dtype=np.float64, copy=True)
    )
    return found.to(tensor.dtype)


def load(file: bytes) -> Any:
    return np.load(io.BytesIO(file), allow_pickle=False)


def hard(dtype: torch.dtype) -> Tensor:
    """Ordinary numbers, the largest and the smallest of the dtype, and what is no number."""
    info = torch.finfo(dtype)
    ends = (info.max, info.min, info.tiny, info.smallest_normal, info.eps, 1 + info.eps)
    numbers = torch.cat((normal(1, 105), torch.tensor((*SPECIAL, *ends), dtype=torch.float64)))
    return numbers.to(dtype).view(1, 2, 3, 20)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_csv_gives_back_every_bit(dtype: torch.dtype) -> None:
    tensor = hard(dtype)
    file = as_csv("weights", tensor)
    assert file.startswith(b'"batch","head","query","key","value"\n')
    assert file.count(b"\n") == 121
    assert same(read_csv(file, tensor), tensor)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_npz_gives_back_every_bit(dtype: torch.dtype) -> None:
    tensor = hard(dtype)
    file = load(as_npz({"ours.weights": tensor, "b_q": tensor[0, 0, 0]}, {}))
    assert sorted(file.files) == ["about", "b_q", "ours.weights"]
    native = np.float32 if dtype is torch.bfloat16 else np.dtype(str(dtype).removeprefix("torch."))
    assert file["ours.weights"].dtype == native
    assert same(torch.from_numpy(file["ours.weights"]).to(dtype), tensor)
    assert same(torch.from_numpy(file["b_q"]).to(dtype), tensor[0, 0, 0])
    said = json.loads(str(file["about"]))
    assert said["tensors"]["ours.weights"] == {
        "axes": ["batch", "head", "query", "key"], "dtype": str(dtype).removeprefix("torch.")
    }  # fmt: skip


def test_views_and_shared_tensors() -> None:  # L13
    both = normal(2, 4, 6, dtype=torch.float32)
    turned, cut = both.T, both[:, 2:4]
    file = load(as_npz({"w_q": turned, "w_k": cut, "w_v": both, "w_o": both}, {}))
    for name, tensor in {"w_q": turned, "w_k": cut, "w_v": both, "w_o": both}.items():
        assert same(torch.from_numpy(file[name]), tensor)
        assert same(read_csv(as_csv(name, tensor), tensor), tensor)
    with_gradient = both.clone().requires_grad_()
    assert same(torch.from_numpy(load(as_npz({"w_q": with_gradient}, {}))["w_q"]), both)


def test_every_tensor_of_a_scene_with_forbidden_cells() -> None:
    config = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
    found = tensors.of_scene((config, MaskConfig(num_queries=4, num_keys=6, padding_left=1)))
    file = load(as_npz(found, {"scene": "a scene"}))
    assert set(file.files) == {*found, "about"}
    for name, tensor in found.items():
        assert same(torch.from_numpy(file[name]), tensor)
        assert same(read_csv(as_csv(name, tensor), tensor), tensor)
    assert json.loads(str(file["about"]))["scene"] == "a scene"


def test_nothing_in_it_needs_pickle() -> None:  # Z01
    file = as_npz({"w_q": hard(torch.float32)}, {"note": "ä · é"})
    assert all(load(file)[name].dtype != object for name in load(file).files)
    assert json.loads(str(load(file)["about"]))["note"] == "ä · é"


def test_the_same_file_every_time() -> None:
    assert as_npz({"w_q": hard(torch.float32)}, {}) == as_npz({"w_q": hard(torch.float32)}, {})


def test_no_tensor_may_hide_what_the_file_says() -> None:
    with pytest.raises(ValueError, match="about"):
        as_npz({"about": torch.zeros(1)}, {})


def test_a_change_of_the_array_leaves_the_tensor() -> None:
    tensor = torch.zeros(3)
    export.array(tensor)[0] = 1
    assert tensor.tolist() == [0, 0, 0]


@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple), most=st.integers(1, 80))
def test_parts_hold_everything_once(shape: tuple[int, ...], most: int) -> None:
    cut = parts(shape, most)
    tensor = torch.arange(math.prod(shape), dtype=torch.float64).view(shape)
    pieces = [tensor.narrow(part.axis, part.start, part.stop - part.start) for part in cut]
    assert torch.equal(torch.cat(pieces, dim=cut[0].axis), tensor)
    slices = math.prod(shape) // shape[cut[0].axis]
    for piece in pieces:
        assert piece.numel() <= max(most, slices), "no more rows than may be, unless one slice is more"
    if math.prod(shape) <= most:
        assert len(cut) == 1


def test_parts_are_read_as_one() -> None:
    tensor = hard(torch.float32)
    first, second = parts(tensor.shape, 60)
    assert (first, second) == (Part(1, 0, 1), Part(1, 1, 2))
    files = [as_csv("weights", tensor, part) for part in (first, second)]
    assert files[1].splitlines()[1].startswith(b"0,1,0,0,"), "where it is in the whole"
    lines = as_csv("weights", tensor).splitlines()
    assert [*files[0].splitlines(), *files[1].splitlines()[1:]] == lines


@pytest.mark.parametrize("shape", [(1, 32, 256, 256), (1024, 1024), (3072, 768), (1, 256, 1024), (1024,)])
def test_no_file_has_more_rows_than_a_spreadsheet_takes(shape: tuple[int, ...]) -> None:
    for part in parts(shape):
        rows = math.prod(shape) // shape[part.axis] * (part.stop - part.start)
        assert rows + 1 <= 2**20
