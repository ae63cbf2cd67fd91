"""The page of mistakes: what is drawn is what the mistake makes, and what is said of it is true."""

import json
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from attention.bugs.catalogue import BUGS, BY_KEY, Bug, joined
from attention.bugs.caught import Scene, both_with, matrix
from attention.bugs.quiz import question, questions
from attention.compare import apart, compare
from attention.config import AttentionConfig
from attention.multi_head import allowed_by
from attention.verify import ARITHMETIC
from attention.verify_block import BlockConfig
from dashboard import break_panel
from dashboard.cell_panel import number
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link

PAGE: Final = "break_it"
ATTENTION: Final = [bug for bug in BUGS if not bug.of_block]


def opened(mistake: str = "no-scale", config: AttentionConfig = SMALL, **more: Any) -> Reader:
    name = BY_KEY[mistake].name if mistake in BY_KEY else mistake
    return Reader(PAGE, **{**link(config), "mistake": name, **more})


def scene_of(bug: Bug, config: AttentionConfig, norm_first: bool = False, activation: str = "gelu") -> Scene:
    return BlockConfig(config, 1, norm_first, activation) if bug.of_block else config


def step_of(reader: Reader) -> str:
    return str(reader.app.session_state["_at_step"])


def assert_true(reader: Reader, scene: Scene, bug: Bug, second: Bug | None = None) -> None:
    """Both pictures, and the line about the cell, are those of a run made here."""
    assert reader.faults == reader.warnings == []
    config = scene.scene if isinstance(scene, BlockConfig) else scene
    pieces = joined(bug, second)
    ours, pytorch = both_with(scene, pieces)
    step = step_of(reader)
    a, b = attrgetter(step)(ours), attrgetter(step)(pytorch)
    check = compare(step, a, b, ARITHMETIC[config.dtype])
    line = next(text for text in reader.said if " is allowed" in text)
    worst = check.worst
    assert worst is not None
    head = worst[1] if a.ndim == 4 else 0
    hatched = allowed_by(config) if step.endswith(("masked", "weights")) else None
    assert_shows(reader.picture(PAGE), [matrix(a, head), matrix(b, head)], hatched)
    off = apart(matrix(a, head), matrix(b, head))
    assert_shows(reader.picture(f"{PAGE}_apart"), [off], hatched)
    said = number(a[worst].item()), number(b[worst].item())
    assert f"ours **{said[0]}**, PyTorch's **{said[1]}**" in line
    assert (":green[" in line) == bool(check.margin <= 1 and not a[worst].isnan())
    weights: Tensor = attrgetter("attention.weights" if isinstance(scene, BlockConfig) else "weights")(ours)
    assert_shows(reader.picture(f"{PAGE}_heads"), list(weights[0]), allowed_by(config))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.key)
def test_every_mistake_opens_on_the_step_that_it_breaks(bug: Bug) -> None:
    for norm_first in (False, True) if bug.of_block else (False,):
        reader = opened(bug.key, norm="pre" if norm_first else "post")
        scene = scene_of(bug, SMALL, norm_first)
        assert step_of(reader) == bug.first_step(norm_first if bug.of_block else None)
        assert_true(reader, scene, bug)
        if bug.right:
            assert reader.verdict.startswith(":green-badge[")
        else:
            assert reader.verdict.startswith(":red-badge[")
            on_probe = "Every step of this scene is equal; on the fixed probe" in reader.verdict
            assert on_probe == (bug.key == "plain-softmax")
            assert f"`{step_of(reader)}`" in reader.verdict
        assert any(bug.what in text and bug.shows in text and bug.thread in text for text in reader.said)


@pytest.mark.parametrize(
    "config",
    [
        AttentionConfig(embed_dim=1, num_heads=1, num_tokens=1),
        AttentionConfig(embed_dim=6, num_heads=1, num_tokens=3, causal=False),
        AttentionConfig(embed_dim=20, num_heads=5, num_tokens=2, dtype="float16"),
        AttentionConfig(embed_dim=8, num_heads=8, num_tokens=7, dtype="bfloat16"),
        AttentionConfig(embed_dim=12, num_heads=2, num_tokens=9, dtype="float64"),
    ],
    ids=lambda config: f"{config.num_heads}x{config.num_tokens}-{config.dtype}",
)
def test_every_scene_opens_with_every_mistake(config: AttentionConfig) -> None:
    reader = opened("no-scale", config)
    for bug in BUGS:
        reader.set("mistake", bug.name)
        assert_true(reader, scene_of(bug, config), bug)


