"""The picture of |ours − PyTorch's|: what the message says of it, its ends in powers of ten, and odd numbers."""

import math
from typing import Final

import numpy as np
import pytest
import torch
from torch import Tensor

from dashboard import heatmap, step_picture
from dashboard.heatmap import Look
from tests.dashboard.helpers import SMALL, Scene, decode

NAN, INF = math.nan, math.inf
DENORMAL: Final = float(np.float32(1e-45))


def drawn(ours: Tensor, pytorch: Tensor, allowed: Tensor | None = None, step: str = "scores") -> Scene:
    picture = step_picture.of_difference(step, ours, pytorch, SMALL, allowed, "note")
    return decode(heatmap.payload(picture, Look(), "words"))


def of_sizes(*sizes: float) -> Scene:
    sizes_ = torch.tensor([sizes], dtype=torch.float64)
    return drawn(sizes_, torch.zeros_like(sizes_))


def ends(scene: Scene) -> tuple[float, float]:
    return scene.header["low"], scene.header["high"]


@pytest.mark.parametrize(
    ("sizes", "low", "high"),
    [
        ((0.0, 0.0), 0, 0),
        ((0.5, 0.0), 0.1, 1),
        ((1.0, 0.0), 1, 10),
        ((0.999, 0.02), 0.01, 1),
        ((1e-3, 3.0), 1e-3, 10),
        ((99.0, 100.0), 10, 1000),
        ((3e-7, 3e-7), 1e-7, 1e-6),
        ((1.5e38, 2e38), 1e38, 1e39),
        # 16 decades and no more, from the top
        ((1e-30, 5.0), 1e-15, 10),
        ((2e-15, 5.0), 1e-15, 10),
        ((DENORMAL, 5.0), 1e-15, 10),
        ((DENORMAL, 0.0), 1e-45, 1e-44),
        ((DENORMAL, 2e-38), 1e-45, 1e-37),
        # what is no number, or none that a scale could reach, is left out
        ((INF, 0.0), 0, 0),
        ((NAN, 0.0), 0, 0),
        ((INF, NAN), 0, 0),
        ((INF, 0.5), 0.1, 1),
        ((NAN, 0.5, INF), 0.1, 1),
    ],
    ids=str,
)
def test_the_ends_are_powers_of_ten(sizes: tuple[float, ...], low: float, high: float) -> None:
    scene = of_sizes(*sizes)
    assert ends(scene) == pytest.approx((low, high), rel=1e-12, abs=0)
    assert scene.header["nans"] == sum(map(math.isnan, sizes))
    assert scene.weights[0, 0].tolist() == pytest.approx(sizes, rel=1e-7, abs=0, nan_ok=True)


def test_the_decades_enclose_every_size() -> None:
    for exponent in range(-44, 38):
        for factor in (1.0, 1.0000001, 3.0, 9.9999):
            size = float(np.float32(factor * 10.0**exponent))
            low, high = ends(of_sizes(size))
            assert low * (1 - 1e-12) <= size < high
            assert high / low == pytest.approx(10)


def test_the_header() -> None:
    scene = drawn(torch.randn(2, 3), torch.randn(2, 3), step="attention.q")
    header = scene.header
    assert (header["kind"], header["titles"], header["heads"]) == ("difference", ["apart"], 1)
    assert header["numberName"] == "|ours − PyTorch's|"
    assert (header["rowsName"], header["columnsName"], header["pair"]) == (
        "token",
        "dimension",
        ["token", "·", "dimension"],
    )
    assert header["summary"] == "words"
    assert "difference-attention-q-note" in header["id"]
    # Cividis: dark blue for nothing, yellow for the most
    first, *_, last = header["stops"]
    assert first == [0, [0, 34, 78]]
    assert last[1][0] > 230
    assert last[1][2] < 80
    square = drawn(torch.randn(2, 3), torch.randn(2, 3), step="masked").header
    assert square["pair"] == ["query", "→", "key"]
    assert square["numberName"] == "|ours − PyTorch's|"


def test_infinities_and_nan() -> None:
    ours = torch.tensor([[INF, -INF, INF, NAN, 1.0, NAN, -INF]])
    pytorch = torch.tensor([[INF, -INF, -INF, 1.0, NAN, NAN, 2.0]])
    scene = drawn(ours, pytorch)
    expected = [0, 0, INF, NAN, NAN, NAN, INF]
    assert scene.weights[0, 0].tolist() == pytest.approx(expected, nan_ok=True)
    assert scene.header["nans"] == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_difference_is_taken_in_float64(dtype: torch.dtype) -> None:
    ours, pytorch = torch.tensor([[60000.0, 1.0]], dtype=dtype), torch.tensor([[-60000.0, 1.0]], dtype=dtype)
    size = 2 * float(torch.tensor(60000.0, dtype=dtype))  # over the largest float16
    assert drawn(ours, pytorch).weights[0, 0].tolist() == [size, 0]
    small = torch.tensor([[1 + 2**-50]], dtype=torch.float64)
    assert drawn(small, torch.ones(1, 1, dtype=torch.float64)).weights[0, 0, 0] == 2**-50


def test_masked_cells() -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    ours = torch.tensor([[1.0, -INF], [2.0, 3.0]])
    both_masked = drawn(ours, ours + torch.tensor([[0.5, 0.0], [0.0, 0.0]]), allowed, "masked")
    assert both_masked.packed, "both are −∞ there: nothing to be seen"
    assert both_masked.weights[0].tolist() == [[0.5, 0], [0, 0]]
    assert both_masked.mask.tolist() == allowed.tolist()
    leak = drawn(torch.tensor([[1.0, 0.0], [2.0, 3.0]]), ours, allowed, "masked")
    assert not leak.packed, "a forbidden cell that one of them sees is shown"
    assert leak.weights[0].tolist() == [[0, INF], [0, 0]]


def test_two_notes_are_two_pictures() -> None:
    x = torch.zeros(2, 2)
    names = {step_picture.of_difference("q", x, x, SMALL, None, note).identity for note in ("a", "b", "a 1")}
    names.add(step_picture.of_step("q", [x], ["apart"], SMALL, note="a").identity)
    assert len(names) == 4
