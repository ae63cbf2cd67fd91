"""The catalogue of mistakes: the right pieces are the library's own, and each wrong one is caught where it is wrong."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache, partial
from operator import attrgetter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from attention import reference, reference_block, sample
from attention.block import POST_NORM, PRE_NORM, run_block
from attention.bugs import pieces as right
from attention.bugs import wrong
from attention.bugs.catalogue import BUGS, BY_KEY, Bug, joined
from attention.bugs.caught import ATTENTION, BLOCK, Scene, first_step, probe_with, sides_with, verify_with
from attention.bugs.pieces import RIGHT, RIGHT_BLOCK, BlockPieces, Pieces
from attention.compare import Outcome, Tolerance
from attention.config import AttentionConfig
from attention.layer_norm import layer_norm
from attention.multi_head import STEPS, allowed_by, attend, draw, matrix, project
from attention.sample import BlockParameters
from attention.scaled_dot_product import softmax
from attention.verify import ARITHMETIC, MATHS, Sides, report, sides_of
from attention.verify_block import BlockConfig
from tests.attention.scenes import DTYPES, coin, hard_scene, normal, random_block, random_parameters

SMALL = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
SMALL_BLOCK = BlockConfig(SMALL)
Run = Callable[..., Any]  # a scene, to be run with pieces
# what the default scenes cannot show: their scores are far from where exp overflows
ONLY_ON_THE_PROBE = ("plain-softmax",)
EVERY = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.key)


# the catalogue


def test_the_catalogue_has_each_mistake_once() -> None:
    assert len(BUGS) == len(BY_KEY) == len({bug.name for bug in BUGS}) == 31
    assert tuple(BY_KEY.values()) == BUGS
    assert all(BY_KEY[bug.key] is bug for bug in BUGS)
    assert [bug.key for bug in BUGS if bug.right] == ["mask-renormalised"]
    # no two are the same mistake
    assert len({tuple(changed(bug.pieces).items()) for bug in BUGS}) == len(BUGS)


@EVERY
def test_every_mistake_is_told_in_full(bug: Bug) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", bug.key)
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", bug.thread)
    for text in (bug.name, bug.what, bug.shows):
        assert text == text.strip()
        assert len(text) > 4
    assert bug.what.endswith(".")
    assert bug.shows.endswith(".")
    for norm_first, steps in ((False, POST_NORM), (True, PRE_NORM)):
        assert bug.first_step(norm_first) in steps
    if not bug.of_block:
        assert bug.first_step() in STEPS
        assert bug.first_step(False) == bug.first_step(True) == f"attention.{bug.first_step()}"


@EVERY
def test_a_wrong_piece_takes_what_the_right_one_takes(bug: Bug) -> None:
    replaced = changed(bug.pieces)
    assert len(replaced) == 1
    assert bug.of_block == (bug.pieces.attention is RIGHT)
    for name, piece in replaced.items():
        place = RIGHT if hasattr(RIGHT, name) else RIGHT_BLOCK
        assert taken(piece) == taken(getattr(place, name) or layer_norm)
        assert piece.__module__ == "attention.bugs.wrong"
    ((instead, put),) = bug.swaps
    assert put is next(iter(replaced.values()))
    assert instead not in replaced.values()
    if bug.instead is None:
        assert taken(instead) == taken(put)
    else:
        assert instead is bug.instead


def test_what_is_shown_beside_a_mistake_is_the_right_piece() -> None:
    assert BY_KEY["no-scale"].swaps == ((right.scale, wrong.no_scale),)
    assert BY_KEY["plain-softmax"].swaps == ((softmax, wrong.plain_softmax),)
    assert BY_KEY["no-second-norm"].swaps == ((layer_norm, wrong.no_norm),)  # nothing of its own is replaced
    assert BY_KEY["no-residual"].swaps == ((right.add, wrong.no_residual),)
    assert BY_KEY["no-bias-out"].swaps == ((project, wrong.without_bias),)


def test_the_steps_of_the_catalogue_are_for_both_places_of_the_norms() -> None:
    bug = BY_KEY["norm-elsewhere"]
    assert (bug.first_step(False), bug.first_step(True)) == ("norm_1", "attention.q")
    bug = BY_KEY["mask-not-passed"]
    assert (bug.first_step(False), bug.first_step(True)) == ("attention.masked", "attention.masked")


def changed(pieces: BlockPieces) -> dict[str, Any]:
    """The pieces that are not the right ones, by name."""
    every = [(pieces.attention, RIGHT, f.name) for f in fields(Pieces)]
    every += [(pieces, RIGHT_BLOCK, f.name) for f in fields(BlockPieces) if f.name != "attention"]  # type: ignore[misc]
    return {name: getattr(of, name) for of, good, name in every if getattr(of, name) is not getattr(good, name)}


def taken(piece: Callable[..., Any]) -> list[str]:
    """The arguments that have to be given."""
    return [name for name, one in inspect.signature(piece).parameters.items() if one.default is one.empty]


# all pieces right


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "empty rows", "each sequence its own"])
@pytest.mark.parametrize("loudness", [1, 60])
def test_right_pieces_are_the_attention_itself(dtype: torch.dtype, mask: str, loudness: int) -> None:
    parameters = random_parameters(2, 15, dtype)
    tokens = loudness * normal(1, 2, 7, 15, dtype=dtype)
    same_to_the_bit(right.attend(tokens, parameters, 3, grid(mask)), attend(tokens, parameters, 3, grid(mask)), STEPS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("masked", [True, False])
def test_right_pieces_are_the_attention_itself_to_another_memory(dtype: torch.dtype, masked: bool) -> None:
    parameters = random_parameters(2, 15, dtype)
    tokens, memory = normal(1, 2, 5, 15, dtype=dtype), normal(3, 2, 7, 15, dtype=dtype)
    allowed = coin(4, 5, 7) if masked else None
    if allowed is not None:
        allowed[1] = False  # M01
    found = right.attend(tokens, parameters, 3, allowed, RIGHT, memory)
    same_to_the_bit(found, attend(tokens, parameters, 3, allowed, memory=memory), (*STEPS, "dropped"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("mask", ["none", "empty rows"])
def test_right_pieces_are_the_block_itself(dtype: torch.dtype, norm_first: bool, activation: str, mask: str) -> None:
    given = 2 * normal(1, 2, 7, 15, dtype=dtype) + 1, random_block(2, 15, 11, dtype), 3, grid(mask)
    switches: dict[str, Any] = {"norm_first": norm_first, "activation": activation}
    found, expected = right.run_block(*given, **switches), run_block(*given, **switches)
    assert found.norm_first == norm_first
    assert found.x is given[0]
    same_to_the_bit(found, expected, (*expected.steps, "output"))


def test_a_block_in_pieces_is_built_as_the_block_unless_told() -> None:
    given = normal(1, 2, 7, 15), random_block(2, 15, 11), 3
    same_to_the_bit(right.run_block(*given), run_block(*given), POST_NORM)


def grid(mask: str) -> Tensor | None:
    lower = torch.ones(7, 7, dtype=torch.bool).tril()
    each = torch.stack([lower, coin(3, 7, 7)])[:, None]
    empty = lower.clone()
    empty[[0, 4]] = False  # M01
    return {"none": None, "causal": lower, "empty rows": empty, "each sequence its own": each}[mask]


def same_to_the_bit(found: Any, expected: Any, steps: tuple[str, ...]) -> None:
    for step in steps:
        ours, theirs = attrgetter(step)(found), attrgetter(step)(expected)
        assert ours.dtype == theirs.dtype, step
        assert torch.equal(ours, theirs), step


# caught


@pytest.mark.parametrize("bug", [bug for bug in BUGS if not bug.of_block], ids=lambda bug: bug.key)
def test_a_mistake_of_attention_is_caught_in_the_default_scene(bug: Bug) -> None:
    runs, pytorch = default_attention()
    ours, ours_exact = (run(pieces=bug.pieces.attention) for run in runs)
    sides = Sides(ours, pytorch[0], lambda: (ours_exact, pytorch[1]))
    verdict = sides.judge(ARITHMETIC[ATTENTION.dtype], probe_with(ATTENTION, bug.pieces))
    seen = None if bug.right else bug.first_step()
    assert first_step(verdict.probe) == seen
    if bug.key in ONLY_ON_THE_PROBE:
        seen = None
    assert first_step(verdict.maths) == first_step(verdict.arithmetic) == seen
    assert verdict.equal == bug.right


@EVERY
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_a_mistake_is_caught_in_the_default_block(bug: Bug, norm_first: bool) -> None:
    run, pytorch = default_block(norm_first)
    seen = None if bug.right or bug.key in ONLY_ON_THE_PROBE else bug.first_step(norm_first)
    assert first_step(report(run(pieces=bug.pieces), pytorch, MATHS)) == seen


@EVERY
def test_a_mistake_is_caught_on_the_probe_of_blocks(bug: Bug) -> None:
    # its norms come after, first
    assert first_step(probe_with(BLOCK, bug.pieces)) == (None if bug.right else bug.first_step(False))


@EVERY
@pytest.mark.parametrize("scene", [SMALL, SMALL_BLOCK, replace(SMALL_BLOCK, norm_first=True)], ids=str)
def test_pytorch_s_side_does_not_change(bug: Bug, scene: Scene) -> None:
    before, after = right_sides(scene), sides_with(scene, bug.pieces)
    for found, theirs in ((after.pytorch, before.pytorch), (after.exact()[1], before.exact()[1])):
        same_to_the_bit(found, theirs, theirs.steps)


@cache
def right_sides(scene: Scene) -> Sides:
    return sides_with(scene, RIGHT_BLOCK)


def test_what_looks_like_a_mistake_and_is_none_stays_green() -> None:
    # M19: with each row divided by its sum it is another way to the same weights
    bug = BY_KEY["mask-renormalised"]
    for scene in (SMALL, replace(SMALL, causal=False), replace(SMALL, num_tokens=1)):
        for found in (verify_with(scene, bug.pieces), verify_with(BlockConfig(scene), bug.pieces)):
            assert found.equal
    tokens, parameters, num_heads, allowed = hard_scene()
    allowed = allowed.clone()
    allowed[0, 0, 3] = False  # M01: a row that may attend to nothing
    given = tokens, parameters, num_heads, allowed
    assert report(right.attend(*given, bug.pieces.attention), reference.attend(*given), MATHS).equal


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_the_sides_are_those_of_the_verdict(dtype: str) -> None:
    config = replace(SMALL, dtype=dtype)
    found, expected = sides_with(config, RIGHT_BLOCK), sides_of(config)
    pairs = zip(
        (found.ours, found.pytorch, *found.exact()), (expected.ours, expected.pytorch, *expected.exact()), strict=True
    )
    for mine, theirs in pairs:
        same_to_the_bit(mine, theirs, STEPS)
    verdict = verify_with(config, RIGHT_BLOCK)
    assert verdict.maths.equal
    assert {check.tolerance for check in verdict.maths.checks if check.step != "scores"} == {MATHS}
    assert {check.tolerance for check in verdict.arithmetic.checks if check.step != "scores"} == {ARITHMETIC[dtype]}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_the_sides_of_a_block_are_built_as_it_is(norm_first: bool, activation: str) -> None:
    scene = BlockConfig(SMALL, depth=3, norm_first=norm_first, activation=activation)
    found = sides_with(scene, RIGHT_BLOCK)
    block, tokens, allowed = sample.draw_block(SMALL), sample.draw_tokens(SMALL), allowed_by(SMALL)
    expected = run_block(tokens, block, 3, allowed, **scene.switches)
    same_to_the_bit(found.ours, expected, expected.steps)
    exact = run_block(tokens.double(), block.to(torch.float64), 3, allowed, **scene.switches)
    same_to_the_bit(found.exact()[0], exact, exact.steps)
    assert verify_with(scene, RIGHT_BLOCK).equal
    assert {step.dtype for step in (found.pytorch.output, found.ours.output)} == {torch.float32}  # type: ignore[attr-defined]


def test_the_tolerance_of_the_reader_is_for_the_arithmetic_only() -> None:
    tight = Tolerance(0, 0)
    verdict = verify_with(SMALL, RIGHT_BLOCK, tight)
    assert {check.tolerance for check in verdict.arithmetic.checks} == {tight}
    assert not verdict.arithmetic.equal
    assert verdict.maths.equal
    wrong_piece = verify_with(SMALL, BY_KEY["no-scale"].pieces)
    assert [first_step(line) for line in (wrong_piece.maths, wrong_piece.arithmetic, wrong_piece.probe)] == [
        "scaled"
    ] * 3


@pytest.mark.parametrize("key", ["no-scale", "no-residual", "norm-elsewhere", "mask-not-passed"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_every_line_of_a_verdict_on_blocks_tells_a_mistake(key: str, norm_first: bool) -> None:
    bug = BY_KEY[key]
    found = verify_with(replace(SMALL_BLOCK, norm_first=norm_first), bug.pieces)
    assert first_step(found.maths) == first_step(found.arithmetic) == bug.first_step(norm_first)
    assert first_step(found.probe) == bug.first_step(False)


def test_a_step_is_shown_as_a_matrix() -> None:
    heads = torch.arange(24.0).view(1, 2, 3, 4)
    assert torch.equal(matrix(heads, 1), torch.arange(12.0, 24).view(3, 4))
    assert torch.equal(matrix(torch.arange(24.0).view(2, 3, 4), 1), torch.arange(12.0).view(3, 4))


@cache
def default_attention() -> tuple[list[Run], list[Any]]:
    """The default scene in both precisions, and PyTorch's answers."""
    tokens, parameters = draw(ATTENTION)
    rest = ATTENTION.num_heads, allowed_by(ATTENTION)
    inputs = (tokens, parameters, *rest), (tokens.double(), parameters.to(torch.float64), *rest)
    return [partial(right.attend, *given) for given in inputs], [reference.attend(*given) for given in inputs]


