"""Break it: what is shown of every mistake is what a run of it gives, and the cell below is the worst one."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

import pytest
import torch
from torch import Tensor

from attention.block import POST_NORM, PRE_NORM
from attention.bugs.catalogue import BUGS, BY_KEY, Bug, joined
from attention.bugs.caught import Scene, both_with
from attention.compare import Tolerance, compare
from attention.config import DTYPES, AttentionConfig
from attention.multi_head import STEPS, allowed_by
from attention.verify import ARITHMETIC
from attention.verify_block import BlockConfig
from dashboard import break_panel
from dashboard.heatmap import Cell
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link, number
from tests.dashboard.helpers import Scene as Drawn

NAN, INF = math.nan, math.inf
PAGE: Final = "break_it"
APART: Final = "break_it_apart"
ATTENTION: Final = [bug for bug in BUGS if not bug.of_block]
BLOCK: Final = [bug for bug in BUGS if bug.of_block]
SAID: Final = re.compile(
    r"`(?P<step>[a-z_0-9.]+)`, (head (?P<head>\d+), )?(query|token) (?P<row>\d+) (→ key|· dimension) (?P<column>\d+): "
    r"ours \*\*(?P<ours>\S+)\*\*, PyTorch's \*\*(?P<pytorch>\S+)\*\*, "
    r":(?P<colour>green|red)\[\**(?P<apart>[^ ]+) apart\**\]; (?P<allowed>\S+) is allowed\."
)


@dataclass(frozen=True)
class Shown:
    """What a run in the test gives at the step on screen; `at` is where the page should look."""

    step: str
    ours: Tensor
    pytorch: Tensor
    at: tuple[int, ...]  # of one sequence: the head (of steps within heads), row, column


def opened(*bugs: Bug, config: AttentionConfig = SMALL, **more: str) -> Reader:
    names = dict(zip(("mistake", "second"), (bug.name for bug in bugs), strict=False))
    return Reader(PAGE, **{**link(config), **names, **more})


def in_url(reader: Reader, name: str) -> str:
    text = reader.app.query_params.get(name, "")
    return text if isinstance(text, str) else text[-1]


def run(scene: Scene, bugs: Sequence[Bug], step: str, at: tuple[int, ...] | None = None) -> Shown:
    config = scene if isinstance(scene, AttentionConfig) else scene.scene
    pieces = joined(bugs[0], bugs[1] if len(bugs) > 1 else None)
    ours, pytorch = (attrgetter(step)(trace) for trace in both_with(scene, pieces))
    _, *worst = compare(step, ours, pytorch, ARITHMETIC[config.dtype]).worst or ()
    return Shown(step, ours[0], pytorch[0], at or tuple(worst))


def assert_apart(drawn: Drawn, ours: Tensor, pytorch: Tensor) -> None:
    """The picture of |ours − PyTorch's|, cell by cell: worked with Python's own numbers."""
    header = drawn.header
    assert (header["kind"], header["titles"], header["numberName"]) == ("difference", ["apart"], "|ours − PyTorch's|")
    sizes = []
    for row, (left, right) in enumerate(zip(ours.tolist(), pytorch.tolist(), strict=True)):
        for column, (a, b) in enumerate(zip(left, right, strict=True)):
            size = 0.0 if a == b else abs(a - b)
            shown = float(drawn.weights[0, row, column])
            assert shown == pytest.approx(size, rel=1e-6, nan_ok=True), (row, column)
            sizes.append(size)
    assert header["nans"] == sum(map(math.isnan, sizes))
    some = [size for size in sizes if 0 < size < math.inf]
    low, high = header["low"], header["high"]
    if not some:
        assert (low, high) == (0, 0)
        return
    assert high / 10 * (1 - 1e-6) <= max(some) < high * (1 + 1e-6)
    assert low <= min(some) * (1 + 1e-6) < low * 10.0001 or high / low > 9e15


def assert_page(reader: Reader, scene: Scene, bugs: Sequence[Bug], step: str, at: tuple[int, ...] | None = None) -> str:
    """Both pictures and the line below are those of a run; returns the line's colour."""
    assert reader.faults == reader.warnings == []
    assert reader.value("_at_step") == step
    config = scene if isinstance(scene, AttentionConfig) else scene.scene
    shown = run(scene, bugs, step, at)
    of_heads = shown.ours.ndim == 3
    head, row, column = shown.at if of_heads else (0, *shown.at[-2:])
    two = [tensor[head] if of_heads else tensor for tensor in (shown.ours, shown.pytorch)]
    square = step.rpartition(".")[2] in ("masked", "weights")
    drawn, apart = reader.picture(PAGE), reader.picture(APART)
    assert_shows(drawn, two, allowed_by(config) if square else None)
    assert_apart(apart, *two)
    assert drawn.mask.tolist() == apart.mask.tolist()
    size = " × ".join(map(str, two[0].shape))
    assert drawn.header["titles"] == [f"ours: {size}", f"PyTorch's: {size}"]
    assert drawn.header["kind"] == ("weights" if step.endswith("weights") else "signed")
    for picture in (drawn, apart):
        assert picture.header["pin"] == {"head": 0, "query": row, "key": column}
    if of_heads and config.num_heads > 1:
        assert reader.widgets["_at_head"].value == head
    else:
        assert "_at_head" not in reader.widgets
    return assert_said(reader, shown, (head, row, column), of_heads, ARITHMETIC[config.dtype])


