"""The quiz: nothing gives the hidden mistake away, a guess is judged by making both, and only the first one counts."""

import re
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

import pytest
import torch
from google.protobuf import text_format  # type: ignore[import-untyped]

from attention.bugs.catalogue import BUGS, BY_KEY, Bug
from attention.bugs.caught import Scene, both_with
from attention.bugs.quiz import question, questions
from attention.config import AttentionConfig
from attention.verify_block import BlockConfig
from dashboard import mistakes
from tests.dashboard.helpers import SMALL, Reader, empty_caches, link

PAGE: Final = "break_it"
# other words and another place in the catalogue, made of the same pieces
MASKED: Final[dict[str, Any]] = {"key": "zzz", "name": "Zzz", "what": "zzz", "shows": "zzz", "thread": "zzz"}


def opened(kind: str = "attention", number: int = 1, config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), "quiz": kind, "question": str(number), **more})


def number_of(key: str, in_block: bool = False) -> int:
    return 1 + [bug.key for bug in questions(in_block)].index(key)


def sent(reader: Reader) -> Iterator[str]:
    """All that the last run sent to the browser, as text; a picture's header as JSON in it."""

    def walk(block: Any) -> Iterator[str]:
        for child in block.children.values():
            if child.proto is not None:
                yield text_format.MessageToString(child.proto, as_utf8=True)
            if hasattr(child, "children"):
                yield from walk(child)

    yield from walk(reader.app._tree)
    yield str(reader.app.query_params)


def answer(reader: Reader, guess: str) -> str:
    """Guess; returns what is said of it."""
    reader.set("_guess", guess).press("Answer")
    assert reader.faults == reader.warnings == []
    (said,) = [text for text in reader.said if re.match(r":(green|red)-badge\[.*(right|not this one)\] ", text)]
    return said


def asked(reader: Reader) -> str:
    (text,) = [text for text in reader.said if text.startswith("**Question ")]
    return text


def code(reader: Reader) -> list[str]:
    return [element.value for element in reader.app.code]


# What is hidden ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["attention", "block"])
def test_every_question_keeps_its_mistake_to_itself(kind: str) -> None:
    of_block = kind == "block"
    options = [bug.name for bug in BUGS if bug in questions(of_block)]
    # in a block also those of its attention, which the other quiz has
    numbers = [n for n, bug in enumerate(questions(of_block), start=1) if bug.of_block or not of_block or n < 3]
    for number in numbers:
        bug, reader = questions(of_block)[number - 1], opened(kind, number)
        assert reader.faults == reader.warnings == []
        assert asked(reader).startswith(
            f"**Question {number}.** One of {len(options)} mistakes is hidden in this {kind}."
        )
        assert list(reader.widgets["_guess"].options) == options
        assert reader.widgets["_guess"].value is None
        assert code(reader) == []
        everything = "\n".join(sent(reader))
        for word in (bug.what, bug.shows, bug.thread, *(wrong.__name__ for _, wrong in bug.swaps)):
            assert word not in everything
        # its name is one of the options, and nothing more than that
        assert everything.count(f'"{bug.name}"') == 1
        step = bug.first_step(False) if of_block else bug.step
        assert reader.value("_at_step") == step
        assert f"**`{step}` is the first step that differs**" in reader.verdict


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, num_tokens=1, num_heads=1)], ids=["shown", "hidden"])
@pytest.mark.parametrize("kind", ["attention", "block"])
def test_the_page_is_the_same_whatever_the_mistake_is_called(
    kind: str, config: AttentionConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 8):

        def other(in_block: bool, place: int) -> Bug:
            return replace(question(in_block, place), **MASKED, step="q", pre_norm="attention.q")

        empty_caches()
        plain = list(sent(opened(kind, number, config)))
        empty_caches()
        with monkeypatch.context() as patch:
            patch.setattr(mistakes, "question", other)
            renamed = list(sent(opened(kind, number, config)))
        assert plain == renamed
        assert not any("zzz" in text.lower() for text in plain)


