"""Four ways to the same answer: the tiles are the four ways', the matrix says how far they are apart."""

from dataclasses import replace
from typing import Final

import pytest
import torch

from attention import reference, sample
from attention.config import DTYPES, AttentionConfig
from attention.four_ways import WAYS, FourWays
from attention.multi_head import attend_as_configured
from tests.dashboard.helpers import SCENES, SMALL, Reader, assert_shows, link, number

PAGE: Final = "four_ways"


def opened(config: AttentionConfig = SMALL, **more: str) -> Reader:
    return Reader(PAGE, **{**link(config), **more})


def differences(config: AttentionConfig, dropout: float = 0.0) -> dict[tuple[str, str], float]:
    outputs = {answer.way: answer.output.double() for answer in FourWays(config, dropout).answers()}
    return {(a, b): (outputs[a] - outputs[b]).abs().max().item() for a in WAYS for b in WAYS}


def assert_matrix(reader: Reader, config: AttentionConfig, dropout: float = 0.0) -> None:
    """The table says how far each pair is apart."""
    rows = reader.table_of("ways")
    assert [row[0] for row in rows] == list(WAYS)
    for (a, b), value in differences(config, dropout).items():
        cell = rows[WAYS.index(a)][1 + WAYS.index(b)]
        if a == b:
            assert cell == "–"
        elif dropout and (a in WAYS[:2]) != (b in WAYS[:2]):
            assert cell == f"{value:.2g}, chance"
        else:
            assert cell[0] in "✓✗"
            assert cell[2:] == ("0" if value == 0 else f"{value:.2e}")


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_the_tiles_are_the_four_ways(config: AttentionConfig) -> None:
    reader = opened(config, of_head="1")
    assert reader.faults == reader.warnings == []
    causal = replace(config, causal=True)  # the book's classes always are
    grid = torch.ones(config.num_tokens, config.num_tokens).tril().bool()
    scene = reader.picture(PAGE)
    assert_shows(scene, [answer.weights[0, 1] for answer in FourWays(causal).answers()], grid)
    assert scene.header["titles"] == list(WAYS)
    assert (scene.header["rowsName"], scene.header["columnsName"]) == ("query (attends)", "key (attended to)")
    half = config.dtype == "float16"
    drawn = torch.from_numpy(scene.weights)
    # N14: every row sums to 1
    torch.testing.assert_close(drawn.sum(-1), torch.ones(4, config.num_tokens), rtol=0, atol=2e-3 if half else 1e-6)
    ours = attend_as_configured(causal).weights[0, 1]
    tokens, parameters = sample.draw_tokens(causal), sample.draw_parameters(causal)
    with torch.no_grad():
        pytorch = reference.attend(tokens, parameters, causal.num_heads, grid).weights[0, 1]
    for tile in drawn:
        for same in (ours, pytorch):
            torch.testing.assert_close(tile, same.float(), rtol=0, atol=2e-3 if half else 1e-6)
    assert_matrix(reader, causal)
    rows = reader.table_of("ways")
    limit = 1e-2 if half else 1e-5
    assert all(number(cell) <= limit for row in rows for cell in row[1:] if cell != "–")
    if not half:
        assert 'class="bad"' not in reader.html["ways"][0]
    badges = (":green-badge[", ":orange-badge[") if half else (":green-badge[",)
    assert reader.verdict.startswith(badges)


def test_always_causal_and_says_so() -> None:
    reader = opened(replace(SMALL, causal=False))
    assert "causal" not in reader.widgets
    assert any("Causal: always" in caption.value for caption in reader.app.caption)
    assert not reader.picture(PAGE).mask[0, 1]
    causal = opened()
    assert reader.picture(PAGE).numbers == causal.picture(PAGE).numbers
    assert (reader.verdict, reader.table) == (causal.verdict, causal.table)


@pytest.mark.parametrize("head", [0, 2])
def test_the_head_that_is_shown(head: int) -> None:
    reader = opened().set("of_head", head)
    assert reader.faults == []
    assert_shows(
        reader.picture(PAGE),
        [answer.weights[0, head] for answer in FourWays(SMALL).answers()],
        torch.ones(5, 5).tril().bool(),
    )


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_the_matrix_in_every_precision(dtype: str) -> None:
    config = replace(SMALL, dtype=dtype)
    assert_matrix(opened(config), config)