@cache
def exact_block() -> tuple[Tensor, BlockParameters, int, Tensor | None]:
    """The block that its page begins with, in float64."""
    tokens, block = sample.draw_tokens(ATTENTION).double(), sample.draw_block(ATTENTION).to(torch.float64)
    return tokens, block, ATTENTION.num_heads, allowed_by(ATTENTION)


@cache
def default_block(norm_first: bool) -> tuple[Run, Any]:
    given = exact_block()
    with torch.no_grad():
        answer = reference_block.run_block(*given, norm_first=norm_first, activation="gelu")
    return partial(right.run_block, *given, norm_first=norm_first), answer


# two at once


def test_two_mistakes_are_both_made_and_the_second_wins() -> None:
    for first in BUGS:
        assert joined(first, None) is first.pieces
        for second in BUGS:
            assert changed(joined(first, second)) == changed(first.pieces) | changed(second.pieces)
    scales = joined(BY_KEY["no-scale"], BY_KEY["scale-twice"])
    assert scales.attention.scale is wrong.scale_twice


@EVERY
@pytest.mark.parametrize("norm_first", [None, False, True], ids=["attention", "post-norm", "pre-norm"])
def test_of_two_mistakes_the_earlier_step_is_named(bug: Bug, norm_first: bool | None) -> None:
    for second in BUGS[BUGS.index(bug) + 1 :]:
        if (bug.of_block or second.of_block) == (norm_first is None):  # two of attention are tried without a block
            continue
        both = joined(bug, second)
        run, pytorch = small_scene(norm_first)
        ours = run(pieces=both.attention if norm_first is None else both)
        made = [second] if set(changed(bug.pieces)) == set(changed(second.pieces)) else [bug, second]
        shown = [one.first_step(norm_first) for one in made if not one.right and one.key not in ONLY_ON_THE_PROBE]
        wanted = min(shown, key=ours.steps.index) if shown else None
        assert first_step(report(ours, pytorch, MATHS)) == wanted, (bug.key, second.key)