def assert_said(reader: Reader, shown: Shown, place: tuple[int, int, int], of_heads: bool, tolerance: Tolerance) -> str:
    (said,) = filter(None, map(SAID.fullmatch, reader.said))
    head, row, column = place
    assert said["step"] == shown.step
    assert said["head"] == (str(head) if of_heads else None)
    assert (int(said["row"]), int(said["column"])) == (row, column)
    index = place if of_heads else place[1:]
    ours, pytorch = shown.ours[index].double(), shown.pytorch[index].double()
    for text, value in ((said["ours"], ours), (said["pytorch"], pytorch)):
        assert number(text) == pytest.approx(value.item(), rel=6e-4, abs=5.1e-5, nan_ok=True)
    size = 0.0 if ours == pytorch else abs(ours - pytorch).item()
    assert number(said["apart"]) == pytest.approx(size, rel=6e-3, nan_ok=True)
    limit = tolerance.atol + tolerance.rtol * abs(pytorch).item() if pytorch.isfinite() else 0
    assert said["allowed"] == "nothing" if limit == 0 else number(said["allowed"]) == pytest.approx(limit, rel=6e-3)
    within = torch.isclose(ours, pytorch, rtol=tolerance.rtol, atol=tolerance.atol)
    assert said["colour"] == ("green" if within else "red")
    return said["colour"]


# Every mistake -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", ATTENTION, ids=lambda bug: bug.key)
def test_every_mistake_of_an_attention(bug: Bug) -> None:
    reader = opened(bug)
    colour = assert_page(reader, SMALL, [bug], bug.step)
    said = "\n".join(reader.said)
    assert f"**{bug.name}.**" in said
    assert bug.what in said
    assert bug.shows in said
    assert f"({bug.thread})" in said
    if bug.right:
        assert reader.verdict.startswith(":green-badge[")
        assert colour == "green"
        assert ":green-badge[:material/check_circle: no mistake]" in said
        assert not any("first at" in text for text in reader.said)
    elif bug.key == "plain-softmax":
        assert "no mistake" not in said
        assert reader.verdict.startswith(":red-badge[")
        assert "**Every step of this scene is equal; on the fixed probe `weights` differs first**" in reader.verdict
        assert colour == "green"
    else:
        assert "no mistake" not in said
        assert reader.verdict.startswith(f":red-badge[:material/cancel: differs] **`{bug.step}` is the first step")
        assert colour == "red"