def test_the_readers_own_mistake_is_kept_and_not_said() -> None:
    reader = Reader(PAGE, **{**link(SMALL), "mistake": BY_KEY["view-merge"].name, "second": BY_KEY["relu"].name})
    reader.set("quiz", "attention")
    assert "mistake" not in reader.widgets
    assert not any(BY_KEY["view-merge"].name in text for text in reader.said)
    assert reader.value("_at_step") == question(False, 0).step
    reader.set("quiz", "off")
    assert reader.faults == []
    assert reader.widgets["mistake"].value == BY_KEY["view-merge"].name
    assert reader.widgets["second"].value == BY_KEY["relu"].name
    assert "_guess" not in reader.widgets


# Guesses -------------------------------------------------------------------------------------------------------------


def steps_that_differ(scene: Scene, first: Bug, second: Bug | None) -> list[str]:
    """The steps at which two mistakes (or one, and PyTorch) make different numbers, in float64."""
    ours, pytorch = both_with(scene, first.pieces, torch.float64)
    other = both_with(scene, second.pieces, torch.float64)[0] if second else pytorch
    pairs = [(step, attrgetter(step)(ours), attrgetter(step)(other)) for step in ours.steps]
    return [step for step, a, b in pairs if not torch.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)]


@pytest.mark.parametrize(("kind", "key"), [("attention", "no-scale"), ("block", "norm-eps")])
def test_every_guess_is_judged_by_its_numbers(kind: str, key: str) -> None:
    in_block = kind == "block"
    hidden, scene = BY_KEY[key], BlockConfig(SMALL) if in_block else SMALL
    reader = opened(kind, number_of(key, in_block))
    first = steps_that_differ(scene, hidden, None)[0]
    for guess in questions(in_block)[:: 3 if in_block else 1]:
        said = answer(reader, guess.name)
        if guess is hidden:
            assert said.startswith(f":green-badge[:material/check_circle: right] It is **{hidden.name}**: `{first}`")
            assert said.endswith(f"is the first step that differs. {hidden.shows}")
            continue
        own = steps_that_differ(scene, guess, None)[0]
        assert said.startswith(f":red-badge[:material/cancel: not this one] **{guess.name}** would first break `{own}`")
        assert hidden.name not in said
        if own == first:
            step = steps_that_differ(scene, hidden, guess)[0]
            a, b = (attrgetter(step)(both_with(scene, bug.pieces, torch.float64)[0]) for bug in (hidden, guess))
            where = "there" if step == own else f"at `{step}`"
            assert f"up to {(a - b).abs().max().item():.2g} apart {where}." in said
        else:
            assert said.endswith(f", and here `{first}` is the first step that differs.")


def test_another_mistake_with_the_same_numbers_is_right_too() -> None:
    one = replace(SMALL, num_heads=1)  # √E is √D there, and whatever mixes heads mixes nothing
    reader = opened(number=number_of("view-split"), config=one)
    assert "on the fixed probe `q` differs first" in reader.verdict
    assert reader.value("_at_step") == "output"
    said = answer(reader, BY_KEY["embed-scale"].name)
    assert said == (
        ":green-badge[:material/check_circle: right] in this scene the two make the same numbers at every step. It was "
        f"made by **{BY_KEY['view-split'].name}**."
    )
    assert "1 of 1 right" in asked(reader)


def test_a_guess_that_shows_nothing_here() -> None:
    reader = opened(number=number_of("no-scale"), config=replace(SMALL, num_heads=1))
    said = answer(reader, BY_KEY["view-merge"].name)
    assert f"**{BY_KEY['view-merge'].name}** shows nothing, and here `scaled` is the first step" in said
    reader = opened(number=number_of("view-merge"), config=replace(SMALL, num_heads=1))
    assert "would first break `scaled`, and here no step of this scene differs" in answer(reader, "No scale")


