"""The page of predictions: nothing gives the answer away before it is revealed, and it is judged as it should be."""

import json
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.config import AttentionConfig
from attention.mask_config import MaskConfig
from attention.masks import Corner
from attention.multi_head import attend_masked
from dashboard.predict_panel import rules
from dashboard.take_home import LABEL
from tests.dashboard.helpers import Reader, assert_shows, decode, link, number

SCENE = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
MASK = MaskConfig(num_queries=5, num_keys=5, causal=True, window=2)
HEAD, QUERY = 1, 3


def opened(ask: str = "row", **more: str) -> Reader:
    asked = {"of_head": str(HEAD), "of_query": str(QUERY), "rules": "window", "window": "2", "ask": ask, **more}
    reader = Reader("predict", **link(SCENE), **asked)
    assert reader.faults == []
    return reader


def right_row() -> torch.Tensor:
    return attend_masked(SCENE, MASK).weights[0, HEAD, QUERY]


def field(reader: Reader, place: int) -> str:
    (key,) = [key for key in reader.widgets if key.startswith("_said") and key.endswith(f" {place}")]
    return key


def filled(reader: Reader, values: list[float]) -> Reader:
    for place, value in enumerate(values):
        reader.set(field(reader, place), value)
    return reader


def badge(reader: Reader) -> str:
    (text,) = [text for text in reader.said if ("-badge[" in text and "right" in text) or "not yet" in text]
    return text


def test_the_row_that_is_asked_for_is_not_sent() -> None:
    reader = opened()
    scene = reader.picture("predict")
    assert scene.header["blank"] == [QUERY]
    expected = attend_masked(SCENE, MASK).weights[0, HEAD].clone()
    expected[QUERY] = 0
    shown = MASK.allowed.clone()
    shown[QUERY] = False
    assert_shows(scene, [expected], shown)


@pytest.mark.parametrize("ask", ["row", "mask"])
def test_nothing_on_the_page_has_the_answer_before_it_is_revealed(ask: str) -> None:
    reader = opened(ask)
    everything = json.dumps([reader.said, reader.captions, reader.html, reader.table])
    messages = b"".join(message for key, message in reader.pictures.items() if key != "predict_scaled")
    for weight in right_row()[MASK.allowed[QUERY]]:
        assert f"{weight:.4f}" not in everything
        assert weight.numpy().tobytes() not in messages
    if ask == "mask":
        assert not decode(reader.pictures["predict"]).mask.any()


def test_the_scaled_scores_are_there_to_work_it_out() -> None:
    reader = opened()
    scaled = attend_masked(SCENE, MASK).scaled[0, HEAD]
    assert_shows(reader.picture("predict_scaled"), [scaled])
    shown = [number(row[1]) for row in reader.table_of("predict")]
    assert shown == pytest.approx(scaled[QUERY].tolist(), abs=5e-5)


def test_a_right_row_is_right() -> None:
    reader = filled(opened(), right_row().tolist())
    assert "5 of 5 filled in. Yours sum to 1.000" in " ".join(reader.said)
    reader.press_key("check")
    assert badge(reader).startswith(":green-badge")
    assert {row[3] for row in reader.table_of("predict")} == {"✓ right"}
    assert len(reader.table_of("predict")[0]) == 4, "checking does not show the weights"


def test_a_wrong_row_says_how_many_are_right_and_not_by_how_much() -> None:
    wrong = right_row().clone()
    wrong[2] += 0.06
    reader = filled(opened(within="0.05"), wrong.tolist()).press_key("check")
    assert badge(reader).startswith(":red-badge")
    assert "**4 of 5 are right** within 0.05" in badge(reader)
    assert [row[3] for row in reader.table_of("predict")].count("✗ not within") == 1
    assert reader.set("within", "0.1").said
    reader.press_key("check")
    assert badge(reader).startswith(":green-badge"), "within the reader's tolerance it is right"


def test_what_was_checked_counts_until_a_field_is_changed() -> None:
    reader = filled(opened(), right_row().tolist()).press_key("check")
    reader.set(field(reader, 0), 0.5)
    assert not [text for text in reader.said if "-badge[" in text and "right" in text]
    assert len(reader.table_of("predict")[0]) == 3


def test_revealing_shows_the_row_and_hiding_takes_it_back() -> None:
    reader = opened().press_key("do_reveal")
    assert_shows(reader.picture("predict"), [attend_masked(SCENE, MASK).weights[0, HEAD]], MASK.allowed)
    assert reader.picture("predict").header["blank"] == []
    table = reader.table_of("predict")
    assert [number(row[5]) for row in table] == pytest.approx(right_row().tolist(), abs=5e-5)
    assert [row[4] == "masked" for row in table] == (~MASK.allowed[QUERY]).tolist()
    reader.press_key("hide_again")
    assert reader.picture("predict").header["blank"] == [QUERY]


def test_nothing_can_be_taken_home_before_it_is_revealed() -> None:
    reader = opened()
    assert LABEL not in reader.expanders
    assert LABEL in reader.press_key("do_reveal").expanders


def test_another_question_is_asked_anew() -> None:
    reader = filled(opened(), right_row().tolist()).press_key("do_reveal")
    reader.set("of_query", 2)
    assert reader.picture("predict").header["blank"] == [2]
    assert [row[2] for row in reader.table_of("predict")] == ["–"] * 5


def can_take_home(reader: Reader) -> bool:
    """Whether the last run drew the expander; it has to have drawn what stands below the picture."""
    assert any("tables steps" in html.proto.body for html in reader.app.get("html"))
    return any(expander.label == LABEL for expander in reader.app.expander)


