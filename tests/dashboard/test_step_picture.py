"""From a step to a picture: what its axes are called, what its colours mean, and what may stand in its name."""

import string
from typing import Final

import pytest
import torch

from attention.block import PRE_NORM
from attention.multi_head import STEPS
from attention.single_head import STEPS as HEAD_STEPS
from dashboard import heatmap, step_picture
from dashboard.heatmap import ATTENTION, Look, Words
from tests.dashboard.helpers import SMALL, assert_shows, decode
from tests.dashboard.test_verdict_panel import HOSTILE

SAFE: Final = set(string.ascii_letters + string.digits + "-")
SQUARE: Final = ("scores", "scaled", "masked", "weights", "dropped")


@pytest.mark.parametrize("step", sorted({*STEPS, *HEAD_STEPS, *PRE_NORM, "dropped", "attention.dropped"}))
def test_axes_of_every_step(step: str) -> None:
    words = step_picture.words(step)
    if step.split(".")[-1] in SQUARE:
        assert (words.rows, words.columns, words.pair) == (ATTENTION.rows, ATTENTION.columns, ("query", "→", "key"))
    else:
        assert (words.rows, words.columns) == ("token", "dimension")
        assert words.pair == ("token", "·", "dimension")
        assert words.number == step
    picture = step_picture.of_step(step, [torch.randn(3, 4)], ["title"], SMALL)
    weights = step.split(".")[-1] in ("weights", "dropped")
    assert picture.kind == ("weights" if weights else "signed")
    assert picture.words == words


def test_numbers_and_their_range() -> None:
    first, second = torch.tensor([[1.5, -2.0], [0.0, 7.25]]), torch.tensor([[-9.0, 1.0], [2.0, 3.0]])
    picture = step_picture.of_step("scores", [first, second], ["a", "b"], SMALL)
    scene = decode(heatmap.payload(picture, Look(), ""))
    assert_shows(scene, [first, second])
    assert (scene.header["low"], scene.header["high"]) == (-9, 7.25)
    assert scene.header["titles"] == ["a", "b"]
    assert (picture.queries, picture.keys) == (2, 2)


def test_what_is_masked_is_no_part_of_the_range() -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    masked = torch.tensor([[0.5, -torch.inf], [1.0, 2.0]])
    scene = decode(heatmap.payload(step_picture.of_step("masked", [masked], ["m"], SMALL, allowed), Look(), ""))
    assert_shows(scene, [masked], allowed)
    assert scene.packed
    assert (scene.header["low"], scene.header["high"], scene.header["nans"]) == (0.5, 2, 0)


def test_a_masked_cell_that_holds_a_number_is_sent() -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    for bad in (-1e4, torch.inf, torch.nan):
        masked = torch.tensor([[0.5, bad], [1.0, 2.0]])
        picture = step_picture.of_step("masked", [masked], ["m"], SMALL, allowed)
        scene = decode(heatmap.payload(picture, Look(), ""))
        assert not scene.packed
        assert_shows(scene, [masked], allowed)
        assert picture.nans == (1 if bad != bad else 0)  # NaN is not itself


def test_infinities_in_allowed_cells_are_sent_and_leave_the_range_finite() -> None:
    x = torch.tensor([[torch.inf, -torch.inf], [1.0, -3.0]])
    picture = step_picture.of_step("scores", [x], ["m"], SMALL)
    assert (picture.low, picture.high, picture.sent) == (-3, 1, 4)
    nothing = step_picture.of_step("scores", [torch.full((2, 2), torch.nan)], ["m"], SMALL)
    assert (nothing.low, nothing.high, nothing.nans) == (0, 0, 4)


def test_weights_over_one_have_a_scale_that_reaches_them() -> None:  # N14: dropout lets them grow
    for largest, high in ((0.75, 1.0), (1.0, 1.0), (1.25, 1.25), (10.0, 10.0)):
        picture = step_picture.of_step("weights", [torch.tensor([[largest, 0.0]])], ["w"], SMALL)
        assert (picture.low, picture.high) == (0, high)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_is_drawn_in_float32(dtype: torch.dtype) -> None:  # P25
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert_shows(decode(heatmap.payload(step_picture.of_step("q", [x], ["q"], SMALL), Look(), "")), [x])


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 300, "../../etc/passwd", "ä ≠ 𝟙 ٣ \x00\n", ""])
def test_a_name_is_safe_for_a_file(text: str) -> None:
    picture = step_picture.of_step(f"a.{text}", [torch.zeros(1, 1)], [text], SMALL)
    assert set(picture.identity) <= SAFE
    assert picture.titles == (text,), "while the title says it as it is"


def test_a_step_may_call_its_axes_otherwise() -> None:
    words = Words("a", "b", ("x", "y", "z"), "tiles", "n")
    picture = step_picture.of_step("weights", [torch.zeros(2, 3)], ["t"], SMALL, None, words)
    header = decode(heatmap.payload(picture, Look(), "")).header
    names = [header[name] for name in ("rowsName", "columnsName", "tilesName", "numberName", "pair")]
    assert names == ["a", "b", "tiles", "n", ["x", "y", "z"]]


def test_size_in_words() -> None:
    assert step_picture.size(torch.zeros(5, 64)) == "5 × 64"


def test_as_many_titles_as_tiles() -> None:  # P19
    with pytest.raises(ValueError, match="2 tiles need as many titles, not 1"):
        step_picture.of_step("q", [torch.zeros(2, 3), torch.zeros(2, 3)], ["only"], SMALL)