def test_only_the_first_guess_counts_and_the_code_waits_for_the_right_one() -> None:
    keys = [bug.key for bug in questions(False)]
    reader = opened()
    assert "So far" not in asked(reader)
    reader.press("Answer")  # without a guess
    assert reader.faults == []
    assert "So far" not in asked(reader)
    answer(reader, BY_KEY[keys[1]].name)
    assert "So far 0 of 1 right at the first guess." in asked(reader)
    assert code(reader) == []
    answer(reader, BY_KEY[keys[0]].name)
    assert "So far 0 of 1" in asked(reader)
    correct, wrong = BY_KEY[keys[0]].swaps[0]
    assert [text.split("(")[0] for text in code(reader)] == [f"def {f.__name__}" for f in (correct, wrong)]
    # a wrong guess after the right one hides nothing any more, nor costs anything
    answer(reader, BY_KEY[keys[1]].name)
    assert len(code(reader)) == 2
    reader.press("Next question")
    assert code(reader) == []
    assert reader.widgets["_guess"].value is None
    assert "So far 0 of 1" in asked(reader)
    assert not any("-badge[:material/cancel: not this one]" in text for text in reader.said)
    answer(reader, BY_KEY[keys[1]].name)
    assert "So far 1 of 2 right at the first guess." in asked(reader)


def test_after_the_last_question_the_first_comes_again() -> None:
    first, last = opened(), opened(number=21)
    before = dict(last.pictures)
    last.press("Next question")
    assert asked(last).startswith("**Question 22.**")
    assert last.pictures != before
    assert {key: last.picture(key).numbers for key in last.pictures} == {
        key: first.picture(key).numbers for key in first.pictures
    }


def test_next_question_goes_to_the_first_step_and_worst_cell() -> None:
    reader = opened(at="0-1-1", at_step="output")
    assert reader.value("_at_step") == "output"
    reader.press("Next question")
    assert reader.value("_at_step") == question(False, 1).step
    assert not {"at", "at_step"} & set(reader.app.query_params)


def test_the_verdict_is_that_of_the_question_on_screen() -> None:
    reader = opened()
    for bug in questions(False)[:4]:
        assert f"**`{bug.step}` is the first step that differs**" in reader.verdict
        steps = {row[0]: row[2] for row in reader.table_of("steps")}
        assert steps[bug.step] == "✗ differs"
        assert reader.verdict == opened(number=number_of(bug.key)).verdict
        reader.press("Next question")


def test_a_changed_scene_takes_the_answer_away_but_not_the_score() -> None:
    bug = question(False, 0)
    reader = opened()
    answer(reader, bug.name)
    reader.set("seed", 7)
    assert reader.faults == []
    assert not any(text.startswith(":green-badge[:material/check_circle: right]") for text in reader.said)
    assert "1 of 1 right" in asked(reader)
    said = answer(reader, bug.name)
    assert f"It is **{bug.name}**" in said
    assert "1 of 1 right" in asked(reader)
    reader.set("_guess", question(False, 1).name)  # another guess, not yet answered
    assert not any(": right]" in text or ": not this one]" in text for text in reader.said)


def test_the_kinds_of_quiz_count_together_and_keep_apart() -> None:
    reader = opened()
    answer(reader, question(False, 0).name)
    reader.set("quiz", "block")
    assert code(reader) == []
    assert "1 of 1 right" in asked(reader)
    assert not any(text.startswith(":green-badge[:material/check_circle: right]") for text in reader.said)
    answer(reader, next(bug.name for bug in questions(True) if bug.of_block and bug != question(True, 0)))
    assert "1 of 2 right" in asked(reader)
    reader.set("quiz", "attention")  # the guess is none of its options
    assert reader.faults == reader.warnings == []
    assert reader.widgets["_guess"].value in [None, *(bug.name for bug in questions(False))]


@pytest.mark.parametrize(("text", "shown"), [("21", 20), ("22", 0), ("999", 998 % 21)])
def test_a_link_to_a_question(text: str, shown: int) -> None:
    assert len(questions(False)) == 21
    reader = opened(number=int(text))
    assert reader.faults == reader.notices == []
    assert f"**Question {text}.**" in asked(reader)
    assert reader.value("_at_step") == questions(False)[shown].step


def test_after_the_last_question_of_a_link_comes_one() -> None:
    reader = opened(number=999).press("Next question")
    number = int(re.findall(r"Question (\d+)", asked(reader))[0])
    again = opened(number=number)
    assert again.notices == []
    assert f"**Question {number}.**" in asked(again)


def test_a_walk_to_another_page_and_back() -> None:
    reader = opened(number=4)
    answer(reader, question(False, 3).name)
    reader.open("heads").open(PAGE)
    assert reader.faults == reader.warnings == []
    assert reader.value("quiz") == "attention"
    assert "1 of 1 right" in asked(reader)