@pytest.mark.parametrize(("norm", "activation"), [("post", "gelu"), ("pre", "gelu"), ("post", "relu"), ("pre", "relu")])
def test_every_mistake_of_a_block(norm: str, activation: str) -> None:
    reader = opened(BLOCK[0], norm=norm, activation=activation)
    scene = BlockConfig(SMALL, norm_first=norm == "pre", activation=activation)
    for bug in BLOCK:
        reader.set("mistake", bug.name)
        step = bug.first_step(scene.norm_first)
        assert step == (bug.pre_norm if norm == "pre" else bug.step)
        hides = activation == "relu" and bug.key in ("relu", "tanh-gelu")
        colour = assert_page(reader, scene, [bug], step)
        assert (reader.widgets["norm"].value, reader.widgets["activation"].value) == (norm, activation)
        assert list(reader.widgets["_at_step"].options) == list(PRE_NORM if norm == "pre" else POST_NORM)
        if hides:
            assert "Every step of this scene is equal; on the fixed probe `activated`" in reader.verdict
            assert colour == "green"
        else:
            assert f"**`{step}` is the first step that differs**" in reader.verdict
            # what float64 tells apart may be within what float32 is allowed
            assert colour == "red" or bug.key in ("norm-eps", "tanh-gelu")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.key)
def test_the_heads_the_properties_and_the_code(bug: Bug) -> None:
    reader = opened(bug)
    scene = BlockConfig(SMALL) if bug.of_block else SMALL
    ours, _ = both_with(scene, bug.pieces)
    weights = attrgetter("attention.weights" if bug.of_block else "weights")(ours)[0]
    heads = reader.picture("break_it_heads")
    assert_shows(heads, list(weights), allowed_by(SMALL))
    assert heads.header["titles"] == ["head 0", "head 1", "head 2"]
    sides = [function for pair in bug.swaps for function in pair]
    assert len(reader.app.code) == len(sides) == 2
    for shown, function in zip(reader.app.code, sides, strict=True):
        assert shown.value.startswith(f"def {function.__name__}(")
        assert '"""' not in shown.value
    assert "✓ the usual way" in reader.said
    assert f"{'✓' if bug.right else '✗'} {bug.name}" in reader.said


@pytest.mark.parametrize(
    ("key", "broken"),
    [
        ("no-scale", set()),
        ("softmax-axis", {"rows sum to 1"}),
        ("mask-after-softmax", {"rows sum to 1"}),
        ("mask-off-by-one", {"forbidden weights are exactly 0"}),
        ("view-split", {"without a mask, permuting tokens permutes the outputs"}),
        # in floating point "the same weights" are not the same to the last bit
        ("mask-renormalised", {"a changed future token leaves earlier outputs as they were, to the last bit"}),
        ("relu", set()),
    ],
)
def test_what_gave_it_away(key: str, broken: set[str]) -> None:
    reader = opened(BY_KEY[key])
    found = {row[0] for row in reader.table_of("claims") if row[1] == "✗ broken"}
    assert found >= broken
    assert bool(found) == bool(broken)
    assert ("All of it holds, mistake or not: only the comparison with PyTorch tells." in reader.said) == (not broken)


# The step and the cell -----------------------------------------------------------------------------------------------


def test_every_step_is_shown_at_its_worst_cell() -> None:
    bug = BY_KEY["mask-off-by-one"]
    reader = opened(bug)
    assert list(reader.widgets["_at_step"].options) == list(STEPS)
    for step in STEPS:
        reader.set("_at_step", step)
        assert in_url(reader, "at_step") == step
        assert "at" not in reader.app.query_params
        colour = assert_page(reader, SMALL, [bug], step)
        assert colour == ("green" if STEPS.index(step) < STEPS.index("masked") else "red")


def test_every_step_of_a_block() -> None:
    bug = BY_KEY["no-residual"]
    reader = opened(bug, norm="pre")
    for step in PRE_NORM:
        reader.set("_at_step", step)
        assert_page(reader, BlockConfig(SMALL, norm_first=True), [bug], step)


@pytest.mark.parametrize("picture", [PAGE, APART])
@pytest.mark.parametrize("tile", [0, 1])
def test_a_click_moves_the_cell(picture: str, tile: int) -> None:
    bug = BY_KEY["scale-twice"]
    reader = opened(bug)
    worst = run(SMALL, [bug], "scaled").at
    other = 3, 1
    assert other != worst[1:]
    reader.click(picture, pin=f"{tile}-3-1")
    assert_page(reader, SMALL, [bug], "scaled", (worst[0], 3, 1))
    assert in_url(reader, "at") == f"{worst[0]}-3-1"
    reader.click(picture, pin="none")
    assert_page(reader, SMALL, [bug], "scaled")
    assert "at" not in reader.app.query_params