@cache
def small_scene(norm_first: bool | None) -> tuple[Run, Any]:
    lower, tokens = torch.ones(7, 7, dtype=torch.bool).tril(), normal(1, 2, 7, 15)
    with torch.no_grad():
        if norm_first is None:
            alone = tokens, random_parameters(2, 15), 3, lower
            return partial(right.attend, *alone), reference.attend(*alone)
        given = tokens, random_block(2, 15, 11), 3, lower
        answer = reference_block.run_block(*given, norm_first=norm_first, activation="gelu")
    return partial(right.run_block, *given, norm_first=norm_first), answer


# wrong pieces by hand


def rows(*values: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype)


FULL = torch.ones(2, 2, dtype=torch.bool)
CAUSAL = FULL.tril()
NONE = rows([0, 0], [0, 0])


def test_softmax_without_its_maximum_overflows() -> None:
    # N07
    nan = math.nan
    for scores, dtype in (
        ([88.0, 89.0], torch.float32),
        ([11.0, 12.0], torch.float16),
        ([709.0, 710.0], torch.float64),
    ):
        given = rows(scores, dtype=dtype)
        assert_close(wrong.plain_softmax(given, given, FULL), rows([0, nan], dtype=dtype), equal_nan=True)
        expected = rows([0.268941, 0.731059], dtype=dtype)
        assert_close(softmax(given), expected, atol=1e-6, rtol=1e-3)
    huge = rows([1000, 1001], dtype=torch.float32)
    assert wrong.plain_softmax(huge, huge, FULL).isnan().all()
    small = rows([10, 11], [0, math.log(3)])
    assert_close(wrong.plain_softmax(small, small, FULL), rows([0.26894142, 0.73105858], [0.25, 0.75]))


