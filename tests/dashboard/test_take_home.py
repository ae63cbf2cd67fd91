"""What is taken home of each page: the library's numbers for the scene on screen, and nothing made unasked."""

import ast
import io
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
import streamlit as st
import torch

from attention import export, report_text, script, tensors
from attention.bugs.catalogue import BUGS, BY_KEY
from attention.bugs.caught import verify_with
from attention.compare import Tolerance
from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.scenes import Scene, config_of
from attention.tensors import Tensors
from attention.verify import ARITHMETIC, verify
from attention.verify_block import BlockConfig, verify_block
from attention.verify_head import HeadConfig, verify_head
from dashboard import cached, controls, progress, take_home
from dashboard.mistakes import BY_NAME
from tests.dashboard.helpers import SMALL, Reader, link

USUAL: Final = ARITHMETIC["float32"]
MASK: Final = MaskConfig(num_queries=5, num_keys=5, window=2)
MISTAKE: Final = BY_KEY["softmax-axis"]
# page, what its link says besides the scene, the scene that is judged, and all that can be taken of it
PAGES: Final[tuple[tuple[str, dict[str, Any], Scene, Callable[[], Tensors]], ...]] = (
    ("heads", {}, SMALL, lambda: tensors.of_scene(SMALL)),
    (
        "one_head", {"head_dim": "4", "value_dim": "6"}, HeadConfig(SMALL, 4, 6),
        lambda: tensors.of_scene(HeadConfig(SMALL, 4, 6)),
    ),
    ("masks", {"rules": "window", "window": "2"}, (SMALL, MASK), lambda: tensors.of_scene((SMALL, MASK))),
    ("head_counts", {}, SMALL, lambda: tensors.of_scene(SMALL)),
    ("four_ways", {"training": "true", "dropout": "0.5"}, SMALL, lambda: tensors.of_ways(SMALL, 0.5)),
    (
        "block", {"depth": "2", "of_block": "1", "norm": "pre"}, BlockConfig(SMALL, 2, True),
        lambda: tensors.of_scene(BlockConfig(SMALL, 2, True), 1),
    ),
    (
        "break_it", {"mistake": MISTAKE.name}, SMALL, lambda: tensors.with_mistake(SMALL, MISTAKE.pieces)
    ),
    ("precision", {}, SMALL, lambda: tensors.of_scene(SMALL)),
    (
        "pytorch_differs", {"difference": "empty rows", "pair": "weights", "of_head": "1"}, SMALL,
        lambda: tensors.of_calls(SMALL, "empty rows", "weights", 1, USUAL),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Button:
    """A button as it was drawn: what builds its file, and the file's name."""

    build: Callable[[], str | bytes]
    file: str


Buttons = dict[str, Button]


@pytest.fixture
def buttons(monkeypatch: pytest.MonkeyPatch) -> Buttons:
    """The download buttons of the last runs, by the beginning of their labels."""
    found: Buttons = {}
    draw = st.download_button

    def recorded(label: str, data: Any, file_name: str, *args: Any, **options: Any) -> bool:
        assert options["on_click"] == "ignore", "a click draws nothing again"
        found[label.partition(",")[0]] = Button(data, file_name)
        return draw(label, data, file_name, *args, **options)

    monkeypatch.setattr(st, "download_button", recorded)
    return found


def opened(page: str, config: AttentionConfig = SMALL, **more: Any) -> Reader:
    reader = Reader(page, **{**link(config), **more})
    reader.expand(take_home.LABEL)
    assert reader.faults == []
    return reader


def npz(button: Button) -> dict[str, Any]:
    data = button.build()
    assert isinstance(data, bytes)
    file = np.load(io.BytesIO(data), allow_pickle=False)
    return {name: file[name] for name in file.files}


def text(button: Button) -> str:
    data = button.build()
    assert isinstance(data, str)
    return data


def report(reader: Reader, buttons: Buttons) -> Any:
    reader.set("_take_home", "Report")
    return json.loads(text(buttons["JSON"]))


def test_every_page_is_tried() -> None:
    assert [page for page, *_ in PAGES] == [
        "heads", "one_head", "masks", "head_counts", "four_ways", "block", "break_it", "precision", "pytorch_differs"
    ]  # fmt: skip


@pytest.mark.parametrize(("page", "more", "scene", "made"), PAGES, ids=[page for page, *_ in PAGES])
def test_closed_it_costs_nothing(
    page: str, more: dict[str, Any], scene: Scene, made: object, buttons: Buttons, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    facts = cached.facts

    def told(name: str, config: Scene, _make: Callable[[], Any]) -> Any:
        names.append(name)
        return facts(name, config, _make)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("nobody has asked")

    monkeypatch.setattr(cached, "facts", told)
    for module, name in (
        (script, "text"), (script, "expected"), (export, "as_csv"), (export, "as_npz"), (report_text, "as_json"),
        (report_text, "as_markdown"), (report_text, "versions"), (controls, "address"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, never)
    reader = Reader(page, **{**link(SMALL), **more})
    assert reader.faults == []
    assert reader.set("seed", 8).faults == []
    assert buttons == {}
    assert not [name for name in names if name.startswith(("shapes", "prints"))]
    assert "_tensor" not in reader.widgets


@pytest.mark.parametrize(("page", "more", "scene", "made"), PAGES, ids=[page for page, *_ in PAGES])
def test_all_tensors_are_the_librarys(
    page: str, more: dict[str, Any], scene: Scene, made: Callable[[], Tensors], buttons: Buttons
) -> None:
    reader = opened(page, **more)
    expected = made()
    found = npz(buttons[f"NPZ of all {len(expected)}"])
    about = json.loads(str(found.pop("about")))
    assert about["scene"] == json.loads(json.dumps(report_text.scene_as_dict(scene)))
    assert list(found) == list(expected) == reader.widgets["_tensor"].options
    for name, tensor in expected.items():
        assert np.array_equal(found[name], tensor.numpy(), equal_nan=True), name
    for name in (next(iter(expected)), list(expected)[-1]):
        reader.set("_tensor", name)
        assert reader.faults == []
        one = npz(buttons["NPZ"])
        assert np.array_equal(one[name], expected[name].numpy(), equal_nan=True)
        assert set(one) == {name, "about"}
        csv = buttons["CSV"]
        data = csv.build()
        assert isinstance(data, bytes)
        table = pd.read_csv(io.BytesIO(data))
        assert len(table) == expected[name].numel()
        values = table["value"].to_numpy(dtype=np.float32)
        assert np.array_equal(values, expected[name].numpy().reshape(-1), equal_nan=True)
        assert csv.file.startswith("attention-")
        assert csv.file.endswith(".csv")
        assert set(csv.file.removesuffix(".csv")) <= set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
        )


@pytest.mark.parametrize(("page", "more", "scene", "made"), PAGES, ids=[page for page, *_ in PAGES])
def test_the_script_is_that_of_the_scene(
    page: str, more: dict[str, Any], scene: Scene, made: object, buttons: Buttons
) -> None:
    reader = opened(page, **more, pin="2-3-1")
    reader.set("_take_home", "Script")
    assert reader.faults == []
    head = 0 if isinstance(scene, HeadConfig) else 2
    expected = script.text(scene, head, 3)
    code, prints = [element.value for element in reader.app.code][-2:]
    assert (f"{code}\n", f"{prints}\n") == (expected, script.expected(scene, head, 3))
    assert text(buttons["Script"]) == expected
    assert buttons["Script"].file.endswith(".py")
    ast.parse(expected)


def verdict_of(page: str, scene: Scene, tolerance: Tolerance) -> Any:
    """The verdict anew, by the library."""
    if page == "break_it":
        return verify_with(SMALL, MISTAKE.pieces, tolerance)
    if isinstance(scene, tuple):
        return verify(scene[0], tolerance, mask=scene[1])
    if isinstance(scene, HeadConfig):
        return verify_head(scene, tolerance)
    return verify_block(scene, tolerance) if isinstance(scene, BlockConfig) else verify(scene, tolerance)


@pytest.mark.parametrize(("page", "more", "scene", "made"), PAGES, ids=[page for page, *_ in PAGES])
def test_the_report_is_the_verdict_on_screen(
    page: str, more: dict[str, Any], scene: Scene, made: object, buttons: Buttons
) -> None:
    reader = opened(page, **more, rtol="0.001", atol="0.002")
    found = report(reader, buttons)
    tolerance = Tolerance(rtol=1e-3, atol=2e-3)
    assert found["tolerances"]["arithmetic"] == {"dtype": "float32", "rtol": 1e-3, "atol": 2e-3}
    assert found["scene"] == json.loads(json.dumps(report_text.scene_as_dict(scene)))
    expected = verdict_of(page, scene, tolerance)
    steps = {step["step"].removeprefix("float32: "): step for step in found["steps"]}
    for maths, check in zip(expected.maths.checks, expected.arithmetic.checks, strict=True):
        step = steps[maths.step]
        assert step["arithmetic"]["max_abs"] == check.max_abs
        assert step["arithmetic"]["tolerance"] == {"rtol": check.tolerance.rtol, "atol": check.tolerance.atol}
        assert (step["maths"]["outcome"], step["maths"]["max_abs"]) == (maths.outcome, maths.max_abs)
    assert found["equal"] is (page != "break_it")
    markdown = text(buttons["Markdown"])
    assert markdown.count("\n| `") == len(found["steps"])
    assert "embed_dim=12&num_heads=3" in found["link"]
    assert buttons["JSON"].file.endswith("-report.json")


def test_a_file_belongs_to_the_scene_that_its_button_was_drawn_for(buttons: Buttons) -> None:
    reader = opened("heads")
    before = buttons["NPZ"]
    reader.set("seed", 9)
    after = buttons["NPZ"]
    new = replace(SMALL, seed=9)
    assert np.array_equal(npz(before)["weights"], tensors.of_scene(SMALL)["weights"].numpy())
    assert np.array_equal(npz(after)["weights"], tensors.of_scene(new)["weights"].numpy())
    assert (cached.identity(SMALL) in before.file, cached.identity(new) in after.file) == (True, True)
    reader.set("_take_home", "Script").set("seed", 11)
    assert script.text(replace(SMALL, seed=11), 0, 4) == text(buttons["Script"])


def test_a_file_is_built_behind_the_gate_on_any_thread(buttons: Buttons) -> None:
    opened("heads")
    built: list[str | bytes] = []
    thread = threading.Thread(target=lambda: built.append(buttons["NPZ"].build()))
    held = []
    while cached._GATE.acquire(blocking=False):  # as many as there are
        held.append(True)
    try:
        assert held
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it waits"
    finally:
        for _ in held:
            cached._GATE.release()
    thread.join(30)
    assert len(built) == 1


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_precisions(dtype: str, buttons: Buttons) -> None:
    config = replace(SMALL, dtype=dtype)
    reader = opened("heads", config)
    expected = tensors.of_scene(config)["weights"]
    assert ("as float32" in reader.app.caption[-1].value) == (dtype == "bfloat16")
    found = torch.from_numpy(npz(buttons["NPZ"])["weights"])
    assert torch.equal(found.to(expected.dtype), expected)
    assert found.dtype == (torch.float32 if dtype == "bfloat16" else expected.dtype)


def test_a_large_tensor_comes_in_parts(buttons: Buttons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "parts", partial(export.parts, most=50))
    reader = opened("heads")
    assert reader.widgets["_part"].options == ["head 0 to 1", "head 2 to 2"]
    files = []
    for part, name in (("head 0 to 1", "0-to-1"), ("head 2 to 2", "2-to-2")):
        reader.set("_part", part)
        assert reader.faults == []
        assert buttons["CSV"].file.endswith(f"-weights-{name}.csv")
        data = buttons["CSV"].build()
        assert isinstance(data, bytes)
        files.append(pd.read_csv(io.BytesIO(data)))
    assert [len(file) for file in files] == [50, 25]
    values = pd.concat(files)["value"].to_numpy(dtype=np.float32)
    assert np.array_equal(values, tensors.of_scene(SMALL)["weights"].numpy().reshape(-1))
    reader.set("_tensor", "b_q")
    assert reader.faults == []
    assert buttons["CSV"].file.endswith("-b-q.csv")


def test_what_is_too_large_is_not_offered(buttons: Buttons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take_home, "LARGEST", 1000)
    reader = opened("heads")
    assert sorted(buttons) == ["CSV", "NPZ"]
    assert "the limit is 0.0 MB" in reader.app.caption[-1].value


def test_the_largest_scene_says_its_sizes(buttons: Buttons) -> None:
    reader = opened("one_head", AttentionConfig(embed_dim=8, num_heads=2, num_tokens=256))
    labels = [element.proto.label for element in reader.app.get("download_button")]
    assert labels == ["CSV, 65,536 rows", "NPZ, 0.3 MB", "NPZ of all 12, 1.3 MB"]
    assert "1 × 1 × 256 × 256 = 65,536 numbers of float32" in reader.app.caption[-1].value


@pytest.mark.parametrize("quiz", ["attention", "block"])
def test_a_quiz_is_not_given_away(quiz: str, buttons: Buttons) -> None:
    reader = opened("break_it", quiz=quiz, question="3")
    seen = [element.value for element in reader.app.caption]
    found = npz(buttons[next(label for label in buttons if label.startswith("NPZ of all"))])
    seen += [str(found.pop("about")), *found]
    reader.set("_take_home", "Script")
    seen += [text(buttons["Script"]), *(element.value for element in reader.app.caption)]
    seen += [json.dumps(report(reader, buttons)), text(buttons["Markdown"])]
    seen += [button.file for button in buttons.values()]
    everything = "\n".join(seen).lower()
    assert "question 3" in everything
    for name in (*BY_NAME, *(bug.key for bug in BUGS), *(bug.what for bug in BUGS)):
        # a word of the steps themselves is no name of a mistake
        assert name.lower() not in everything, name


def test_a_mistake_is_named_where_it_is_no_question(buttons: Buttons) -> None:
    reader = opened("break_it", mistake=MISTAKE.name)
    assert MISTAKE.name in report(reader, buttons)["note"]


def test_another_pair_of_calls_is_taken_at_once(buttons: Buttons) -> None:
    reader = opened("pytorch_differs")
    assert reader.widgets["_tensor"].options == ["left.weights", "right.weights"]
    reader.set("difference", "need_weights")
    assert reader.faults == []
    assert reader.widgets["_tensor"].options == ["left.output", "right.output"]
    expected = tensors.of_calls(SMALL, "need_weights", "the scene", 0, USUAL)
    assert np.array_equal(npz(buttons["NPZ"])["left.output"], expected["left.output"].numpy())


def test_a_tensor_of_another_page_is_forgotten(buttons: Buttons) -> None:
    reader = opened("heads")
    reader.set("_tensor", "merged").open("four_ways").rerun()
    assert reader.faults == []
    assert reader.value("_tensor") == "list of heads.weights"


def test_a_scene_that_the_page_makes_smaller_is_taken_as_shown(buttons: Buttons) -> None:
    reader = opened("masks", AttentionConfig(embed_dim=8, num_heads=2, num_tokens=256))
    shown = reader.app.caption[-1].value
    assert "1 × 2 × 128 × 128" in shown
    assert config_of(SMALL).num_tokens == 5


def test_the_link_leads_to_what_is_on_screen(buttons: Buttons) -> None:
    # the URL is behind the widgets: here nobody writes it, and in the browser it is written after the run has begun
    reader = opened("masks", rules=["window", "padding"], window="2", pin="1-2-0")
    reader.set("seed", 9).set("pad_left", 1).set("causal", False)
    found = report(reader, buttons)
    asked = parse_qs(urlsplit(found["link"]).query)
    assert (asked["seed"], asked["causal"], asked["pin"]) == (["9"], ["false"], ["1-2-0"])
    assert asked["rules"] == ["window", "padding"]
    again = opened("masks", SMALL, **asked)
    assert report(again, buttons)["scene"] == found["scene"]
    assert found["scene"]["mask"]["padding_left"] == 1


def test_no_rule_is_left_in_the_link_that_was_taken_away(buttons: Buttons) -> None:
    reader = opened("masks", rules=["window"])
    reader.set("rules", [])
    assert "rules" not in parse_qs(urlsplit(report(reader, buttons)["link"]).query)


@pytest.mark.parametrize(("page", "more", "scene", "made"), PAGES, ids=[page for page, *_ in PAGES])
def test_the_link_opens_on_the_same_scene(
    page: str, more: dict[str, Any], scene: Scene, made: object, buttons: Buttons
) -> None:
    found = report(opened(page, **more), buttons)
    again = opened(page, SMALL, **parse_qs(urlsplit(found["link"]).query))
    assert again.notices == [], "nothing in it is refused"
    assert report(again, buttons)["scene"] == found["scene"]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_takes_long_is_made_under_a_bar(dtype: str, buttons: Buttons, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, str]] = []

    def during(make: Callable[[], str], seconds: float, what: str) -> str:
        asked.append((seconds, what))
        return make()

    monkeypatch.setattr(progress, "during", during)
    monkeypatch.setattr(take_home, "_seconds", lambda scene: 2.0 if config_of(scene).dtype == "float16" else 0.0)
    config = replace(SMALL, dtype=dtype, seed=77)
    reader = opened("heads", config)
    said = any("takes about 2 s" in caption.value for caption in reader.app.caption)
    reader.set("_take_home", "Script")
    assert reader.faults == []
    assert f"{reader.app.code[-1].value}\n" == script.expected(config, 0, 4)
    assert reader.rerun().faults == []
    expected = [(2.0, "The scene in float16")] if dtype == "float16" else []
    assert (asked, said) == (expected, bool(expected)), "and what is known needs no bar"


@pytest.mark.parametrize("file", ["csv", "npz", "npzall"])
def test_a_file_that_takes_long_is_prepared_under_a_bar(
    file: str, buttons: Buttons, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[float] = []

    def during(make: Callable[[], bytes], seconds: float, what: str) -> bytes:
        bars.append(seconds)
        return make()

    opened("heads")
    usual = {button.file: button.build() for button in buttons.values()}
    buttons.clear()
    monkeypatch.setattr(progress, "during", during)
    monkeypatch.setattr(take_home, "_seconds", lambda scene: 2.0)
    reader = opened("heads")
    assert not buttons, "nothing to download before it is made"
    reader.press_key(f"_prepare_{file}")
    assert reader.faults == []
    (button,) = buttons.values()
    assert bars == [2.0]
    assert button.build() == usual[button.file]
    assert bars == [2.0], "it is made already"
    buttons.clear()
    reader.rerun()
    assert not buttons, "and held no longer"


@pytest.mark.parametrize(
    ("width", "tokens", "dtype", "slow"),
    [
        (1024, 256, "float16", True),
        (1024, 256, "bfloat16", True),
        (1024, 256, "float32", False),
        (1024, 256, "float64", False),
        (768, 128, "float16", False),
        (12, 5, "float16", False),
    ],
)
def test_which_scenes_take_long(width: int, tokens: int, dtype: str, slow: bool) -> None:
    config = AttentionConfig(embed_dim=width, num_heads=1, num_tokens=tokens, dtype=dtype)
    assert (take_home._seconds(config) > 1) is slow
    assert (take_home._seconds(HeadConfig(config, 64, 64)) > 1) is slow
    assert take_home._seconds(BlockConfig(config)) == 0


def test_a_bar_goes_by_its_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, str]] = []
    go_on = threading.Event()

    class Place:
        """What is on the page."""

        def progress(self, share: float, text: str) -> None:
            """Keep what it says, and let the call end after three looks."""
            shown.append((share, text))
            if len(shown) == 3:
                go_on.set()

        def empty(self) -> None:
            """Keep that it is gone."""
            shown.append((1.0, "gone"))

    def call() -> str:
        assert go_on.wait(30)
        return threading.current_thread().name

    monkeypatch.setattr("dashboard.progress.st.empty", Place)
    monkeypatch.setattr(progress, "_LOOK", 0)
    ticks = chain((10.0, 10.0, 11.5, 15.0), repeat(16.0))
    found = progress.during(call, 4.0, "A call", lambda: next(ticks))
    assert found != threading.current_thread().name
    assert shown[:3] == [
        (0.0, "A call, about 4 s left"),
        (0.375, "A call, about 2 s left"),
        (0.95, "A call, nearly done"),
    ]
    assert shown[-1] == (1.0, "gone")


def test_what_goes_wrong_under_a_bar_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        progress.during(call, 1.0, "A call")