def test_two_mistakes_at_once() -> None:
    reader = opened("view-merge", second=BY_KEY["scale-twice"].name)
    assert step_of(reader) == "scaled", "the earlier of the two"
    assert_true(reader, SMALL, BY_KEY["view-merge"], BY_KEY["scale-twice"])
    reader.set("second", BY_KEY["relu"].name)
    assert step_of(reader) == "attention.merged"
    assert_true(reader, BlockConfig(SMALL), BY_KEY["view-merge"], BY_KEY["relu"])
    assert {"norm", "activation"} <= set(reader.widgets)
    reader.set("second", "none")
    assert step_of(reader) == "merged"


def test_a_click_another_step_another_head_and_back_to_the_worst() -> None:
    reader = opened("no-scale")
    worst = next(text for text in reader.said if " is allowed" in text)
    reader.click(PAGE, pin="1-3-2")
    ours, pytorch = map(attrgetter("scaled"), both_with(SMALL, BY_KEY["no-scale"].pieces))
    head = reader.app.session_state["_at_head"]
    line = next(text for text in reader.said if " is allowed" in text)
    assert f"head {head}, query 3 → key 2" in line
    assert number(ours[0, head, 3, 2].item()) in line
    assert reader.app.query_params["at"] in (f"{head}-3-2", [f"{head}-3-2"])
    reader.set("_at_head", 2)
    assert_shows(reader.picture(PAGE), [ours[0, 2], pytorch[0, 2]])
    reader.set("_at_step", "output")
    assert step_of(reader) == "output"
    assert "at_step" in reader.app.query_params
    reader.press("To the worst cell")
    assert "at" not in reader.app.query_params
    reader.set("mistake", BY_KEY["no-scale"].name).set("mistake", BY_KEY["k-for-v"].name)
    assert step_of(reader) == "v", "another mistake opens on its own first step"
    reader.set("mistake", BY_KEY["no-scale"].name)
    assert next(text for text in reader.said if " is allowed" in text) == worst


@pytest.mark.parametrize(
    "more",
    [
        {"at": "99-99-99"},
        {"at": "0-0-9999"},
        {"at": "-1-0-0"},
        {"at": "x"},
        {"at_step": "sum_1"},
        {"at_step": "no such step"},
        {"quiz": "maybe"},
        {"question": "0"},
        {"question": "1e9"},
        {"mistake": "<b>"},
        {"second": "No scale "},
        {"at": "2-4-4", "at_step": "output"},
    ],
    ids=str,
)
def test_what_a_link_cannot_mean(more: dict[str, str]) -> None:
    reader = Reader(PAGE, **{**link(SMALL), **more})
    assert reader.faults == reader.warnings == []
    assert reader.verdict.startswith(":red-badge[")
    assert f"{PAGE}_apart" in reader.pictures


def test_the_code_beside_is_what_ran() -> None:
    for bug in (BY_KEY["no-scale"], BY_KEY["plain-softmax"], BY_KEY["no-second-norm"]):
        reader = opened(bug.key)
        shown = [code.value for code in reader.app.code]
        for right, wrong in bug.swaps:
            assert break_panel.code(right).strip() in shown
            assert break_panel.code(wrong).strip() in shown
        for text in shown:
            compile(text, bug.key, "exec")
            assert '"""' not in text
    both = opened("no-scale", second=BY_KEY["view-merge"].name)
    assert len(both.app.code) == 4


def test_properties_are_those_of_the_mistake() -> None:
    broken = {row[0]: row[1] for row in opened("softmax-axis").table_of("claims")}
    assert broken["rows sum to 1"] == "✗ broken"
    whole = opened("no-scale")
    assert all(row[1] == "✓ holds" for row in whole.table_of("claims"))
    assert any("only the comparison with PyTorch tells" in text for text in whole.said)


# The quiz ------------------------------------------------------------------------------------------------------------


def everything(reader: Reader) -> str:
    """All that the page has sent of a question, but the list to choose from."""
    parts = [*reader.said, *(message.decode("latin1") for message in reader.pictures.values())]
    parts += [body for bodies in reader.html.values() for body in bodies]
    parts += [code.value for code in reader.app.code] + [caption.value for caption in reader.app.caption]
    return "\n".join(parts)