def test_scores_scaled_by_something_else() -> None:
    # N18: of a width of 4 in 9 heads
    scores = rows([12, -6])
    assert_close(right.scale(scores, 4, 9), rows([6, -3]))
    assert_close(wrong.no_scale(scores, 4, 9), rows([12, -6]))
    assert_close(wrong.scale_by_embed_dim(scores, 4, 9), rows([2, -1]))
    assert_close(wrong.scale_twice(scores, 4, 9), rows([3, -1.5]))


def test_softmax_over_queries_makes_columns_of_sum_one() -> None:
    # N21
    masked = rows([0, -math.inf], [0, 0])
    assert_close(wrong.softmax_over_queries(masked, NONE, CAUSAL), rows([0.5, 0], [0.5, 1]))
    one_query = rows([3, 5])
    assert_close(wrong.softmax_over_queries(one_query, one_query, FULL[:1]), rows([1, 1]))
    nobody_asks = rows([-math.inf, 0], [-math.inf, 0])
    assert_close(wrong.softmax_over_queries(nobody_asks, NONE, FULL), rows([0, 0.5], [0, 0.5]))


def test_norms_by_another_variance() -> None:
    # N11
    one, zero = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    row = rows([1, 0, 0, 0])
    third = 3**-0.5
    assert_close(layer_norm(row, one, zero), rows([1.7320, -0.57733, -0.57733, -0.57733]), atol=1e-5, rtol=1e-4)
    unbiased = wrong.norm_by_unbiased_variance(row, one, zero)
    assert_close(unbiased, rows([0.75, -0.25, -0.25, -0.25]) / (0.5 + 1e-5))
    assert_close(unbiased, rows([1.5, -0.5, -0.5, -0.5]), rtol=1e-4, atol=0)  # of which eps takes 2e-5
    assert_close(wrong.norm_with_small_eps(row, one, zero), rows([3 * third, -third, -third, -third]))
    scaled = wrong.norm_by_unbiased_variance(row, 2 * one, one)
    assert_close(scaled, 2 * unbiased + 1)
    # a variance of 1e-6: eps of 1e-5 makes a third of it, 1e-12 nothing
    faint = rows([1e-3, -1e-3, 1e-3, -1e-3])
    assert_close(layer_norm(faint, one, zero), rows([1, -1, 1, -1]) / math.sqrt(11))
    assert_close(wrong.norm_with_small_eps(faint, one, zero), rows([1, -1, 1, -1]), atol=1e-6, rtol=0)
    assert wrong.no_norm(row, 2 * one, one) is row
    alone = wrong.norm_by_unbiased_variance(rows([5]), one[:1], 7 * one[:1])  # one number has no variance over n − 1
    assert_close(alone, rows([7]))