# Dropout -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropout", [0.3, 0.9])
def test_dropout_is_seeded_and_the_same_in_list_and_packed(dropout: float) -> None:
    reader = opened(training="true", dropout=str(dropout), of_head="2")
    assert reader.faults == reader.warnings == []
    scene = reader.picture(PAGE)
    answers = FourWays(SMALL, dropout).answers()
    assert_shows(scene, [answer.weights[0, 2] for answer in answers], torch.ones(5, 5).tril().bool())
    torch.testing.assert_close(torch.from_numpy(scene.weights[0]), torch.from_numpy(scene.weights[1]))
    # what is kept grows by 1 / (1 - p), what is dropped is 0
    plain = torch.from_numpy(opened(of_head="2").picture(PAGE).weights[1])
    drawn = torch.from_numpy(scene.weights[1])
    kept = drawn != 0
    torch.testing.assert_close(drawn[kept], plain[kept] / (1 - dropout))
    assert (plain[~kept] > 0).any(), "something was dropped"
    # einsum and PyTorch go without
    torch.testing.assert_close(torch.from_numpy(scene.weights[2:]), plain.expand(2, 5, 5), rtol=0, atol=1e-6)
    assert_matrix(reader, SMALL, dropout)
    rows = reader.table_of("ways")
    assert number(rows[0][2]) <= 1e-5, "list and packed still agree"
    assert 'class="bad"' not in reader.html["ways"][0], "N17: chance is no fault"
    # the same picture for everybody, and another time
    assert opened(training="true", dropout=str(dropout), of_head="2").pictures == reader.pictures
    assert reader.rerun().picture(PAGE).numbers == scene.numbers
    assert "dropout included" in scene.header["hint"]


def test_dropout_is_no_step_of_the_verdict() -> None:  # N17
    off = opened()
    on = opened(training="true", dropout="0.3")
    assert on.verdict == off.verdict
    assert on.table == off.table
    assert on.verdict.startswith(":green-badge[")
    assert "differs" not in " ".join(on.said)
    assert "-badge[:material/cancel" not in " ".join(on.said)
    (said,) = (text for text in on.said if "random" in text)
    assert "Compared with dropout off" in said
    assert not any("random" in text for text in off.said)


def test_what_is_said_of_dropout_is_so() -> None:
    (said,) = (text for text in opened(training="true", dropout="0.5").said if "random" in text)
    draws = int(said.split("mean of ")[1].split()[0])
    ways = FourWays(SMALL, 0.5)
    plain = attend_as_configured(SMALL).output
    one, mean = (float((ways.mean_over_draws(n) - plain).double().square().mean().sqrt()) for n in (1, draws))
    assert mean < one, "the mean of many draws comes nearer"
    assert number(said.split("single draw is ")[1].split()[0]) == pytest.approx(one, rel=0.06)
    assert number(said.split("draws ")[1].split()[0]) == pytest.approx(mean, rel=0.06)


def test_eval_mode_drops_nothing_whatever_the_slider_says() -> None:  # N15
    plain, other = opened(dropout="0.1"), opened(dropout="0.9")
    assert plain.picture(PAGE).numbers == other.picture(PAGE).numbers
    assert other.table_of("ways") == plain.table_of("ways")
    assert "dropout off" in other.caption_of("ways")
    # and training with a probability of 0 neither
    zero = opened(training="true", dropout="0.0")
    assert zero.faults == []
    assert zero.picture(PAGE).numbers == plain.picture(PAGE).numbers
    assert "dropout off" in zero.caption_of("ways")


def test_training_on_and_off_again() -> None:
    reader = opened()
    before = reader.picture(PAGE).numbers
    on = reader.set("training", True).picture(PAGE).numbers
    assert on != before
    assert "dropout 0.3 on in list and packed" in reader.caption_of("ways")
    assert reader.set("dropout", 0.6).picture(PAGE).numbers not in (on, before)
    assert reader.set("training", False).picture(PAGE).numbers == before
    assert reader.faults == []


def test_another_seed_drops_others() -> None:
    patterns = [
        (opened(replace(SMALL, seed=seed), training="true", dropout="0.5").picture(PAGE).weights[0] == 0).tolist()
        for seed in (1, 2)
    ]
    assert patterns[0] != patterns[1]


# Time ----------------------------------------------------------------------------------------------------------------


def test_times_are_those_of_all_four() -> None:
    reader = opened()
    rows = reader.table_of("ways", 1)
    assert [row[0] for row in rows] == list(WAYS)
    assert "dropout off" in reader.caption_of("ways", 1)
    for row in rows:
        median, p95 = number(row[1]), number(row[2])
        assert 0 < median <= p95
        assert row[3].endswith(" ×")
    assert rows[-1][3] == "1.00 ×"


def test_times_do_not_change_under_the_reader() -> None:
    reader = opened()
    before = reader.table_of("ways", 1)
    assert reader.set("training", True).set("of_head", 1).table_of("ways", 1) == before
