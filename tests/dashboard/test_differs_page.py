"""The page of PyTorch's switches: the tiles are the two calls', and what is said of them is true."""

from dataclasses import replace
from typing import Final

import pytest

from attention.config import AttentionConfig
from attention.differences import differ
from attention.differing_calls import PAIRS
from attention.verify import ARITHMETIC
from tests.dashboard.helpers import SMALL, Reader, assert_shows, link

PAGE: Final = "pytorch_differs"
EVEN: Final = replace(SMALL, num_heads=2, num_tokens=4)


@pytest.mark.parametrize("config", [SMALL, EVEN], ids=["odd", "even"])
def test_every_pair_shows_what_ran(config: AttentionConfig) -> None:
    reader = Reader(PAGE, **{**link(config), "of_head": "1"})
    for topic, pairs in PAIRS.items():
        reader.set("difference", topic)
        for pair in pairs:
            if len(pairs) > 1:
                reader.set("pair", pair.name)
            assert reader.faults == reader.warnings == []
            has_heads = pair.step != "output"
            shown = differ(config, topic, pair.name, 1 if has_heads else 0, ARITHMETIC[config.dtype])
            drawn = [tile for tile in (shown.left, shown.right) if tile is not None]
            sides = (shown.difference.left, shown.difference.right)
            if drawn:
                assert_shows(reader.picture(PAGE), drawn)
                titles = [side.title for side in sides if side.facts]
                assert reader.picture(PAGE).header["titles"] == titles
            words = "\n".join(reader.said)
            assert [code.value for code in reader.app.code] == [side.source.strip() for side in sides]
            for side in sides:
                if side.facts is None:
                    assert f"`{side.title}` raises: {side.refused}" in words
                else:
                    verb = "**equals**" if side.facts.equals_ours else "**does not equal**"
                    assert f"`{side.title}` {verb} {shown.difference.ours}" in words
            rows = {row[0]: row[1:] for row in reader.table_of("ways")}
            nans = [f"{side.facts.nans} of {side.facts.size}" if side.facts else "raised" for side in sides]
            signs = ["✗ " if side.facts and side.facts.nans else "" for side in sides]
            assert rows["numbers that are NaN"] == [sign + text for sign, text in zip(signs, nans, strict=True)]


def test_mask_polarity_is_first_and_nan_is_seen() -> None:  # M05
    reader = Reader(PAGE, **link(EVEN))
    assert reader.value("difference") == "mask polarity"
    assert reader.picture(PAGE).header["nans"] == 4
    assert any("gives **NaN** in 2 of 8 rows" in text for text in reader.said)
    assert reader.verdict.startswith(":green-badge[")


def test_the_empty_row_is_named() -> None:  # M01, M02
    reader = Reader(PAGE, **{**link(EVEN), "difference": "empty rows", "pair": "finfo.min"})
    rows = {row[0]: row[1:] for row in reader.table_of("ways")}
    assert rows["the query that may attend to nothing"] == ["zeros", "the mean of all v"]


def test_a_pair_of_another_switch_gives_the_first() -> None:
    reader = Reader(PAGE, **{**link(EVEN), "difference": "is_causal", "pair": "finfo.min"})
    assert reader.faults == reader.notices == []
    assert reader.widgets["pair"].value == "alone"