def test_masks_that_hide_something_else() -> None:
    inf = math.inf
    scaled = rows([1, 2, 3], [4, 5, 6], [7, 8, 9])
    lower = torch.ones(3, 3, dtype=torch.bool).tril()
    assert_close(right.mask(scaled, lower), rows([1, -inf, -inf], [4, 5, -inf], [7, 8, 9]))
    # M05
    assert_close(wrong.mask_inverted(scaled, lower), rows([-inf, 2, 3], [-inf, -inf, 6], [-inf, -inf, -inf]))
    # M16
    assert_close(wrong.mask_off_by_one(scaled, lower), rows([1, 2, -inf], [4, 5, 6], [7, 8, 9]))
    window = torch.tensor([[False, True, False], [True, False, False], [False, False, True]])
    assert_close(wrong.mask_off_by_one(scaled, window), rows([-inf, 2, 3], [4, 5, -inf], [-inf, -inf, 9]))
    # M06
    assert_close(wrong.mask_of_upper_triangle(scaled, lower), rows([1, 2, 3], [-inf, 5, 6], [-inf, -inf, 9]))
    # M18
    assert_close(wrong.masked_scores_zero(scaled, lower), rows([1, 0, 0], [4, 5, 0], [7, 8, 9]))


def test_scores_of_zero_give_the_future_its_share() -> None:
    # M18: of four keys three are ahead of the first query
    scaled, lower = torch.zeros(4, 4, dtype=torch.float64), torch.ones(4, 4, dtype=torch.bool).tril()
    weights = torch.softmax(wrong.masked_scores_zero(scaled, lower), dim=-1)
    assert_close(weights[0, 1:].sum().item(), 0.75)


