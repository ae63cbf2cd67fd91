"""Presets: one click sets up a script's own numbers, whatever was set before, and what the script asserts holds."""

from typing import Any, Final

import pytest

from attention.config import AttentionConfig
from dashboard import presets
from tests.dashboard.helpers import SMALL, Reader, link

# as far from every preset as the controls go
WILD: Final = {
    **link(AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=3, seed=7, dtype="float16", causal=False)),
    "rtol": "0.5", "atol": "0.5", "pin": "31-2-2", "head": "31", "of_head": "31", "scale": "per-head",
    "head_dim": "1", "value_dim": "1", "number": "-1e9", "loudness": "1000", "window": "1", "corner": "top-left",
    "depth": "8", "norm": "pre", "activation": "relu", "of_block": "7", "training": "true", "dropout": "0.9",
}  # fmt: skip
SLOW: Final = ("four_ways", "block")  # a large scene takes seconds there
RULES: Final = ["window", "prefix", "padding", "documents", "strided", "T ≠ S"]

# the numbers of the two scripts
SHARED: Final = {"num_tokens": 5, "seed": 42, "dtype": "float32", "rtol": 1.3e-6, "atol": 1e-5}
TWELVE: Final = {**SHARED, "embed_dim": 768, "num_heads": 12}
# page, button, the controls after it, how many claims there are
PRESETS: Final[tuple[tuple[str, str, dict[str, Any], int], ...]] = (
    (
        "one_head",
        "Script: one head",
        {**SHARED, "embed_dim": 256, "head_dim": 64, "value_dim": 256, "causal": False},
        1,
    ),
    ("heads", "Script: 12 heads", {**TWELVE, "causal": False}, 4),
    ("heads", "Script: 12 heads, causal", {**TWELVE, "causal": True}, 4),
    ("masks", "Scripts: the causal mask", {**TWELVE, "causal": True, "rules": [], "number": "-1e4", "loudness": 1}, 2),
    ("head_counts", "Script: 12 heads", {**TWELVE, "causal": False}, 0),
    ("four_ways", "Chapter: its three classes", {**TWELVE, "training": False}, 4),
    ("block", "Script: the block", {**TWELVE, "causal": True, "depth": 1, "activation": "gelu"}, 2),
)


def assert_set_up(reader: Reader, values: dict[str, Any], claims: int) -> None:
    """The controls stand as the script has it; what it asserts holds, and the verdict is green."""
    assert reader.faults == reader.warnings == reader.notices == []
    for key, value in values.items():
        if key == "num_heads" and key not in reader.widgets:
            continue
        assert reader.value(key) == value, key
        assert reader.widgets[key].value == value, f"{key}: what the control shows is what counts"
    assert reader.verdict.startswith(":green-badge[")
    rows = reader.table_of("claims") if claims else []
    assert len(rows) == claims
    assert {row[1] for row in rows} <= {"✓ holds"}
    assert 'class="bad"' not in reader.table


def test_every_preset_is_on_a_page() -> None:
    there = {preset.label for preset in vars(presets).values() if isinstance(preset, presets.Preset)}
    assert there == {label for _, label, _, _ in PRESETS}


@pytest.mark.parametrize(("page", "label", "values", "claims"), PRESETS, ids=lambda value: str(value)[:24])
def test_a_preset_sets_up_its_script_whatever_was_set_before(
    page: str, label: str, values: dict[str, Any], claims: int
) -> None:
    wild = WILD | ({"embed_dim": "32"} if page in SLOW else {})
    reader = Reader(page, **wild, rules=RULES)
    assert reader.faults == []
    assert_set_up(reader.press(label), values, claims)


@pytest.mark.parametrize(("page", "label", "values", "claims"), PRESETS[1:], ids=lambda value: str(value)[:24])
def test_a_preset_after_a_visit_to_another_page(page: str, label: str, values: dict[str, Any], claims: int) -> None:
    reader = Reader(**link(SMALL)).set("num_heads", 4).open("block").set("depth", 3).open(page)
    assert_set_up(reader.press(label), values, claims)
    # and another change after it
    assert reader.set("curve", "log").faults == []


@pytest.mark.parametrize(("page", "label"), [(page, label) for page, label, _, _ in PRESETS])
def test_a_preset_says_what_it_sets_up(page: str, label: str) -> None:
    button = Reader(page, **link(SMALL)).buttons[label]
    assert button.help.startswith("Seed 42, 5 tokens of ")


def test_pictures_of_a_preset() -> None:
    reader = Reader("one_head", **WILD).press("Script: one head")
    for step, size in {"q": "5 × 64", "v": "5 × 256", "scores": "5 × 5", "context": "5 × 256"}.items():
        assert reader.set("step", step).picture("one_head").header["titles"] == [f"{step}: {size}"]
    reader = Reader("masks", **WILD, rules=RULES).press("Scripts: the causal mask")
    assert reader.picture("masks").mask.astype(int).tolist() == [
        [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1],
    ]  # fmt: skip
    # −1e4 on the scores, as the script has it, is as good as −∞ here
    assert "-1e4 gives the same weights as −∞, to the last bit." in reader.picture("masks_number").header["hint"]


def test_a_preset_forgets_the_notice_of_moved_heads() -> None:
    reader = Reader(**link(AttentionConfig(embed_dim=32, num_heads=32, num_tokens=5))).set("embed_dim", 20)
    assert len(reader.notices) == 1
    assert reader.press("Script: 12 heads").notices == []


def test_a_preset_pressed_twice_is_the_same() -> None:
    reader = Reader(**WILD).press("Script: 12 heads")
    before = reader.message
    assert reader.press("Script: 12 heads").message == before
    assert reader.faults == []
