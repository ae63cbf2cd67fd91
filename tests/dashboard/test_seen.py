"""What a picture says is to be seen, against plain loops over the same numbers."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from attention import AttentionConfig
from dashboard import heatmap
from dashboard.heatmap import Kind, Look, Words, seen
from tests.dashboard.helpers import Reader, decode, open_scene

FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan, 1e-30, 3e38]),
    st.floats(width=32, allow_nan=True, allow_infinity=True),
)


@dataclass(frozen=True)
class Scene:
    """Tiles (H, T, S) and their mask (T, S)."""

    tiles: NDArray[np.float32]
    allowed: NDArray[np.bool_]

    @property
    def shown(self) -> list[tuple[int, int, int, float]]:
        """Every cell that is not masked, as the browser decides it: tile, row, column, number."""
        cells = [(*place, float(self.tiles[place])) for place in np.ndindex(*self.tiles.shape)]
        return [cell for cell in cells if self.allowed[cell[1:3]] or cell[3] not in (0, -math.inf)]


@st.composite
def scenes(draw: st.DrawFn, numbers: st.SearchStrategy[float] = FLOATS) -> Scene:
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)))
    tiles = draw(arrays.arrays(np.float32, shape, elements=numbers))
    allowed = draw(
        st.one_of(
            st.just(np.ones(shape[1:], dtype=bool)),
            st.just(np.tri(*shape[1:], dtype=bool)),
            arrays.arrays(np.bool_, shape[1:]),
        )
    )
    if draw(st.booleans()):
        tiles = np.where(allowed, tiles, np.float32(0))
    return Scene(tiles, allowed)


@st.composite
def shares(draw: st.DrawFn) -> Scene:
    """Weights as a softmax gives them, some sharp, now and then with a row that is broken."""
    scene = draw(scenes(st.floats(-9, 9, width=32)))
    scores = np.where(scene.allowed, scene.tiles.astype(np.float64) * draw(st.sampled_from([0, 1, 20])), -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = np.nan_to_num(powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    for tile, row in draw(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=2)):
        if tile < weights.shape[0] and row < weights.shape[1]:
            weights[tile, row] *= np.float32(draw(st.sampled_from([0, 2, 0.5, math.nan])))
    return Scene(weights, scene.allowed)


def look(scene: Scene, kind: Kind = "weights", has_rows: bool = False) -> seen.Seen:
    """What is seen of a scene, packed as a picture packs it."""
    count = len(scene.tiles)
    flat, places = scene.tiles.reshape(count, -1), np.flatnonzero(scene.allowed)
    left_out = flat[:, ~scene.allowed.ravel()]
    if not ((left_out == 0) | np.isneginf(left_out)).all():
        places = np.arange(scene.allowed.size)
    return seen.look(flat[:, places], places, scene.allowed, is_signed=kind == "signed", has_rows=has_rows)


@given(scenes(), st.sampled_from(["signed", "difference"]))
def test_counts_and_extremes_are_those_of_the_numbers(scene: Scene, kind: Kind) -> None:
    found = look(scene, kind)
    numbers = [cell[3] for cell in scene.shown]
    finite = [number for number in numbers if math.isfinite(number)]
    assert found.cells == scene.tiles.size
    assert found.masked == scene.tiles.size - len(numbers)
    assert found.nans == sum(map(math.isnan, numbers))
    assert found.infinite == sum(map(math.isinf, numbers))
    assert found.nonzero == sum(number != 0 for number in numbers)
    assert (found.low, found.high) == ((min(finite), max(finite)) if finite else (0, 0))
    if not finite:
        assert found.largest is None
        return
    assert found.largest
    most = max(finite, key=abs) if kind == "signed" else max(finite)
    assert abs(found.largest.number) == abs(most)
    assert found.largest.number in finite
    first = next(cell for cell in scene.shown if cell[3] == found.largest.number)
    assert first[:3] == (found.largest.tile, found.largest.row, found.largest.column)
    assert found.largest.cells == finite.count(found.largest.number)


def rows_of(scene: Scene) -> dict[tuple[int, int], list[tuple[int, float]]]:
    """The cells (column, number) that are shown of each row with two keys and more, by tile and row."""
    free = [row for row in range(scene.allowed.shape[0]) if scene.allowed[row].sum() > 1]
    cells = {(tile, row): [] for tile in range(len(scene.tiles)) for row in free}  # type: ignore[var-annotated]
    for tile, row, column, number in scene.shown:
        if row in free:
            cells[tile, row].append((column, number))
    return cells


@given(shares())
@settings(max_examples=300)
def test_rows_are_shared_out_as_it_says(scene: Scene) -> None:
    found = look(scene, has_rows=True).rows
    assert found
    rows = rows_of(scene)
    assert found.lone == sum(scene.allowed.sum(axis=1) < 2)
    sums = {place: sum(number for _, number in cells) for place, cells in rows.items()}
    held = {place: cells for place, cells in rows.items() if abs(sums[place] - 1) < 0.009}
    near = [place for place, total in sums.items() if 0.009 <= abs(total - 1) <= 0.011]
    assert not near, "no row of these scenes is near the limit"
    spreads = [2 ** -sum(number * math.log2(number) for _, number in cells if number > 0) for cells in held.values()]
    assert found.spread == (pytest.approx(np.mean(spreads), rel=0.02) if spreads else None)
    broken = {place[0] for place, total in sums.items() if place not in held and total != 0 and not math.isnan(total)}
    assert found.unequal == tuple(sorted(broken))
    square = scene.allowed.shape[0] == scene.allowed.shape[1]
    for pattern, tiles in zip(seen.PATTERNS, found.patterns, strict=True):
        for tile in range(len(scene.tiles)):
            mine = [(row, column, number) for (t, row), cells in held.items() if t == tile for column, number in cells]
            there = sum(number for row, column, number in mine if lies(pattern, row, column))
            share = there / len([place for place in held if place[0] == tile]) if mine else 0
            if abs(share - 0.5) > 0.01:
                assert (tile in tiles) == (share > 0.5 and (square or pattern == "on the first key"))


def lies(pattern: str, row: int, column: int) -> bool:
    return column == {"on the diagonal": row, "on the first key": 0, "on the previous token": row - 1}[pattern]


@given(
    scenes(),
    st.sampled_from(["weights", "signed", "difference"]),
    st.sampled_from([Words(), Words("a", "b", ("a", "and b", ""))]),
)
def test_every_picture_can_be_said(scene: Scene, kind: Kind, words: Words) -> None:
    text = heatmap.picture(scene.tiles, scene.allowed, "x", kind=kind, words=words).seen
    assert "nan," not in text
    assert "inf," not in text
    assert ("NaN" in text) == bool(np.isnan([cell[3] for cell in scene.shown]).any())
    masked = scene.tiles.size - len(scene.shown)
    assert (f"{masked} of {scene.tiles.size} cells are masked" in text) == bool(masked)
    if scene.shown:
        assert text


def said(tiles: Any, allowed: Any = None, **options: Any) -> str:
    return heatmap.picture(np.asarray(tiles, dtype=np.float32), allowed, "x", **options).seen


def test_the_words_for_weights() -> None:
    eye = np.eye(4)[None]
    assert said(eye) == (
        "The largest weight is 1 (4 cells), first at head 0, query 0 → key 0. "
        "A row spreads its weight over 1.0 keys on average. Most of the weight lies on the diagonal in head 0."
    )
    causal = np.tri(3, dtype=bool)
    first = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.8, 0.1, 0.1]])
    assert said([first, first], causal) == (
        "Of rows with two keys or more, the largest weight is 0.9 (2 cells), first at head 0, query 1 → key 0. "
        "A row spreads its weight over 1.6 keys on average. Most of the weight lies on the first key in all 2. "
        "6 of 18 cells are masked."
    )
    assert said([[[0.7, 0.7], [0.5, 0.5]]], titles=["x"]).endswith("Rows that do not sum to 1 are in x.")
    assert "0.9999" in said([[[0.99994, 0.00006], [0, 0]]]), "what is less than 1 is not said to be 1"
    previous = np.eye(5, k=-1)
    previous[0, 0] = 1
    assert "Most of the weight lies on the previous token in head 0." in said(previous[None], np.tri(5, dtype=bool))


def test_the_words_for_other_numbers() -> None:
    signed = np.array([[[1.5, -2.5], [0, 1]]])
    assert said(signed, kind="signed") == (
        "The numbers go from −2.5 to 1.5; farthest from 0 is −2.5, at head 0, query 0 → key 1."
    )
    assert said(np.full((1, 2, 2), 3), kind="signed") == "Every number is 3."
    words = Words(number="|ours − PyTorch's|")
    assert said(np.zeros((1, 2, 2)), kind="difference", words=words) == (
        "There is no difference: |ours − PyTorch's| is 0 in every cell."
    )
    apart = [[[0, 2e-7], [np.nan, np.inf]]]
    assert said(apart, kind="difference", titles=["apart"]) == (
        "The largest difference is 2e−07, at apart, query 0 → key 1. 3 of 4 cells are not 0. "
        "1 of 4 cells are NaN. 1 of 4 cells are infinite."
    )


def test_a_page_sends_it_with_the_numbers() -> None:
    header = Reader().scene.header
    assert re.match(
        r"Of rows with two keys or more, the largest weight is 0\.95, at head 1, query 1 → key 0\.", header["seen"]
    )
    assert header["seen"].endswith("1440 of 3072 cells are masked.")
    full = open_scene(AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5, causal=False)).scene
    assert "masked" not in full.header["seen"]
    most = np.unravel_index(full.weights.argmax(), full.weights.shape)
    assert f"at head {most[0]}, query {most[1]} → key {most[2]}." in full.header["seen"]


def test_it_is_made_with_the_picture_and_not_with_its_look() -> None:
    picture = heatmap.picture(np.eye(2, dtype=np.float32)[None], None, "x")
    for shown in (Look(), Look(enlarged=0, scale="per-head")):
        assert decode(heatmap.payload(picture, shown, "summary")).header["seen"] == picture.seen


def test_what_a_forbidden_cell_holds_is_shown_and_the_others_stay_masked() -> None:
    allowed = np.tri(3, dtype=bool)
    tiles = np.where(allowed, np.float32(2), -np.inf)[None].astype(np.float32)
    tiles[0, 0, 2] = 5
    found = look(Scene(tiles, allowed), "signed")
    assert (found.masked, found.infinite, found.low, found.high) == (2, 0, 2, 5)
    assert found.largest == seen.Extreme(5, 0, 0, 2, 1)
