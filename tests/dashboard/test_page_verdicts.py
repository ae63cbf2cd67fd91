"""The line over a page belongs to the pictures on it: a broken piece of the library is red wherever it is drawn."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from attention.scaled_dot_product import ScaledDotProduct
from dashboard import verdict_panel
from tests.dashboard.helpers import SMALL, Reader, cells, empty_caches, link
from tests.dashboard.test_pages import WITH_A_SCENE

# but the page that breaks it on purpose
NAMES: Final = [page.removesuffix(".py") for page in WITH_A_SCENE if page != "break_it.py"]


def module(name: str) -> ModuleType:
    """A module of the library; some are hidden behind a function of the same name."""
    return importlib.import_module(f"attention.{name}")


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    """What a faulty library said must not be what the next test is told, and the other way round."""

    def forget() -> None:
        empty_caches()
        for name in ("verify", "verify_head", "verify_block"):
            module(name).probe.cache_clear()

    forget()
    yield
    forget()


@dataclass(frozen=True)
class Fault:
    """Places in which a name is swapped for something wrong, and the step that is named."""

    case: str
    places: tuple[str, ...]
    name: str
    wrong: Callable[..., Any]
    step: str


RIGHT: Final = module("scaled_dot_product").scaled_dot_product


def unscaled(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, drop: Any = None) -> ScaledDotProduct:
    found: ScaledDotProduct = RIGHT(q * q.shape[-1] ** 0.5, k, v, allowed, drop)
    return found._replace(scores=q @ k.mT)


def unmasked(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, drop: Any = None) -> ScaledDotProduct:
    found: ScaledDotProduct = RIGHT(q, k, v, None if allowed is None else torch.ones_like(allowed), drop)
    return found


FAULTS: Final = (
    Fault("N18", ("multi_head", "single_head"), "scaled_dot_product", unscaled, "scaled"),
    Fault("M17", ("multi_head", "single_head"), "scaled_dot_product", unmasked, "masked"),
)


@pytest.mark.parametrize("page", NAMES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_a_broken_attention_is_red_on_every_page(fault: Fault, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Reader(page, **link(SMALL)).verdict.startswith(":green-badge[")
    empty_caches()
    for name in ("verify", "verify_head", "verify_block"):
        module(name).probe.cache_clear()
    for place in fault.places:
        monkeypatch.setattr(module(place), fault.name, fault.wrong)
    reader = Reader(page, **link(SMALL))
    assert reader.faults == []
    assert reader.verdict.startswith(":red-badge[")
    assert f"{fault.step}` is the first step that differs" in reader.verdict
    rows = {row[0].rpartition(".")[2]: row for row in cells(reader.table) if len(row) == 12}
    assert rows[fault.step][2] == "✗ differs"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_every_count_that_is_drawn_is_checked(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # wrong for one head count only, which is not the reader's own
    right = module("multi_head").split_heads

    def wrong(x: Tensor, num_heads: int) -> Tensor:
        found: Tensor = right(x, num_heads)
        return found * (1.5 if num_heads == count else 1)

    monkeypatch.setattr(module("multi_head"), "split_heads", wrong)
    reader = Reader("head_counts", **link(SMALL))
    assert reader.faults == []
    assert reader.verdict.startswith(":red-badge[")
    (caption,) = (text.value for text in reader.app.caption if "All pictures" in text.value)
    assert caption.startswith(f"The table is of {count} head")
    for scene in (1, 2, 3, 4):
        assert f"{scene}: {'not equal' if scene == count else 'equal'}" in caption
    shapes = {row[0]: row[1] for row in cells(reader.table) if len(row) == 12}
    assert shapes["q"] == f"1 × {count} × 5 × {12 // count}"


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_both_placements_are_checked(norm: str, placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = module("verify_block").run_block

    def wrong(x: Tensor, *given: Any, norm_first: bool, **more: Any) -> Any:
        trace = right(x, *given, norm_first=norm_first, **more)
        broken = norm_first == (placement == "pre") and x.shape[1] == SMALL.num_tokens  # not in the probe
        return replace(trace, fed=trace.fed * 2) if broken else trace

    monkeypatch.setattr(module("verify_block"), "run_block", wrong)
    reader = Reader("block", **link(SMALL), norm=norm)
    assert reader.faults == []
    assert reader.verdict.startswith(":red-badge[")
    assert "`0: fed` is the first step that differs" in reader.verdict
    rows = [row for row in cells(reader.table) if len(row) == 12 and row[0] != "step"]
    assert (rows[0][0] == "norm_1") == (placement == "pre"), "the table is of the placement that differs"
    assert {row[0]: row[2] for row in rows}["fed"] == "✗ differs"


def test_a_fault_in_a_later_block_is_seen_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    right, tokens = module("verify_block").run_block, module("sample").draw_tokens(SMALL)

    def wrong(x: Tensor, *given: Any, **more: Any) -> Any:
        trace = right(x, *given, **more)
        later = x.shape[1] == SMALL.num_tokens and not torch.equal(x.float(), tokens)
        return replace(trace, fed=trace.fed * 2) if later else trace

    monkeypatch.setattr(module("verify_block"), "run_block", wrong)
    reader = Reader("block", **link(SMALL), depth="2", of_block="0")
    assert reader.faults == []
    assert reader.verdict.startswith(":red-badge[")
    assert "`1: fed` is the first step that differs" in reader.verdict
    assert "✗ differs" not in reader.table, "which is of block 0"
    reader.set("of_block", 1)
    assert "✗ differs" in reader.table
    assert reader.verdict.startswith(":red-badge[")


def test_one_head_has_a_verdict_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    right = module("single_head").attend_one

    def wrong(*given: Any) -> Any:
        trace = right(*given)
        return replace(trace, context=trace.context.flip(-1))

    monkeypatch.setattr(module("single_head"), "attend_one", wrong)
    assert Reader("heads", **link(SMALL)).verdict.startswith(":green-badge[")
    reader = Reader("one_head", **link(SMALL))
    assert reader.verdict.startswith(":red-badge[")
    assert "`context` is the first step that differs" in reader.verdict
    assert reader.table_of("claims")[0][1] == "✗ does not hold"


def test_a_mask_of_its_own_has_a_verdict_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # a rule that only the attention itself misreads
    right = module("multi_head").scaled_dot_product

    def wrong(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, drop: Any = None) -> Any:
        rolled = None if allowed is None or allowed.shape[-1] != 4 else allowed.roll(1, -1)
        return right(q, k, v, allowed if rolled is None else rolled, drop)

    monkeypatch.setattr(module("multi_head"), "scaled_dot_product", wrong)
    assert Reader("masks", **link(SMALL)).verdict.startswith(":green-badge[")
    reader = Reader("masks", **link(SMALL), rules=["T ≠ S", "window"], queries="3", keys="4", window="2")
    assert reader.faults == []
    assert reader.verdict.startswith(":red-badge[")
    assert "`masked` is the first step that differs" in reader.verdict


@pytest.mark.parametrize("page", NAMES)
def test_the_line_says_nothing_old_of_a_new_scene(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a picture is being drawn, the line is of this picture or says that it is being checked."""
    said: list[tuple[bool, str]] = []
    begin = verdict_panel.Line.begin

    def watched(line: Any, config: object) -> bool:
        known = begin(line, config)
        said.append((known, str(config)))
        return known

    monkeypatch.setattr(verdict_panel.Line, "begin", watched)
    reader = Reader(page, **link(SMALL))
    first = reader.table
    for key, value in (("num_tokens", 4), ("seed", 2), ("dtype", "float64"), ("embed_dim", 24)):
        if (page, key) in (("one_head", "embed_dim"), ("precision", "dtype")):
            continue
        said.clear()
        reader.set(key, value)
        assert reader.faults == []
        assert not said[-1][0], f"{key} makes new numbers"
        assert reader.verdict.startswith(":green-badge[")
        if page != "precision":  # its table is of one dtype, which may stay
            assert reader.table != first
    said.clear()
    reader.rerun()
    assert [known for known, _ in said] == [True]