def test_the_same_cell_can_be_clicked_again_after_the_worst() -> None:
    bug = BY_KEY["scale-twice"]
    reader = opened(bug)
    head, *_ = run(SMALL, [bug], "scaled").at
    for time in (1, 2):  # as the browser says which click it is
        reader.click(PAGE, pin=f"0-3-1#{time}")
        assert_page(reader, SMALL, [bug], "scaled", (head, 3, 1))
        reader.press("To the worst cell")
        assert_page(reader, SMALL, [bug], "scaled")


def test_another_head_keeps_the_cell() -> None:
    bug = BY_KEY["scale-twice"]
    reader = opened(bug, at="0-4-2")
    for head in (2, 1, 0):
        reader.set("_at_head", head)
        assert_page(reader, SMALL, [bug], "scaled", (head, 4, 2))
    reader.press("To the worst cell")
    assert_page(reader, SMALL, [bug], "scaled")


def test_another_mistake_goes_back_to_its_first_step_and_worst_cell() -> None:
    reader = opened(BY_KEY["scale-twice"], at="1-4-2", at_step="output")
    assert_page(reader, SMALL, [BY_KEY["scale-twice"]], "output", (4, 2))
    for key in ("mask-after-softmax", "view-split", "no-bias-out", "scale-twice"):
        reader.set("mistake", BY_KEY[key].name)
        assert_page(reader, SMALL, [BY_KEY[key]], BY_KEY[key].step)
        assert not {"at", "at_step"} & set(reader.app.query_params)
        reader.set("_at_step", "context").click(PAGE, pin="0-0-0")
    reader.set("second", BY_KEY["interleaved"].name)
    assert_page(reader, SMALL, [BY_KEY["scale-twice"], BY_KEY["interleaved"]], "q")


def test_another_scene_keeps_the_step_and_the_cell_where_it_has_them() -> None:
    bug = BY_KEY["scale-twice"]
    reader = opened(bug, at="1-4-2", at_step="weights")
    assert_page(reader, SMALL, [bug], "weights", (1, 4, 2))
    reader.set("seed", 5)
    assert_page(reader, replace(SMALL, seed=5), [bug], "weights", (1, 4, 2))
    reader.set("num_tokens", 4)  # there is no token 4 any more
    assert_page(reader, replace(SMALL, seed=5, num_tokens=4), [bug], "weights")
    reader.set("num_tokens", 5)
    assert_page(reader, replace(SMALL, seed=5), [bug], "weights", (1, 4, 2))


def test_the_tolerance_decides_the_colour_and_the_worst_cell() -> None:
    bug = BY_KEY["norm-eps"]
    reader = opened(bug)
    scene = BlockConfig(SMALL)
    assert_page(reader, scene, [bug], "norm_1")
    for rtol, atol in ((0.0, 1e-9), (0.5, 0.0), (0.0, 0.0)):
        reader.set("rtol", rtol).set("atol", atol).rerun()
        reader.press("To the worst cell")
        tolerance = Tolerance(rtol=rtol, atol=atol)
        shown = run(scene, [bug], "norm_1")
        _, *at = compare("norm_1", shown.ours[None], shown.pytorch[None], tolerance).worst or ()
        assert_said(reader, shown, (0, at[0], at[1]), False, tolerance)


def test_a_cell_that_both_mask_is_equal_to_the_last_bit() -> None:
    bug = BY_KEY["scale-twice"]
    reader = opened(bug, at="0-0-1", at_step="masked", rtol="0", atol="0")
    assert reader.faults == []
    (said,) = [text for text in reader.said if text.endswith("is allowed.")]
    both = "`masked`, head 0, query 0 → key 1: ours **−∞**, PyTorch's **−∞**"
    assert said == f"{both}, :green[0 apart]; nothing is allowed."
    assert reader.picture(APART).weights[0, 0, 1] == 0