@pytest.mark.parametrize("kind", ["attention", "block"])
def test_nothing_gives_the_hidden_mistake_away(kind: str) -> None:
    for place in range(4):
        hidden = question(kind == "block", place)
        reader = Reader(PAGE, **{**link(SMALL), "quiz": kind, "question": str(place + 1)})
        assert reader.faults == []
        assert f"**Question {place + 1}.**" in "\n".join(reader.said)
        text = everything(reader)
        tries = "\n".join(text for text in reader.said if text.startswith("- "))  # the page's own, whatever is asked
        for word in (hidden.key, hidden.name, hidden.what, hidden.thread):
            assert word not in text.replace(tries, "")
        assert "mistake" not in reader.widgets
        assert "✗ " not in "".join(text for text in reader.said if text.startswith("✗"))
        assert not reader.app.code
        assert reader.verdict.startswith(":red-badge[")


def guess(reader: Reader, name: str) -> Reader:
    return reader.set("_guess", name).press("Answer")


def test_a_wrong_guess_a_right_one_and_the_next_question() -> None:
    reader = Reader(PAGE, **{**link(SMALL), "quiz": "attention"})
    hidden, other = (
        questions(False)[0],
        next(bug for bug in questions(False)[1:] if bug.step != questions(False)[0].step),
    )
    guess(reader, other.name)
    told = next(text for text in reader.said if "not this one" in text)
    assert f"`{other.step}`" in told
    assert f"`{hidden.step}`" in told
    assert hidden.name not in told
    assert any("0 of 1 right at the first guess" in text for text in reader.said)
    assert not reader.app.code
    guess(reader, hidden.name)
    assert any("right]" in text and hidden.name in text for text in reader.said)
    assert any("0 of 1 right at the first guess" in text for text in reader.said), "the first guess counts"
    assert reader.app.code
    reader.press("Next question")
    assert any("**Question 2.**" in text for text in reader.said)
    assert reader.value("_guess") is None
    assert not any("right]" in text for text in reader.said)
    assert not reader.app.code
    guess(reader, questions(False)[1].name)
    assert any("1 of 2 right at the first guess" in text for text in reader.said)


def test_after_the_last_question_comes_the_first() -> None:
    count = len(questions(False))
    first = Reader(PAGE, **{**link(SMALL), "quiz": "attention", "question": "1"})
    again = Reader(PAGE, **{**link(SMALL), "quiz": "attention", "question": str(count + 1)})
    assert again.verdict == first.verdict
    assert again.picture(PAGE).weights.tolist() == first.picture(PAGE).weights.tolist()


# What settings hide --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    ["heads", "one_head", "masks", "head_counts", "four_ways", "block", "break_it", "precision", "pytorch_differs"],
)
def test_the_note_and_the_way_out_on_every_page(page: str) -> None:
    hiding = Reader(page, **link(replace(SMALL, num_tokens=1)))
    assert hiding.faults == []
    assert " mistakes]" in hiding.verdict
    (label,) = (label for label in hiding.buttons if label.startswith("Show them"))
    assert any("These settings cannot show" in text for text in hiding.said)
    hiding.press(label)
    assert hiding.faults == []
    assert hiding.value("num_tokens") == 16
    assert " mistakes]" not in hiding.verdict
    assert not any("These settings cannot show" in text for text in hiding.said)
    fine = Reader(page, **link(SMALL))
    assert " mistakes]" not in fine.verdict
    assert not any(label.startswith("Show them") for label in fine.buttons)


def test_a_mistake_that_the_settings_hide_is_seen_on_the_probe() -> None:
    reader = opened("averaged", AttentionConfig(embed_dim=6, num_heads=1, num_tokens=4))
    assert "on the fixed probe `weights` differs first" in reader.verdict
    assert step_of(reader) == "weights"


# Once asked for ------------------------------------------------------------------------------------------------------


def test_properties_and_gradients_of_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    label = "Without PyTorch, and backwards: properties and gradients"
    reader = Reader("heads", **link(SMALL))
    assert "gradients" not in reader.html
    reader.expand(label)
    rows = reader.table_of("gradients")
    assert [row[0] for row in rows][:3] == ["dq", "dk", "dv"]
    assert len(rows) == 12
    assert all(row[2] == row[5] == "✓ equal" for row in rows)
    reader.set("seed", 5)
    assert reader.table_of("gradients") != rows
    assert reader.faults == []


def test_infinities_and_nan_of_a_difference() -> None:
    inverted = opened("mask-inverted", at_step="weights")
    header = json.loads(
        inverted.pictures[f"{PAGE}_apart"][4:][: int.from_bytes(inverted.pictures[f"{PAGE}_apart"][:4], "little")]
    )
    assert header["kind"] == "difference"
    assert header["nans"] == 5, "the last row has no key"
    off = opened("mask-off-by-one").picture(f"{PAGE}_apart")
    assert (off.weights == torch.inf).sum() == 4
    assert off.header["high"] <= 1e-5, "besides infinities there is only rounding"
