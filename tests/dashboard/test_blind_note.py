"""What the settings of a page hide is said there, and one click leads to settings that show it."""

from dataclasses import replace
from typing import Any, Final

import pytest
import torch

from attention.bugs.blind_spots import blind_spots, twin
from attention.bugs.catalogue import BUGS, BY_KEY
from attention.bugs.caught import both_with
from attention.config import AttentionConfig, head_counts
from attention.mask_config import MaskConfig
from attention.multi_head import STEPS
from attention.verify_block import BlockConfig
from attention.verify_head import HeadConfig
from dashboard import blind_note
from tests.dashboard.helpers import SMALL, Reader, link
from tests.dashboard.test_pages import WITH_A_SCENE

NAMES: Final = [page.removesuffix(".py") for page in WITH_A_SCENE]
HIDES: Final = ":orange-badge[:material/visibility_off: hides "
RULES: Final = ("window", "prefix", "padding", "documents", "strided", "T ≠ S")
# of which every rule forbids all, or nothing
TIGHT: Final = {"window": "1", "prefix": "64", "pad_left": "64", "document": "1", "queries": "1", "keys": "1"}


def notes(reader: Reader) -> list[str]:
    return [text for text in reader.said if "**These settings cannot show" in text]


def button(reader: Reader) -> str:
    (label,) = [label for label in reader.buttons if label.startswith("Show them: ")]
    return label


def assert_shown_after_a_click(reader: Reader) -> None:
    """There is a note and its badge; a click does what the button says, and both go."""
    assert reader.faults == reader.warnings == []
    (note,) = notes(reader)
    count = note.split("cannot show ")[1].split("**")[0].removesuffix(" mistakes")
    assert f"{HIDES}{count} mistakes]" in reader.verdict
    label = button(reader)
    reader.press(label)
    assert reader.faults == reader.warnings == []
    assert all("as much as one fills in by hand" in notice for notice in reader.notices)
    assert notes(reader) == []
    assert "curve" in reader.drew, "the sidebar too, which has other settings now"
    assert HIDES not in reader.verdict
    assert not any(name.startswith("Show them") for name in reader.buttons)
    said = label.removeprefix("Show them: ").split(", ")
    for name, key in (("tokens", "num_tokens"), ("heads", "num_heads"), ("embed dim", "embed_dim")):
        for words in said:
            if words.startswith(f"{name} "):
                assert reader.value(key) == int(words.split()[-1])
    if "causal" in said:
        assert reader.value("causal") is True
    if "no rules" in said:
        assert reader.value("rules") == []


@pytest.mark.parametrize("page", NAMES)
def test_no_note_at_the_defaults(page: str) -> None:
    reader = Reader(page, num_tokens="16", embed_dim="48", num_heads="4", pass_seeds="10")
    assert notes(reader) == []
    assert HIDES not in reader.verdict
    assert not any(label.startswith("Show them") for label in reader.buttons)


def test_no_note_at_the_very_defaults() -> None:
    for scene in (AttentionConfig(), HeadConfig(AttentionConfig(), 64, 64), BlockConfig(AttentionConfig())):
        assert blind_spots(scene).hidden == ()
        assert blind_note.badge(scene) == ""


@pytest.mark.parametrize("page", NAMES)
def test_one_token_is_said_on_every_page_and_a_click_helps(page: str) -> None:
    assert_shown_after_a_click(Reader(page, **{**link(SMALL), "num_tokens": "1", "pass_seeds": "10"}))


@pytest.mark.parametrize(
    ("page", "embed_dim", "num_heads"),
    [
        *((name, "7", "1") for name in NAMES if name not in ("one_head", "precision")),
        *(("heads", *sizes) for sizes in (("12", "1"), ("7", "7"), ("2", "2"))),
    ],
)
def test_head_counts_that_hide(page: str, embed_dim: str, num_heads: str) -> None:
    given = {**link(SMALL), "embed_dim": embed_dim, "num_heads": num_heads, "causal": "false"}
    assert_shown_after_a_click(Reader(page, **given))