def test_numbers_that_are_none_are_red() -> None:
    check = compare("weights", torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), Tolerance(rtol=0.5, atol=0.5))
    for ours, pytorch, apart in (
        (NAN, 0.5, "nan"),
        (0.5, NAN, "nan"),
        (INF, 0.5, "∞"),
        (INF, -INF, "∞"),
        (0.5, INF, "∞"),
    ):
        said = break_panel.cell("weights", check, Cell(0, 1, 2), True, ours, pytorch, SMALL)
        assert f":red[**{apart} apart**]" in said
        assert said.endswith(f"{'0.75' if pytorch == 0.5 else 'nothing'} is allowed.")


# Two at once, and kinds of block -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        ("no-scale", "mask-off-by-one", "scaled"),
        ("mask-off-by-one", "no-scale", "scaled"),
        ("no-bias-out", "view-merge", "merged"),
        ("mask-renormalised", "plain-softmax", "weights"),
        ("no-scale", "scale-twice", "scaled"),
    ],
)
def test_two_at_once(first: str, second: str, step: str) -> None:
    two = [BY_KEY[first], BY_KEY[second]]
    reader = opened(*two)
    assert_page(reader, SMALL, two, step)
    for bug in two:
        assert sum(f"**{bug.name}.**" in text for text in reader.said) == 1
    assert len(reader.app.code) == 4


@pytest.mark.parametrize(("first", "second"), [("relu", "no-scale"), ("no-scale", "relu"), ("relu", "tanh-gelu")])
def test_two_at_once_in_a_block(first: str, second: str) -> None:
    two = [BY_KEY[first], BY_KEY[second]]
    reader = opened(*two)
    step = "activated" if first == "relu" and second == "tanh-gelu" else "attention.scaled"
    assert_page(reader, BlockConfig(SMALL), two, step)
    reader.set("second", "none")
    in_block = two[0].of_block
    scene: Scene = BlockConfig(SMALL) if in_block else SMALL
    assert_page(reader, scene, two[:1], two[0].first_step(False if in_block else None))
    assert ("norm" in reader.widgets) == in_block


@pytest.mark.parametrize("key", ["no-scale", "relu"])
def test_the_same_mistake_twice_is_one(key: str) -> None:
    bug = BY_KEY[key]
    twice, once = opened(bug, bug), opened(bug)
    assert twice.faults == []
    assert twice.pictures == once.pictures
    assert sum(f"**{bug.name}.**" in text for text in twice.said) == 1
    assert len(twice.app.code) == 2


def test_the_kind_of_block_outlives_a_mistake_of_attention() -> None:
    bug = BY_KEY["norm-elsewhere"]
    reader = opened(bug).set("norm", "pre").set("activation", "relu")
    scene = BlockConfig(SMALL, norm_first=True, activation="relu")
    assert_page(reader, scene, [bug], "attention.q")
    reader.set("mistake", BY_KEY["no-scale"].name).set("seed", 3)
    assert_page(reader, replace(SMALL, seed=3), [BY_KEY["no-scale"]], "scaled")
    reader.set("seed", SMALL.seed).set("mistake", bug.name)
    # whatever the controls say now, the pictures say too
    norm, activation = reader.widgets["norm"].value, reader.widgets["activation"].value
    scene = BlockConfig(SMALL, norm_first=norm == "pre", activation=activation)
    assert_page(reader, scene, [bug], bug.first_step(norm == "pre"))


def test_a_step_of_the_other_kind_of_scene_is_not_kept() -> None:
    reader = opened(BY_KEY["norm-elsewhere"], at_step="attention.q")
    assert_page(reader, BlockConfig(SMALL), [BY_KEY["norm-elsewhere"]], "attention.q")
    reader.set("mistake", BY_KEY["no-scale"].name)
    assert_page(reader, SMALL, [BY_KEY["no-scale"]], "scaled")


def test_another_norm_shows_the_step_that_breaks_there() -> None:
    bug = BY_KEY["norm-elsewhere"]
    reader = opened(bug)
    assert_page(reader, BlockConfig(SMALL), [bug], "norm_1")
    reader.set("norm", "pre")
    assert_page(reader, BlockConfig(SMALL, norm_first=True), [bug], "attention.q")


