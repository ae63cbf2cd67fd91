"""Properties and gradients on the first page: the numbers are the library's, and a broken attention shows."""

from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from attention.bugs.catalogue import BY_KEY
from attention.bugs.pieces import attend
from attention.config import AttentionConfig
from attention.gradients import STEPS, verify_gradients
from attention.properties import properties
from dashboard import further
from tests.dashboard.helpers import SMALL, Reader, empty_caches, link, number, tables

LABEL: Final = "Without PyTorch, and backwards: properties and gradients"
CAPTION: Final = "What holds of every attention, whatever PyTorch says (in float64)"
SCENES: Final = (
    SMALL,
    AttentionConfig(embed_dim=14, num_heads=2, num_tokens=4, causal=False, dtype="float16", seed=3),
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=1, dtype="bfloat16"),
    AttentionConfig(embed_dim=7, num_heads=7, num_tokens=3, dtype="float64"),
)


def held(reader: Reader) -> list[list[str]]:
    """The table of properties; that of what the scripts assert is of the same kind."""
    return tables("".join(reader.html["claims"]))[CAPTION]


def opened(config: AttentionConfig = SMALL) -> Reader:
    reader = Reader(**link(config))
    assert "gradients" not in reader.html
    assert CAPTION not in "".join(reader.html["claims"])
    reader.expand(LABEL)
    assert reader.faults == reader.warnings == []
    return reader


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_the_numbers_are_the_librarys(config: AttentionConfig) -> None:
    reader = opened(config)
    rows = [[one.name, "✓ holds" if one.holds else "✗ broken", one.found] for one in properties(config)]
    assert held(reader) == rows
    found = verify_gradients(config)
    table = reader.table_of("gradients")
    assert [row[0] for row in table] == list(STEPS)
    for row, maths, check in zip(table, found.maths.checks, found.arithmetic.checks, strict=True):
        assert row[1] == " × ".join(map(str, maths.shape))
        for (verdict, largest, used), one in ((row[2:5], maths), (row[5:8], check)):
            assert verdict == ("✓ equal" if one.equal else f"✗ {one.outcome}")
            assert number(largest) == pytest.approx(one.max_abs, rel=5.1e-3)
            if used.endswith(" %"):
                assert number(used.removesuffix(" %")) == pytest.approx(100 * one.margin, rel=0.06)
            else:
                assert number(used.removesuffix(" ×")) == pytest.approx(one.margin, rel=6e-3)
    assert f"the arithmetic: {config.dtype}" in reader.html["gradients"][0]


def test_all_holds_and_all_is_equal() -> None:
    reader = opened()
    assert {row[1] for row in held(reader)} == {"✓ holds"}
    assert {cell for row in reader.table_of("gradients") for cell in (row[2], row[5])} == {"✓ equal"}


@pytest.mark.parametrize(("key", "gradient"), [("softmax-axis", "dq"), ("k-for-v", "dv"), ("no-projection", "dw_o")])
def test_a_broken_attention_shows(key: str, gradient: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = BY_KEY[key].pieces.attention
    broken = partial(attend, pieces=pieces)
    monkeypatch.setattr(further, "properties", partial(properties, pieces=pieces))
    monkeypatch.setattr(further, "verify_gradients", partial(verify_gradients, attention=broken))
    empty_caches()
    try:
        reader = opened()
        rows = {row[0]: row for row in reader.table_of("gradients")}
        assert rows[gradient][2] == rows[gradient][5] == "✗ differs"
        found = {row[0]: row[1] for row in held(reader)}
        assert (found["rows sum to 1"] == "✗ broken") == (key == "softmax-axis")
        assert 'class="bad"' in reader.html["gradients"][0]
    finally:
        empty_caches()


def test_another_scene_and_another_tolerance() -> None:
    reader = opened()
    before = reader.table_of("gradients")
    reader.set("seed", 9)
    config = replace(SMALL, seed=9)
    assert reader.table_of("gradients") != before
    assert [row[2] for row in held(reader)] == [one.found for one in properties(config)]
    reader.set("rtol", 0.0).set("atol", 0.0)
    assert any(row[5] == "✗ differs" for row in reader.table_of("gradients"))
    assert all(row[2] == "✓ equal" for row in reader.table_of("gradients")), "float64 has a tolerance of its own"