@pytest.mark.parametrize("rule", [*RULES, ""])
@pytest.mark.parametrize("causal", ["true", "false"])
@pytest.mark.parametrize("num_tokens", ["1", "4"])
def test_rules_that_hide(rule: str, causal: str, num_tokens: str) -> None:
    given: dict[str, Any] = {**link(SMALL), **TIGHT, "causal": causal, "num_tokens": num_tokens}
    reader = Reader("masks", **given, **({"rules": [rule]} if rule else {}))
    if notes(reader):
        assert_shown_after_a_click(reader)
    else:
        assert num_tokens == "4"
        assert causal == "true"


def test_one_head_and_widths() -> None:
    assert_shown_after_a_click(Reader("one_head", **{**link(SMALL), "head_dim": "1", "value_dim": "1"}))


def test_relu_hides_two_of_a_block() -> None:
    reader = Reader("block", **link(SMALL), activation="relu")
    (note,) = notes(reader)
    assert "cannot show 2 of 29 mistakes**: ReLU for GELU, GELU by tanh. Every step" in note
    assert button(reader) == "Show them: gelu"
    assert_shown_after_a_click(reader)
    assert reader.value("activation") == "gelu"


def test_the_tolerance_goes_back_with_the_click() -> None:
    reader = Reader(**{**link(SMALL), "num_tokens": "1", "rtol": "0.5", "atol": "0.5"})
    reader.press(button(reader))
    assert (reader.value("rtol"), reader.value("atol")) == (1.3e-6, 1e-5)


@pytest.mark.parametrize("change", [{"num_heads": 1}, {"num_tokens": 1}, {"causal": False}, {"num_heads": 12}, {}])
def test_what_is_named_is_what_leaves_every_step_equal(change: dict[str, Any]) -> None:
    # in the scene itself, not in its twin
    config = replace(SMALL, **change, dtype="float64")
    hidden = set(blind_spots(config).hidden)
    for bug in BUGS:
        if bug.of_block or bug.right or bug.key == "plain-softmax":
            assert bug.key not in hidden
            continue
        ours, pytorch = both_with(config, bug.pieces)
        pairs = [(getattr(ours, step), getattr(pytorch, step)) for step in STEPS]
        same = all(torch.allclose(a, b, rtol=1e-7, atol=1e-9) for a, b in pairs)
        assert (bug.key in hidden) == same, bug.key


def test_the_settings_instead_are_possible() -> None:
    for embed_dim in range(1, 33):
        for num_heads in head_counts(embed_dim):
            config = AttentionConfig(embed_dim=embed_dim, num_heads=num_heads, num_tokens=3)
            found = blind_spots(config)
            settings = {name: value for name, value in found.instead if name != "rules"}
            replace(config, **settings)  # does not raise
            assert found.hidden_then == 0
            assert bool(found.instead) == bool(found.hidden)


def test_four_are_named_and_the_others_counted() -> None:
    found = blind_spots(replace(SMALL, num_tokens=1))
    names = [BY_KEY[key].name for key in found.hidden]
    said = blind_note.said(found)
    assert (
        f"cannot show {len(names)} of {found.of} mistakes**: {', '.join(names[:4])} and {len(names) - 4} more." in said
    )
    assert names[4] not in said
    assert " more" not in blind_note.said(replace(found, hidden=found.hidden[:4]))


def test_settings_in_words() -> None:
    found = blind_spots(replace(SMALL, num_tokens=1))
    given: tuple[tuple[str, Any], ...] = (
        ("rules", []),
        ("num_tokens", 16),
        ("causal", True),
        ("embed_dim", 768),
        ("head_dim", 64),
    )
    words = blind_note.settings(replace(found, instead=(*given, ("activation", "gelu"), ("causal", False))))
    assert words == "no rules, tokens 16, causal, embed dim 768, head width 64, gelu, not causal"


def test_a_twin_is_small_and_of_the_same_kind() -> None:
    large = AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, causal=False)
    for scene in (large, HeadConfig(large, 64, 32), BlockConfig(large, 8, True, "relu")):
        small = twin(scene)
        config = small if isinstance(small, AttentionConfig) else small.scene
        assert type(small) is type(scene)
        assert config.embed_dim <= 12
        assert config.num_tokens <= 6
        assert not config.causal
    mask = MaskConfig(num_queries=256, num_keys=256, window=3)
    assert twin((large, mask))[1] == mask