# Scenes that hide, and odd ones --------------------------------------------------------------------------------------

ODD: Final = (
    AttentionConfig(embed_dim=12, num_heads=3, num_tokens=1),
    AttentionConfig(embed_dim=5, num_heads=1, num_tokens=3),
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=2),
    AttentionConfig(embed_dim=7, num_heads=7, num_tokens=3, causal=False),
    *(replace(SMALL, num_tokens=3, dtype=dtype) for dtype in DTYPES if dtype != "float32"),
)


@pytest.mark.parametrize("place", range(len(ODD)))
def test_odd_scenes(place: int) -> None:
    config = ODD[place]
    reader = opened(BUGS[0], config=config)
    # every mistake in some scenes of each kind
    for bug in BUGS if config.num_tokens == 1 else BUGS[place % 2 :: 2]:
        reader.set("mistake", bug.name)
        scene: Scene = BlockConfig(config) if bug.of_block else config
        shows = "**Every step of this scene is equal" not in reader.verdict and not bug.right
        named = re.search(r"\*\*`([a-z_0-9.]+)` is the first step that differs\*\*", reader.verdict)
        own = bug.first_step(False if bug.of_block else None)
        badge = reader.verdict.partition("-badge[")[0]
        half = config.dtype in ("float16", "bfloat16")  # there another order of sums may be over the tolerance
        assert badge in ((":green", ":orange") if bug.right and half else (":green",) if bug.right else (":red",))
        assert (named is not None) == shows
        step = named[1] if named else own
        assert step == own or config.embed_dim == 1
        assert_page(reader, scene, [bug], step)


def test_what_the_settings_hide_is_said() -> None:
    one = replace(SMALL, num_tokens=1)
    reader = opened(BY_KEY["mask-off-by-one"], config=one)
    assert_page(reader, one, [BY_KEY["mask-off-by-one"]], "masked")
    assert "on the fixed probe `masked` differs first" in reader.verdict
    assert "hides " in reader.verdict
    assert any("**These settings cannot show" in text for text in reader.said)


# Links ---------------------------------------------------------------------------------------------------------------


def test_a_link_to_a_step_and_a_cell() -> None:
    bug, second = BY_KEY["no-scale"], BY_KEY["view-merge"]
    reader = opened(bug, second, at="2-3-1", at_step="weights")
    assert_page(reader, SMALL, [bug, second], "weights", (2, 3, 1))
    assert reader.notices == []
    # of a step without heads the head is not asked
    reader = opened(bug, at="2-3-11", at_step="merged")
    assert_page(reader, SMALL, [bug], "merged", (3, 11))


@pytest.mark.parametrize("at", ["3-0-0", "0-5-0", "0-0-5", "9999-9999-9999", "0-0-9999"])
def test_a_cell_outside_the_scene_gives_the_worst(at: str) -> None:
    reader = opened(BY_KEY["scale-twice"], at=at)
    assert reader.notices == []
    assert_page(reader, SMALL, [BY_KEY["scale-twice"]], "scaled")


@pytest.mark.parametrize("name", ["at", "at_step", "question", "quiz", "mistake", "second"])
@pytest.mark.parametrize("text", ["", "-1", "9" * 400, "0-0", "0-0-0-0", "-1-0-0", "٣-1-1", "<b>x</b>"])
def test_nonsense_gives_the_page_and_one_notice(name: str, text: str) -> None:
    reader = Reader(PAGE, **{**link(SMALL), name: text})
    assert_page(reader, SMALL, [BUGS[0]], "scaled")
    (notice,) = reader.notices
    assert name in notice
    assert "<b>" not in notice


@pytest.mark.parametrize("step", ["norm_1", "attention.masked", "sum_2"])
def test_a_step_that_the_scene_does_not_have_gives_the_first_broken(step: str) -> None:
    reader = opened(BY_KEY["no-scale"], at_step=step)
    assert reader.notices == []
    assert_page(reader, SMALL, [BY_KEY["no-scale"]], "scaled")
    reader = opened(BY_KEY["relu"], at_step="masked")
    assert_page(reader, BlockConfig(SMALL), [BY_KEY["relu"]], "activated")
