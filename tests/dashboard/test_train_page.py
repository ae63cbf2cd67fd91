"""The page that trains: a finished model first, a run when it is asked for, and what a head is good for."""

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any

import pytest
import torch

from attention.trained import LESSONS, TrainConfig, accuracy, fresh, load_preset, on_pattern, presets
from attention.trained import model as models
from dashboard import train_panel, training
from dashboard.runs import Runs, Status, Turns, View
from dashboard.training import Moment, Take
from tests.dashboard.helpers import Reader, assert_shows, number

STEPS = 12


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What would be done in a thread of its own, to be done by a test; every run ends after a few steps."""
    todo: list[Callable[[], None]] = []

    def start(take: Take) -> Iterator[Moment]:
        return islice(training.moments(take), STEPS + 1)

    monkeypatch.setattr(training, "RUNS", Runs(start, Turns(1, todo.append)))
    return todo


def tiles(model: models.Model) -> list[torch.Tensor]:
    """The heads of every layer on the sequence that the page shows."""
    trace = model.trace(training.shown(model.config).tokens)
    return [head for layer in trace.attention for head in layer.weights[0]]


def mask(config: TrainConfig) -> torch.Tensor | None:
    return models.allowed_by(config, config.learns.length)


@pytest.mark.parametrize("steps", [0, 4, 5, 100, 125, 126, 300, 600, 5000])
def test_the_timeline_of_a_run_is_short_and_whole(steps: int) -> None:
    model = load_preset("previous")
    events: list[Moment] = []
    for step in range(steps + 1):
        is_due = step % training.EVERY == 0 or step == steps
        events = training.thinned([*events, Moment(step, 1.0, 0.5, model if is_due else None)])
    assert [moment.step for moment in events] == list(range(steps + 1)), "the curve stays whole"
    shown = [moment.step for moment in training.kept(tuple(events))]
    assert (shown[0], shown[-1]) == (0, steps)
    assert min(steps // training.EVERY + 1, 13) <= len(shown) <= training.TIMELINE + 2
    gaps = {later - earlier for earlier, later in pairwise(shown[:-1])}
    assert len(gaps) <= 1, "spread evenly"


def opened(**more: str) -> Reader:
    reader = Reader("train", **more)
    assert reader.faults == []
    return reader


@pytest.mark.parametrize("task", LESSONS)
def test_a_finished_model_comes_first(works: list[Callable[[], None]], task: str) -> None:
    reader = opened(task=task)
    model = load_preset(task)
    assert_shows(reader.picture("train"), tiles(model), mask(model.config))
    assert reader.picture("train").header["rowLabels"] == model.config.learns.labels(
        training.shown(model.config).tokens[0]
    )
    assert reader.verdict.startswith(":green-badge[")
    assert any(f"**{presets()[task].accuracy:.1%}** of fresh positions" in text for text in reader.said)
    assert not works, "nothing is trained unasked"


def test_its_layers_open_on_the_other_pages_with_the_same_sequence(works: list[Callable[[], None]]) -> None:
    reader = opened(task="repeat", seed="9")
    found = reader.picture("train")
    reader.press_key("elsewhere_repeat-1")
    assert reader.faults == []
    assert (reader.value("weights"), reader.value("seed"), reader.value("num_tokens")) == ("repeat, layer 1", 1, 32)
    assert reader.scene.header["rowLabels"] == found.header["rowLabels"]
    torch.testing.assert_close(torch.tensor(reader.scene.weights), torch.tensor(found.weights[4:]), rtol=0, atol=0)


def test_what_does_not_come_with_the_package_is_on_no_other_page(works: list[Callable[[], None]]) -> None:
    assert not any(key.startswith("elsewhere") for key in opened(task="repeat", train_seed="5").keyed)
    reader = opened(task="previous").press_key("train_go")
    assert "elsewhere_previous-0" in reader.keyed, "whatever is trained here"


def test_other_settings_begin_untrained(works: list[Callable[[], None]]) -> None:
    reader = opened(task="repeat", train_layers="1")
    model = models.draw(TrainConfig(**{**vars(LESSONS["repeat"].works), "layers": 1}))
    assert_shows(reader.picture("train"), tiles(model), mask(model.config))
    assert any("untrained" in text for text in reader.said)


def test_another_task_begins_as_its_lesson_does(works: list[Callable[[], None]]) -> None:
    reader = opened().set("task", "two keys")
    works_with = LESSONS["two keys"].works
    assert reader.value("train_heads") == works_with.heads == 2
    assert reader.value("train_causal") is works_with.causal
    assert_shows(reader.picture("train"), tiles(load_preset("two keys")), mask(works_with))


def test_a_run_from_the_button_to_the_timeline(works: list[Callable[[], None]]) -> None:
    reader = opened(task="previous").press_key("train_go")
    assert "train_stop" in reader.keyed
    assert any("training" in text for text in reader.said)
    works.pop()()
    reader.rerun()
    expected = list(islice(training.moments(Take(LESSONS["previous"].works)), STEPS + 1))
    last = expected[-3]
    assert last.model is not None
    assert last.step == 10
    assert_shows(reader.picture("train"), tiles(last.model), mask(last.model.config))
    shown = reader.charts["train_accuracy"]["data"][0]
    assert shown["y"] == pytest.approx([moment.accuracy for moment in [*expected, expected[-1]]])
    (timeline,) = [key for key in reader.widgets if key.startswith("train_at")]
    reader.set(timeline, 0)
    assert_shows(reader.picture("train"), tiles(models.draw(last.model.config)), mask(last.model.config))
    assert reader.verdict.startswith(":green-badge[")
    reader.press_key("train_reset")
    assert_shows(reader.picture("train"), tiles(load_preset("previous")), mask(last.model.config))


def test_stop_and_go_on(works: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    reader = opened(task="previous").press_key("train_go").press_key("train_stop")
    works.pop()()
    reader.rerun()
    assert any("stopped" in text for text in reader.said)
    reader.press_key("train_go")
    works.pop()()
    reader.rerun()
    assert any(f"at step {STEPS}" in text for text in reader.said)


def test_a_head_is_knocked_out_by_a_click(works: list[Callable[[], None]]) -> None:
    reader = opened(task="repeat").click("train", pin="1-5-3#1")
    model = load_preset("repeat")
    batch = fresh(model.config.learns, training.MEASURED_ON)
    with_it, without = accuracy(model, batch), accuracy(model.without_head(0, 1), batch)
    assert without < with_it - 0.3, "the head that looks back is needed"
    (text,) = [text for text in reader.said if "knocked out" in text]
    assert f"**Without layer 0, head 1: {without:.1%}**" in text
    assert f"with it {with_it:.1%}" in text
    titles = reader.picture("train").header["titles"]
    assert [title for title in titles if title.endswith("out")] == ["layer 0, head 1, out"]
    assert reader.picture("train").header["pin"] is None, "no single cell is meant"
    reader.click("train", pin="1-7-7#2")
    assert not [text for text in reader.said if "knocked out" in text]
    assert not [title for title in reader.picture("train").header["titles"] if title.endswith("out")]


def test_a_head_that_was_knocked_out_is_none_of_other_settings(works: list[Callable[[], None]]) -> None:
    reader = opened(task="repeat").click("train", pin="1-5-3#1")
    assert [text for text in reader.said if "knocked out" in text]
    reader.set("train_heads", 2)
    assert not [text for text in reader.said if "knocked out" in text]
    reader.set("train_heads", 4)
    assert [text for text in reader.said if "Without layer 0, head 1" in text]


def test_who_looks_at_the_run_of_another_sees_it_go_and_end(works: list[Callable[[], None]]) -> None:
    opened(task="previous").press_key("train_go")
    other = opened(task="previous")
    assert any(":blue-badge" in text for text in other.said)
    assert other.keyed["train_go"].label == "Keep it going"
    assert not {"train_stop", "train_reset"} & other.keyed.keys()
    other.press_key("train_go")
    assert "train_stop" in other.keyed
    works.pop()()
    other.rerun()
    assert any(f"at step {STEPS}" in text for text in other.said)
    assert not works, "one run for both"


def test_who_begins_anew_takes_nothing_from_others(works: list[Callable[[], None]]) -> None:
    reader = opened(task="previous").press_key("train_go")
    works.pop()()
    reader.rerun()
    other = opened(task="previous")
    other.press_key("train_reset")
    assert_shows(other.picture("train"), tiles(load_preset("previous")), mask(LESSONS["previous"].works))
    assert other.keyed["train_go"].label == "Train"
    other.press_key("train_go")
    works.pop()()
    other.rerun()
    reader.rerun()
    for one in (reader, other):
        assert any(f"at step {STEPS}" in text for text in one.said)
        assert any(key.startswith("train_at") for key in one.widgets)
    other.press_key("train_reset").press_key("train_go")
    assert len(works) == 1, "and anew again"


def test_a_run_that_ended_low_is_not_called_trained(works: list[Callable[[], None]]) -> None:
    reader = opened(task="agreement").press_key("train_go")
    works.pop()()
    reader.rerun()
    assert any(text.startswith(":orange-badge[:material/help: not learnt]") for text in reader.said)
    view = View(Status.DONE, (Moment(300, 0.1, train_panel.LEARNT, None),), seconds=9.0)
    assert train_panel.said(LESSONS["repeat"].works, view, 300).startswith(":green-badge")


def test_a_run_that_was_stopped_before_its_first_step_has_not_begun(works: list[Callable[[], None]]) -> None:
    reader = opened(task="previous").press_key("train_go").press_key("train_stop")
    assert any(text.endswith("stopped] not begun yet.") for text in reader.said)


def test_the_table_is_of_every_head(works: list[Callable[[], None]]) -> None:
    rows = opened(task="repeat").table_of("ways")
    model = load_preset("repeat")
    batch = fresh(model.config.learns, training.MEASURED_ON)
    found = [on_pattern(model, batch, name) for name in model.config.learns.patterns]
    for row in rows:
        layer, head = (int(part.split()[1]) for part in row[0].split(", "))
        shares = [number(text.removeprefix("✓ ").removesuffix("%")) / 100 for text in row[1:]]
        assert shares == pytest.approx([by_layer[layer, head].item() for by_layer in found], abs=6e-4)


def test_a_failure_is_said(works: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(take: Take) -> Iterator[Any]:
        raise ArithmeticError("the training diverged at step 3")
        yield

    monkeypatch.setattr(training, "RUNS", Runs(diverge, Turns(1, works.append)))
    reader = opened(task="previous").press_key("train_go")
    works.pop()()
    reader.rerun()
    assert any(":red-badge" in text and "the training diverged at step 3" in text for text in reader.said)
    assert reader.faults == []