def test_ten_thousand_fits_every_dtype_and_is_no_infinity() -> None:
    # N09
    for dtype in DTYPES:
        masked = wrong.masked_by_ten_thousand(NONE.to(dtype), CAUSAL)
        assert masked.dtype == dtype
        assert masked.isfinite().all()
        assert_close(masked.double(), rows([0, -1e4], [0, 0]), rtol=4e-3, atol=0)
    shifted = wrong.masked_by_ten_thousand(rows([1, 2], [3, 4]), CAUSAL)
    assert_close(shifted, rows([1, 2 - 1e4], [3, 4]))


def test_a_mask_after_the_softmax_takes_from_the_rows() -> None:
    # M19
    assert_close(wrong.softmax_then_mask(NONE, NONE, CAUSAL), rows([0.5, 0], [0.5, 0.5]))
    assert_close(wrong.softmax_then_mask_then_renormalise(NONE, NONE, CAUSAL), rows([1, 0], [0.5, 0.5]))
    scaled = rows([0, math.log(3)], [0, math.log(3)])
    assert_close(wrong.softmax_then_mask(NONE, scaled, CAUSAL), rows([0.25, 0], [0.25, 0.75]))
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert_close(wrong.softmax_then_mask_then_renormalise(NONE, scaled, nothing), NONE)  # M01


def test_heads_of_other_numbers() -> None:
    # S01
    x = torch.arange(8.0).view(1, 2, 4)
    first = {right.RIGHT.split: [[0, 1], [4, 5]], wrong.split_by_view: [[0, 1], [2, 3]],
             wrong.split_interleaved: [[0, 2], [4, 6]]}  # fmt: skip
    second = {right.RIGHT.split: [[2, 3], [6, 7]], wrong.split_by_view: [[4, 5], [6, 7]],
              wrong.split_interleaved: [[1, 3], [5, 7]]}  # fmt: skip
    for split, head in first.items():
        assert split(x, 2)[0].tolist() == [head, second[split]]
    context = torch.arange(4.0).view(1, 2, 2, 1)
    assert right.merge(context)[0].tolist() == [[0, 2], [1, 3]]
    assert wrong.merge_by_view(context)[0].tolist() == [[0, 1], [2, 3]]


