"""The table of what the verdict catches: it says when something is wrong, and its scenes are random enough."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import pytest
import torch

from attention.bugs.catalogue import BUGS, BY_KEY, Bug
from attention.bugs.caught import ATTENTION, BLOCK, verify_with
from attention.compare import Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.verify import ARITHMETIC, Report
from attention.verify_block import BlockConfig
from tests import verdict_table
from tests.verdict_table import false_alarms, main, mistakes, random_config, random_mask, scenes_of, told_of

SMALL = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The command takes one thread; those that there were are given back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table in small: few mistakes, small scenes, few runs."""
    monkeypatch.setattr(verdict_table, "ATTENTION", SMALL)
    monkeypatch.setattr(verdict_table, "BLOCK", BlockConfig(SMALL))
    few = ("mask-renormalised", "plain-softmax", "norm-elsewhere")
    monkeypatch.setattr(verdict_table, "BUGS", tuple(BY_KEY[key] for key in few))
    monkeypatch.setattr(verdict_table, "CONFIGURATIONS", 5)


def put(monkeypatch: pytest.MonkeyPatch, *bugs: Bug) -> None:
    monkeypatch.setattr(verdict_table, "BUGS", bugs)


@pytest.mark.usefixtures("short")
def test_it_ends_with_0_where_all_is_well(capsys: Printed) -> None:
    assert main() == 0
    said = capsys.readouterr().out
    assert said.endswith("The verdict can be trusted.\n")
    assert "MISSED" not in said
    assert "WRONG" not in said
    assert len([line for line in said.splitlines() if re.match(r"\S+ +(attention|block, p\S+) ", line)]) == 3 + 3 + 2
    assert re.search(r"plain-softmax +attention +not shown here +caught at weights +weights\n", said)
    assert re.search(r"mask-renormalised +attention +equal +equal +stays equal, as it must\n", said)
    assert re.search(r"norm-elsewhere +block, pre-norm +caught at q +caught at norm_1 +attention.q\n", said)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("bug", "missed"),
    [
        (replace(BY_KEY["no-scale"], step="masked"), 3),  # pre-norm on the probe
        (replace(BY_KEY["no-scale"], pre_norm="masked"), 1),
        (replace(BY_KEY["tanh-gelu"], step="fed"), 2),  # the probe of blocks begins with the norms after
        (replace(BY_KEY["tanh-gelu"], pre_norm="fed"), 1),
        (replace(BY_KEY["no-scale"], pieces=BY_KEY["mask-renormalised"].pieces), 3),  # seen nowhere
        (replace(BY_KEY["no-scale"], right=True), 3),  # what is right called wrong
        (replace(BY_KEY["plain-softmax"], right=True), 3),  # on the probe alone
    ],
    ids=["a wrong step", "a wrong step, pre-norm", "a wrong step of the block", "of the block, pre-norm", "never seen",
         "right, called wrong", "right, called wrong on the probe"],
)  # fmt: skip
def test_it_ends_with_1_where_the_verdict_is_wrong(
    bug: Bug, missed: int, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    put(monkeypatch, bug)
    assert mistakes() == missed
    assert capsys.readouterr().out.count("<-- MISSED") == missed
    monkeypatch.setattr(verdict_table, "false_alarms", lambda count: 0)
    assert main() == 1
    assert f"WRONG: {missed} missed, 0 false alarms." in capsys.readouterr().out


@pytest.mark.usefixtures("short")
def test_it_ends_with_1_at_a_false_alarm(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    put(monkeypatch)
    monkeypatch.setattr(verdict_table, "false_alarms", lambda count: count)
    assert main() == 1
    assert "WRONG: 0 missed, 5 false alarms." in capsys.readouterr().out


def test_each_mistake_is_tried_where_it_can_be_made() -> None:
    places = {bug.key: dict(scenes_of(bug)) for bug in BUGS}
    blocks = {"block, post-norm": BLOCK, "block, pre-norm": replace(BLOCK, norm_first=True)}
    assert places["no-scale"] == {"attention": ATTENTION, **blocks}
    assert places["no-residual"] == blocks
    assert sum(len(scenes) for scenes in places.values()) == 3 * 23 + 2 * 8


def test_what_is_told_of_a_report() -> None:
    found = verify_with(SMALL, BY_KEY["no-scale"].pieces).maths
    assert told_of(found, "scaled") == "caught at scaled"
    assert told_of(found, "masked") == told_of(found, None) == "WRONG: scaled"
    assert told_of(Report(()), None) == "equal"
    assert told_of(Report(()), "scaled") == "not shown here"
    block = verify_with(BlockConfig(SMALL), BY_KEY["no-scale"].pieces).maths
    assert told_of(block, "attention.scaled") == "caught at scaled"
    assert told_of(block, "scaled") == "WRONG: attention.scaled"


# false alarms


def test_right_code_raises_none(capsys: Printed) -> None:
    # N01
    assert false_alarms(30) == 0
    said = capsys.readouterr().out
    assert "Correct code over 30 random configurations" in said
    runs = {kind: int(count) for kind, count in re.findall(r"  ([a-z ]+?) +(\d+) runs, 0 false alarms", said)}
    assert runs == {
        "attention": 12, "under a mask": 6, "one head": 6, "block": 6, "gradients": 3, "properties": 3,
    }  # fmt: skip
    rounding = re.findall(r"(\w+) (\d+) of (\d+)", said.splitlines()[-1])
    assert [dtype for dtype, _, _ in rounding] == list(DTYPES)
    assert sum(int(of) for _, _, of in rounding) == 30
    over = {dtype: int(count) for dtype, count, _ in rounding}
    assert over["float64"] == over["float32"] == 0 < over["bfloat16"]


def test_wrong_code_raises_alarms_of_every_kind(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    # two sides that never agree to the last bit: tolerances of nothing are alarms in every line
    for name in ("verify", "gradients"):
        monkeypatch.setattr(import_module(f"attention.{name}"), "MATHS", Tolerance(0, 0))
    monkeypatch.setattr(import_module("attention.properties"), "_CLOSE", -1.0)
    count = 20
    alarms = false_alarms(count)
    said = capsys.readouterr().out
    lines = re.findall(r"  ([a-z ]+?) +(\d+) runs, (\d+) false", said)
    told = {kind: (int(runs), int(wrong)) for kind, runs, wrong in lines}
    assert len(told) == 6
    assert all(wrong > 0 for _, wrong in told.values())
    assert told["properties"] == (2, 2)
    assert sum(wrong for _, wrong in told.values()) == alarms


def test_a_probe_that_differs_is_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = verify_with(SMALL, BY_KEY["no-scale"].pieces).probe
    monkeypatch.setattr(import_module("attention.verify"), "probe", lambda: wrong)
    assert false_alarms(5) == 3  # of an attention two, and one under a mask


def test_rounding_is_an_alarm_only_where_right_code_keeps_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    for name in ("verify", "verify_head", "verify_block", "gradients"):
        exact = dict.fromkeys(ARITHMETIC, Tolerance(0, 0))
        monkeypatch.setattr(import_module(f"attention.{name}"), "ARITHMETIC", exact)
    halves = ["bfloat16", "float16"]
    monkeypatch.setattr(verdict_table, "DTYPES", dict.fromkeys(halves))
    assert false_alarms(10) == 0
    capsys.readouterr()
    monkeypatch.setattr(verdict_table, "DTYPES", {"float32": None})
    assert false_alarms(20) > 0
    said = capsys.readouterr().out
    assert re.search(r"attention +8 runs, [1-8] false alarms", said)
    assert re.search(r"gradients +2 runs, [12] false alarms", said)
    assert re.search(r"block +4 runs, 0 false alarms", said)  # a norm makes much of a rounding


def test_scenes_are_the_same_on_each_run_and_reach_every_corner() -> None:
    draws = [random.Random(20) for _ in range(2)]
    one, two = ([random_config(draw, 48) for _ in range(300)] for draw in draws)
    assert one == two
    assert {config.num_heads for config in one} == {1, 2, 3, 4, 5, 8, 12}
    assert {config.dtype for config in one} == set(DTYPES)
    assert {config.causal for config in one} == {True, False}
    assert min(config.num_tokens for config in one) == min(config.head_dim for config in one) == 1
    assert 40 < max(config.num_tokens for config in one) <= 48
    assert 30 < max(config.head_dim for config in one) <= 45
    draw = random.Random(1)
    masks = [random_mask(draw, config) for config in one]
    grids = [mask.allowed for mask in masks]
    assert any(not grid.any(dim=-1).all() for grid in grids)  # M01: rows that may attend to nothing
    assert any(grid.all() for grid in grids)
    assert {(grid.shape[0] > grid.shape[1]) - (grid.shape[0] < grid.shape[1]) for grid in grids} == {-1, 0, 1}
    for rule in ("window", "prefix", "document", "stride", "padding_left", "padding_right"):
        assert 0.2 < sum(bool(getattr(mask, rule)) for mask in masks) / len(masks) < 0.5
    assert len({mask.corner for mask in masks}) == 2
    for mask, config in zip(masks, one, strict=True):
        assert mask.causal == config.causal
        assert max(grid_size for grid_size in mask.allowed.shape) <= config.num_tokens