@pytest.mark.parametrize(("moved", "value"), [("of_head", 0), ("of_query", 2), ("ask", "mask"), ("seed", 5)])
def test_what_can_be_taken_home_has_no_answer_to_the_next_question(moved: str, value: object) -> None:
    assert not can_take_home(opened())
    reader = opened().press_key("do_reveal")
    assert can_take_home(reader)
    assert not can_take_home(reader.set(moved, value))


def test_the_answer_is_in_no_link() -> None:
    reader = filled(opened(), right_row().tolist()).press_key("do_reveal")
    assert not any("said" in name or "reveal" in name for name in reader.app.query_params)


def test_a_row_of_nothing_is_not_said_to_sum_to_1() -> None:
    reader = opened(rules="padding", pad_left="4", pad_right="0")
    filled(reader, [1, 0, 0, 0, 0]).press_key("check")
    assert badge(reader).endswith("a row of weights sums to 1, or to 0 where no key may be seen.")


@settings(max_examples=200, deadline=None)
@given(
    st.builds(
        MaskConfig,
        num_queries=st.integers(1, 8),
        num_keys=st.integers(1, 8),
        causal=st.booleans(),
        window=st.sampled_from([None, 1, 2, 5]),
        prefix=st.sampled_from([None, 0, 1, 3]),
        padding_left=st.integers(0, 2),
        padding_right=st.sampled_from([0, 1, 9]),
        document=st.sampled_from([None, 1, 2, 3]),
        stride=st.sampled_from([None, 1, 2, 3]),
        corner=st.sampled_from(Corner),
    )
)
def test_the_rules_in_words_are_enough_to_work_the_mask_out(mask: MaskConfig) -> None:
    """Read by somebody who knows nothing but these words."""
    said = rules(mask)

    def says(pattern: str) -> int | None:
        found = re.search(pattern, said)
        return int(found[1]) if found else None

    last_at_last = "the last query stands at the last key" in said
    before_first = "before key 0 belong to the first document" in said
    first_seen, window = says(r"or the key is one of the first (\d+)[;.]"), says(r"fewer than (\d+) positions")
    left, right = says(r"not one of the first (\d+), which"), says(r"not one of the last (\d+), which")
    document, stride = says(r"document of (\d+) token"), says(r"multiple of (\d+) position")
    for query in range(mask.num_queries):
        place = query + (mask.num_keys - mask.num_queries if last_at_last else 0)
        stands = max(0, place) if before_first else place
        for key in range(mask.num_keys):
            expected = (
                ("not after the query" not in said or key <= place or key < (first_seen or 0))
                and (window is None or abs(place - key) < window)
                and key >= (left or 0)
                and key < mask.num_keys - (right or 0)
                and (document is None or stands // document == key // document)
                and (stride is None or (place - key) % stride == 0)
            )
            assert mask.allowed[query, key] == expected, (said, query, key)


def test_a_mask_is_filled_in_row_by_row() -> None:
    reader = opened("mask")
    assert any("the key is fewer than 2 positions away" in text for text in reader.said)
    for query in range(5):
        keys = [key for key in range(5) if MASK.allowed[query, key]]
        reader.set(field(reader, query), keys)
    assert_shows(reader.picture("predict"), [MASK.allowed.float()], MASK.allowed)
    reader.press_key("check")
    assert badge(reader).startswith(":green-badge")
    assert "All 25 cells are right" in badge(reader)


def test_a_row_of_a_mask_is_blank_until_something_is_picked_or_it_is_checked() -> None:
    reader = opened("mask")
    assert reader.picture("predict").header["blank"] == [0, 1, 2, 3, 4]
    reader.set(field(reader, 3), [2])
    assert reader.picture("predict").header["blank"] == [0, 1, 2, 4]
    before = reader.picture("predict").header["id"]
    reader.press_key("check")
    assert reader.picture("predict").header["blank"] == []
    assert reader.picture("predict").header["id"] != before, "or the browser would not draw it again"


def test_a_wrong_mask_says_which_rows_and_once_revealed_which_cells() -> None:
    reader = opened("mask")
    for query in range(5):
        reader.set(field(reader, query), [0] if query == 2 else [key for key in range(5) if MASK.allowed[query, key]])
    reader.press_key("check")
    assert "**22 of 25 cells are right.** Look again at query 2." in badge(reader)
    reader.press_key("do_reveal")
    assert "**Too many**: 2 → 0. **Missing**: 2 → 1, 2 → 2." in badge(reader)
    assert reader.picture("predict").header["titles"] == ["yours", "right"]
    yours = MASK.allowed.clone()
    yours[2] = torch.tensor([True, False, False, False, False])
    assert_shows(reader.picture("predict"), [yours.float(), MASK.allowed.float()], yours | MASK.allowed)


def test_more_tokens_than_one_fills_in_are_not_asked_for() -> None:
    reader = Reader("predict", **link(AttentionConfig(embed_dim=12, num_heads=3, num_tokens=40)))
    assert reader.picture("predict").header["keys"] == 8
    assert "Shown with tokens 8, not 40: as much as one fills in by hand." in reader.notices[0]


def test_one_token_can_be_asked_for_too() -> None:
    reader = Reader("predict", **link(AttentionConfig(embed_dim=4, num_heads=1, num_tokens=1)))
    assert reader.faults == []
    filled(reader, [1.0]).press_key("check")
    assert badge(reader).startswith(":green-badge")
