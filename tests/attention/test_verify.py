"""The verdict: both lines, the probe, the distances, and the first step that differs."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import reference
from attention.compare import Outcome, Tolerance
from attention.config import DTYPES, MAX_SEED, AttentionConfig, head_counts
from attention.multi_head import STEPS, attend, attend_as_configured, draw
from attention.verify import ARITHMETIC, MATHS, probe, report, verify
from tests.attention.scenes import coin, hard_scene, hard_trace

SMALL = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)


@st.composite
def configs(draw: st.DrawFn, dtypes: tuple[str, ...]) -> AttentionConfig:
    embed_dim = draw(st.integers(1, 48))
    return AttentionConfig(
        embed_dim=embed_dim,
        num_heads=draw(st.sampled_from(head_counts(embed_dim))),
        num_tokens=draw(st.integers(1, 12)),
        seed=draw(st.integers(0, MAX_SEED)),
        causal=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_the_first_scene_is_equal(dtype: str) -> None:
    verdict = verify(AttentionConfig(dtype=dtype))
    assert verdict.maths.equal
    assert verdict.probe.equal
    if dtype in ("float64", "float32"):
        assert verdict.arithmetic.equal
        assert verdict.equal
    for line, steps in ((verdict.maths, STEPS), (verdict.arithmetic, STEPS), (verdict.probe, STEPS * 2)):
        assert tuple(check.step for check in line.checks) == steps


@settings(max_examples=150)
@given(configs(("float64", "float32")))
def test_correct_code_is_equal_in_both_lines(config: AttentionConfig) -> None:
    # N01: no false alarm
    verdict = verify(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.arithmetic.equal, verdict.arithmetic.first_difference
    assert verdict.equal


@given(configs(("bfloat16", "float16")))
def test_the_maths_is_equal_whatever_half_precision_rounds(config: AttentionConfig) -> None:
    verdict = verify(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.equal == verdict.arithmetic.equal
    # a difference of arithmetic is rounding: neither side is far from the float64 answer
    for distance in verdict.distances:
        assert max(distance.ours, distance.pytorch) < 0.5


# S15: extremes that are all valid
@pytest.mark.parametrize(("embed_dim", "num_heads"), [(8, 8), (8, 1), (1, 1)])
@pytest.mark.parametrize("num_tokens", [1, 5])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_extremes_are_equal(embed_dim: int, num_heads: int, num_tokens: int, causal: bool, dtype: str) -> None:
    config = AttentionConfig(
        embed_dim=embed_dim, num_heads=num_heads, num_tokens=num_tokens, causal=causal, dtype=dtype
    )
    assert verify(config).equal


@given(st.integers(0, 10**6), st.sampled_from([(7, 7), (2, 1, 7, 7), (1, 3, 7, 7), (2, 3, 7, 7)]), st.booleans())
def test_any_mask_is_equal(seed: int, shape: tuple[int, ...], empty: bool) -> None:
    # M01, M02, M22, M31: for each sequence, for each head, and with rows that may attend to nothing
    tokens, parameters, num_heads, _ = hard_scene()
    allowed = coin(seed, *shape)
    allowed.view(-1, 7)[seed % 7] = not empty
    scene = tokens, parameters, num_heads, allowed
    found = report(attend(*scene), reference.attend(*scene), MATHS)
    assert found.equal, found.first_difference


def test_the_probe_is_a_scene_that_hides_nothing() -> None:
    checks = {check.step: check for check in probe().checks}
    assert probe().equal
    assert probe() is probe()  # worked out once
    batch, num_heads, num_tokens, head_dim = checks["q"].shape
    assert len({batch, num_heads, num_tokens, head_dim}) == 4
    assert min(batch, num_heads, num_tokens, head_dim) > 1
    assert {check.tolerance.rtol for check in checks.values()} == {MATHS.rtol}


def test_distances_are_those_from_the_float64_answer() -> None:
    verdict = verify(SMALL)
    assert tuple(distance.step for distance in verdict.distances) == STEPS
    ours, exact = attend_as_configured(SMALL), attend_as_configured(replace(SMALL, dtype="float64"))
    for distance in verdict.distances:
        apart = (getattr(ours, distance.step).double() - getattr(exact, distance.step)).nan_to_num(0.0).abs().max()
        assert distance.ours == pytest.approx(apart.item(), rel=1e-6, abs=1e-12)
        assert 0 < distance.ours < 1e-5
        assert 0 < distance.pytorch < 1e-5
    for distance in verify(replace(SMALL, dtype="float64")).distances:
        assert 0 <= distance.ours < 1e-13
        assert distance.pytorch == 0  # the answer is PyTorch's own


@pytest.mark.parametrize("step", STEPS)
def test_the_first_difference_is_the_step_that_was_corrupted(step: str) -> None:
    good, pytorch = hard_trace(), reference.attend(*hard_scene())
    assert report(good, pytorch, MATHS).first_difference is None
    place = (1, *([2] * (getattr(good, step).ndim - 1)))
    wrong = getattr(good, step).clone()
    wrong[place] += 1e-3
    found = report(replace(good, **{step: wrong}), pytorch, MATHS)
    assert not found.equal
    assert found.first_difference is not None
    assert (found.first_difference.step, found.first_difference.worst) == (step, place)
    assert [check.step for check in found.checks if not check.equal] == [step]
    # with another fault after it, it is still the first
    both = report(replace(good, **{"output": good.output + 1, step: wrong}), pytorch, MATHS)
    assert both.first_difference is not None
    assert both.first_difference.step == step


def test_scores_get_root_d_times_the_atol() -> None:
    tolerance = Tolerance(rtol=1e-4, atol=1e-3)
    good, pytorch = hard_trace(), reference.attend(*hard_scene())
    allowed = {check.step: check.tolerance for check in report(good, pytorch, tolerance).checks}
    assert allowed.pop("scores") == Tolerance(rtol=1e-4, atol=math.sqrt(5) * 1e-3)
    assert set(allowed.values()) == {tolerance}


def test_the_tolerance_of_the_reader_is_for_the_arithmetic_only() -> None:
    exact = Tolerance(rtol=0.0, atol=0.0)
    verdict = verify(SMALL, exact)
    assert {check.tolerance for check in verdict.arithmetic.checks} == {exact}
    assert not verdict.arithmetic.equal  # two orders of rounding are not the same to the last bit
    assert verdict.maths.equal
    assert not verdict.equal
    assert verify(SMALL).arithmetic.checks[0].tolerance == ARITHMETIC["float32"]
    # N27: under an atol above every number zeros would pass
    too_wide = verify(SMALL, Tolerance(rtol=0.0, atol=1e3)).arithmetic.first_difference
    assert too_wide is not None
    assert too_wide.outcome is Outcome.CANNOT_TELL


def test_a_verdict_is_equal_if_all_three_are() -> None:
    good = verify(SMALL)
    bad = report(replace(hard_trace(), output=hard_trace().output + 1), reference.attend(*hard_scene()), MATHS)
    assert good.equal
    assert not bad.equal
    assert not replace(good, maths=bad).equal
    assert not replace(good, arithmetic=bad).equal
    assert not replace(good, probe=bad).equal


@pytest.mark.parametrize("dtype", list(ARITHMETIC))
def test_default_tolerances_are_those_of_assert_close(dtype: str) -> None:
    one = torch.ones(1, dtype=DTYPES[dtype])
    with pytest.raises(AssertionError) as told:
        torch.testing.assert_close(2 * one, one)
    assert f"up to {ARITHMETIC[dtype].atol} allowed" in str(told.value)
    assert f"up to {ARITHMETIC[dtype].rtol} allowed" in str(told.value)


def test_a_trace_that_is_handed_over_is_the_one_that_is_judged() -> None:
    good = attend_as_configured(SMALL)
    assert verify(SMALL, ours=good) == verify(SMALL)
    verdict = verify(SMALL, ours=replace(good, weights=good.weights + 0.01))
    assert verdict.arithmetic.first_difference is not None
    assert verdict.arithmetic.first_difference.step == "weights"
    assert verdict.maths.equal  # the equation itself is not at fault
    assert max(d.ours for d in verdict.distances if d.step == "weights") == pytest.approx(0.01, rel=1e-3)
    assert not verdict.equal


def test_inputs_that_are_handed_over_are_the_ones_that_are_used() -> None:
    others = replace(SMALL, seed=SMALL.seed + 1)
    assert verify(SMALL, inputs=draw(SMALL)) == verify(SMALL)
    assert verify(SMALL, inputs=draw(others)) == verify(others)
    assert verify(SMALL) != verify(others)
    # a trace of other inputs is not PyTorch's answer to these
    mixed = verify(SMALL, ours=attend_as_configured(others), inputs=draw(SMALL)).arithmetic.first_difference
    assert mixed is not None
    assert mixed.step == "q"


def test_another_dtype_does_not_pass_for_the_one_on_screen() -> None:
    # N06
    verdict = verify(SMALL, ours=attend_as_configured(replace(SMALL, dtype="float64")))
    assert {check.outcome for check in verdict.arithmetic.checks} == {Outcome.DIFFERS}
    assert verdict.arithmetic.checks[0].reason == "dtype float64, expected float32; after a cast the values match"


def test_no_gradient_is_recorded_and_the_mode_is_left_as_it_was() -> None:
    assert torch.is_grad_enabled()
    verify(SMALL)
    assert torch.is_grad_enabled()


def test_the_thread_count_flips_no_verdict() -> None:
    # N25
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert verify(AttentionConfig(embed_dim=256, num_heads=8, num_tokens=64)).equal
    finally:
        torch.set_num_threads(before)