def test_q_k_and_v_taken_for_one_another() -> None:
    q, k, v = rows([1], [2]), rows([3], [5]), rows([7], [8])
    assert right.score(q, k).tolist() == [[3, 5], [6, 10]]
    assert wrong.keys_ask(q, k).tolist() == [[3, 6], [5, 10]]
    assert right.values(q, k, v) is v
    assert wrong.keys_for_values(q, k, v) is k


def test_projections_with_something_missing() -> None:
    x, weight, bias = rows([1, 10])[None], rows([1, 2], [3, 4]), torch.tensor([100.0, 200.0], dtype=torch.float64)
    assert project(x, weight, bias).tolist() == [[[121, 243]]]
    assert wrong.without_bias(x, weight, bias).tolist() == [[[21, 43]]]
    assert wrong.weight_not_transposed(x, weight, bias).tolist() == [[[131, 242]]]  # S05
    assert wrong.no_projection(x, weight, bias) is x


def test_heads_are_averaged_where_each_was_meant() -> None:
    # S10
    weights = torch.stack([rows([1, 0]), rows([0, 1]), rows([0.5, 0.5]), rows([0.1, 0.9])])[None]
    averaged = wrong.averaged_over_heads(weights, FULL)
    assert averaged.shape == weights.shape
    for head in range(4):
        assert_close(averaged[0, head], rows([0.4, 0.6]))


def test_dropout_left_on_drops_the_same_on_each_run() -> None:
    # N15, N17: at random, and yet a verdict does not change from one look to the next
    weights, state = torch.ones(1, 2, 50, 50, dtype=torch.float64), torch.get_rng_state()
    first = wrong.dropout_left_on(weights, FULL)
    torch.rand(3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(wrong.dropout_left_on(weights, FULL), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert sorted(first.unique().tolist()) == pytest.approx([0, 1 / 0.9])
    assert (first == 0).double().mean().item() == pytest.approx(0.1, abs=0.02)
    bug = BY_KEY["dropout-on"]
    verdicts = [verify_with(SMALL, bug.pieces).maths for _ in range(2)]
    assert verdicts[0] == verdicts[1]
    trace = right.attend(*hard_scene(), bug.pieces.attention)
    assert torch.equal(trace.dropped @ trace.v, trace.context)
    assert not torch.equal(trace.dropped, trace.weights)
    # what is shown as the weights are those before it
    assert [check.step for check in verdicts[0].checks if not check.equal] == ["context", "merged", "output"]


def test_activations_that_were_not_asked_for() -> None:
    x = torch.linspace(-8, 8, 201, dtype=torch.float64)
    assert_close(wrong.gelu_by_tanh(x, "gelu"), F.gelu(x, approximate="tanh"), rtol=1e-12, atol=1e-14)
    assert torch.equal(wrong.gelu_by_tanh(x, "relu"), F.relu(x))
    apart = (wrong.gelu_by_tanh(x, "gelu") - F.gelu(x)).abs().max().item()
    assert 4e-4 < apart < 5e-4  # as the catalogue says
    for asked in ("gelu", "relu"):
        assert torch.equal(wrong.always_relu(x, asked), F.relu(x))


def test_pieces_of_a_block_that_do_less() -> None:
    stream, branch = rows([1, 2]), rows([10, 20])
    assert right.add(stream, branch).tolist() == [[11, 22]]
    assert wrong.no_residual(stream, branch) is branch
    assert wrong.mask_not_passed(CAUSAL) is None  # M11
    assert right.pass_on(CAUSAL) is CAUSAL
    assert [wrong.norm_elsewhere(first) for first in (True, False)] == [False, True]  # S20
    assert [right.place(first) for first in (True, False)] == [True, False]


def test_what_only_shows_on_the_probe_is_no_number_there() -> None:
    # N03: infinity over infinity is told as such
    found = probe_with(ATTENTION, BY_KEY["plain-softmax"].pieces).first_difference
    assert found is not None
    assert found.outcome is Outcome.DIFFERS
    assert "NaN in ours, none in PyTorch's" in found.reason
