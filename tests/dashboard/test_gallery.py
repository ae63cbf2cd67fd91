"""Every scene worth showing: it opens, it is equal, and what its sentence says is so."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
import torch

from attention import differences
from attention.bugs.catalogue import BY_KEY as BUGS
from attention.bugs.caught import both_with, first_step
from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.four_ways import FourWays
from attention.four_ways import differences as apart
from attention.head_counts import describe_all
from attention.mask_config import MaskConfig
from attention.mask_lessons import number_for_infinity
from attention.masks import Corner
from attention.multi_head import attend_as_configured, attend_masked
from attention.precision import closeness
from attention.residual import look_into_both
from attention.trained.inputs import labels
from attention.verify import MATHS, report
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from attention.verify_head import attend_as_configured as attend_one
from dashboard import limits, link, page_fields
from dashboard.contents import TITLES
from dashboard.controls import PARAMETERS
from dashboard.gallery import BY_KEY, SCENES, Scene
from tests.dashboard.helpers import PICTURE, Reader

SHARED = ("embed_dim", "num_heads", "num_tokens", "seed", "causal", "dtype", "weights")


def config(key: str) -> AttentionConfig:
    values = dict(BY_KEY[key].values)
    return AttentionConfig(**{name: values[name] for name in SHARED})


def said(key: str) -> dict[str, Any]:
    return dict(BY_KEY[key].values)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.key)
def test_a_scene_opens_as_it_says(scene: Scene) -> None:
    reader = Reader().open("scenes")
    assert reader.faults == []
    reader.press_key(f"open_{scene.key}")
    assert reader.faults == []
    for name, value in scene.values:
        assert reader.value(name) == value, name
    assert f":material/school: **{scene.title}.** {scene.look}" in reader.captions
    assert ("equal" in reader.verdict) == (scene.page != "break_it"), reader.verdict


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.key)
def test_a_link_may_ask_for_all_of_a_scene(scene: Scene) -> None:
    assert scene.page in TITLES
    for name, value in (*scene.values, *scene.clicked):
        for text in link.written(value):
            assert PARAMETERS[name].is_possible(text), name


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.key)
def test_no_page_makes_a_scene_smaller(scene: Scene) -> None:
    """Its sentence would speak of another."""
    shared = config(scene.key)
    assert limits.within(scene.page, shared) == shared
    depth = said(scene.key).get("depth", 1)
    assert limits.depth_within(shared, depth) == depth


def test_a_scene_of_a_trained_layer_is_told_from_its_link_alone() -> None:
    asked = {"scene": "followed", "weights": "repeat, layer 1", "num_tokens": "32", "pin": "1-25-18"}
    assert is_told(Reader(**asked), "followed")
    assert not is_told(Reader(**asked | {"weights": "repeat, layer 0"}), "followed")


def test_what_to_look_for_goes_when_something_is_moved() -> None:
    reader = Reader().open("scenes").press_key("open_rows")
    words = f":material/school: **{BY_KEY['rows'].title}.**"
    assert any(caption.startswith(words) for caption in reader.captions)
    reader.set("seed", 7)
    assert PICTURE in reader.drew, "drawn again, or nothing below would tell"
    assert not any(caption.startswith(words) for caption in reader.captions)


def is_told(reader: Reader, key: str) -> bool:
    return any(caption.startswith(f":material/school: **{BY_KEY[key].title}.**") for caption in reader.captions)


@pytest.mark.parametrize(("a", "told"), [("full-seed42-float32", True), ("full-seed7-float32", False)])
def test_what_to_look_for_is_not_told_of_another_a(a: str, told: bool) -> None:
    reader = Reader("compare", scene="causal", num_tokens="12", a=f"12x12-of-768-{a}")
    assert is_told(reader, "causal") == told


def test_what_to_look_for_is_told_on_its_own_page_only() -> None:
    """On the page of masks token 0 need not see itself."""
    asked = {"scene": "rows", "num_tokens": "12", "rules": "padding", "pad_left": "1"}
    assert not is_told(Reader("masks", **asked), "rows")
    assert is_told(Reader(**asked), "rows")


def test_before() -> None:
    weights = attend_as_configured(config("before")).weights[0, 1]
    seen, named = weights.diagonal(-1) > 0.6, labels(config("before"))
    assert seen[:23].all()
    assert not seen[23:].any()
    assert len(set(named[:24])) == 24, "new letters up to row 23"
    assert named[24] in named[:24]


def test_followed() -> None:
    weights, named = attend_as_configured(config("followed")).weights[0], labels(config("followed"))
    assert named[24] == "p"
    assert named[:24].count("p") == 1
    rows = [(row, named.index(named[row]) + 1) for row in range(24, 31)]
    assert all(weights[head, row, key] > 0.6 for head in range(3) for row, key in rows)
    assert all(weights[3, row, key] < 0.1 for row, key in rows)


def test_subject() -> None:
    weights, named = attend_as_configured(config("subject")).weights[0, 1], labels(config("subject"))
    verb = next(place for place, word in enumerate(named) if word[0] == "(")
    assert (verb, named[verb], named[7], named[verb - 1]) == (16, "(sleep)", "bird", "trees")
    assert weights[16, 7] > 0.99


def test_rows() -> None:
    weights = attend_as_configured(config("rows")).weights[0]
    assert (weights[:, 0, 0] == 1).all()
    assert ((weights > 0).sum(-1) == torch.arange(1, 13)).all()


def test_root() -> None:
    values = said("root")
    trace = attend_one(HeadConfig(config("root"), head_dim=values["head_dim"], value_dim=values["value_dim"]))
    assert round(trace.scores.abs().max().item()) == 89
    assert trace.scaled.abs().max() < 3


def test_heads() -> None:
    found = describe_all(config("heads"))
    assert len({(one.parameters, one.matmul_flops) for one in found}) == 1
    assert all(one.apart > 0.4 for one in found if one.apart is not None)


def test_window() -> None:
    allowed = MaskConfig(num_queries=16, num_keys=16, causal=True, window=4, prefix=3).allowed
    assert allowed.sum(-1).max() == 4
    assert not allowed[12, 1]
    assert MaskConfig(num_queries=16, num_keys=16, causal=True, prefix=3).allowed[0, 2], "what the prefix would show"


def test_empty() -> None:
    mask = MaskConfig(num_queries=12, num_keys=12, causal=True, padding_left=2)
    weights = attend_masked(config("empty"), mask).weights[0]
    assert not weights[:, :2].any()
    assert torch.softmax(torch.full((3,), -torch.inf), 0).isnan().all()


def test_corner() -> None:
    def last(corner: Corner) -> int:
        return int(MaskConfig(num_queries=4, num_keys=12, causal=True, corner=corner).allowed[-1].sum())

    assert (last(Corner.TOP_LEFT), last(Corner.BOTTOM_RIGHT)) == (4, 12)


def test_number() -> None:
    mask = MaskConfig(num_queries=16, num_keys=16, causal=True)
    loud, quiet = (number_for_infinity(config("number"), mask, 0, "-1e4", scale) for scale in (1000, 1))
    assert 28_000 < loud.largest_score < 29_500
    assert loud.leak == 1
    assert quiet.leak == 0


def test_ways() -> None:
    assert 0 < max(number for row in apart(FourWays(config("ways")).answers()) for number in row) < 1e-5


def test_stream() -> None:
    pre, post = look_into_both(BlockConfig(config("stream"), depth=8, norm_first=True), 0)
    assert 2.9 < pre.stream[-1].norm / pre.stream[0].norm < 3.3
    assert 0.9 < post.stream[-1].norm / post.stream[0].norm < 1.1


def test_polarity() -> None:
    shown = differences.differ(config("polarity"), "mask polarity", "the same mask", 0, Tolerance(1e-5, 1e-8))
    assert shown.left is not None
    assert shown.right is not None
    lower = torch.ones(12, 12, dtype=torch.bool).tril()
    assert not shown.left[~lower].any()
    assert not shown.right[lower].nan_to_num().any()


def test_late() -> None:
    bug = next(bug for bug in BUGS.values() if bug.name == said("late")["mistake"])
    ours, pytorch = both_with(config("late"), bug.pieces, torch.float64)
    assert first_step(report(ours, pytorch, MATHS)) == "weights"
    assert attrgetter("weights")(ours).sum(-1).min() < 0.99


def test_closeness() -> None:
    found = {
        one.dtype: one.failing for one in closeness(config("closeness"), Tolerance(1e-5, 1e-8)) if one.step == "output"
    }
    assert 0.001 < found["float32"] < 0.01
    assert min(found["bfloat16"], found["float16"]) > 0.5


def test_causal() -> None:
    b = config("causal")
    with_mask, without = (attend_as_configured(scene).weights[0] for scene in (b, replace(b, causal=False)))
    assert torch.equal(with_mask[:, -1], without[:, -1])
    lower = torch.ones(12, 12, dtype=torch.bool).tril()
    assert (with_mask >= without)[:, lower].all(), "what a query had on later tokens goes to earlier ones"


def test_row() -> None:
    values = said("row")
    assert values["of_query"] == 3
    assert values["causal"]
    assert page_fields.QUESTIONS[0] == values["ask"]


def test_every_sentence_has_a_test() -> None:
    assert all(f"test_{scene.key}" in globals() for scene in SCENES)