@pytest.mark.parametrize("page", NAMES)
def test_a_stricter_tolerance_is_rounding_on_every_page(page: str) -> None:
    reader = Reader(page, **link(SMALL), rtol="0", atol="0")
    assert reader.faults == []
    assert reader.verdict.startswith(":orange-badge[")
    assert "**The maths is equal**" in reader.verdict
    reader.set("rtol", 0.001).set("atol", 0.001)
    assert reader.faults == []
    assert reader.verdict.startswith(":green-badge[")


# The code that ran ---------------------------------------------------------------------------------------------------

CODE: Final = {
    "heads": ("def draw_tokens", "def attend", "def split_heads", "def scaled_dot_product", "def softmax"),
    "one_head": ("def draw_tokens", "def draw_head", "class SelfAttention", "def attend_one", "def scaled_dot_product"),
    "masks": (
        *("def causal", "def sliding_window", "def prefix", "def padding", "def documents", "def strided"),
        *("class MaskConfig", "def grid", "def attend_with_number", "def attend", "def scaled_dot_product"),
    ),
    "head_counts": ("def split_heads", "def attend", "def entropy", "def head_distances", "def scaled_dot_product"),
    "four_ways": (
        *("class MultiHeadAttentionWrapper", "class MultiHeadAttention(", "class CausalAttention"),
        *("def attend_by_einsum", "def dropout", "def attend"),
    ),
    "block": ("def run_block", "def layer_norm", "def gelu", "def relu", "def attend", "def draw_block"),
    "pytorch_differs": ("def differ", "class Scene"),
    "compare": ("def apart", "def attend", "def softmax"),
    "predict": ("def check_row", "def check_mask", "def softmax", "def grid"),
    "precision": ("def budget", "def closeness", "def smallest_atol", "def pass_rates", "def attend", "def softmax"),
}


@pytest.mark.parametrize("page", NAMES)
def test_the_code_that_ran_is_shown_once_asked_for(page: str) -> None:
    reader = Reader(page, **link(SMALL))
    before = len(reader.app.code)  # one page is about code
    assert before == (2 if page == "pytorch_differs" else 0)
    reader.open_code()
    assert reader.faults == []
    *others, code = reader.app.code
    assert len(others) == before
    for piece in CODE[page]:
        assert piece in code.value, piece
    compile(code.value, page, "exec")  # whole functions, one after the other
