"""The verdict on one head: both lines, the probe, and the first step of a wrong head."""

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from attention import masks, reference, single_head
from attention.compare import Outcome, Tolerance
from attention.config import MAX_SEED, AttentionConfig
from attention.multi_head import allowed_by
from attention.scaled_dot_product import scaled_dot_product
from attention.single_head import STEPS, HeadTrace, SelfAttention
from attention.verify import ARITHMETIC, MATHS, report
from attention.verify_head import MAX_WIDTH, HeadConfig, attend_as_configured, draw, probe, verify_head

SMALL = HeadConfig(AttentionConfig(embed_dim=11, num_heads=1, num_tokens=5), 3, 7)
RIGHT = scaled_dot_product


@pytest.fixture(autouse=True)
def no_probe_is_kept() -> Iterator[None]:
    """A probe of a faulty library must not be what the next test is told."""
    probe.cache_clear()
    yield
    probe.cache_clear()


@st.composite
def configs(draw: st.DrawFn, dtypes: tuple[str, ...]) -> HeadConfig:
    scene = AttentionConfig(
        embed_dim=draw(st.integers(1, 48)),
        num_heads=1,
        num_tokens=draw(st.integers(1, 12)),
        seed=draw(st.integers(0, MAX_SEED)),
        causal=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
    )
    return HeadConfig(scene, draw(st.integers(1, 24)), draw(st.integers(1, 24)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_scene_of_the_source_is_equal(dtype: str, causal: bool) -> None:
    # 256 wide tokens, five of them; q and k 64 wide, v 256
    scene = AttentionConfig(embed_dim=256, num_heads=1, num_tokens=5, seed=42, causal=causal, dtype=dtype)
    verdict = verify_head(HeadConfig(scene, head_dim=64, value_dim=256))
    assert verdict.maths.equal
    assert verdict.probe.equal
    if dtype in ("float64", "float32"):
        assert verdict.equal
    for line, steps in ((verdict.maths, STEPS), (verdict.arithmetic, STEPS), (verdict.probe, STEPS * 2)):
        assert tuple(check.step for check in line.checks) == steps


@given(configs(("float64", "float32")))
def test_correct_code_is_equal_in_both_lines(config: HeadConfig) -> None:
    # N01, S15: no false alarm
    verdict = verify_head(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.arithmetic.equal, verdict.arithmetic.first_difference
    assert verdict.equal


@given(configs(("bfloat16", "float16")))
def test_the_maths_is_equal_whatever_half_precision_rounds(config: HeadConfig) -> None:
    verdict = verify_head(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    for distance in verdict.distances:
        assert max(distance.ours, distance.pytorch) < 0.5


def test_a_scene_has_the_trace_of_its_own_draws() -> None:
    tokens, weights = draw(SMALL)
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == {
        "w_q.weight": (3, 11),
        "w_k.weight": (3, 11),
        "w_v.weight": (7, 11),
    }
    module = SelfAttention(11, 3, 7)
    module.load_state_dict(weights)
    expected = module.trace(tokens, allowed_by(SMALL.scene))
    found = attend_as_configured(SMALL)
    for step in STEPS:
        assert torch.equal(getattr(found, step), getattr(expected, step)), step
        assert not getattr(found, step).requires_grad
    assert found.weights.triu(1).eq(0).all()
    assert attend_as_configured(replace(SMALL, scene=replace(SMALL.scene, causal=False))).weights.ne(0).all()


def test_another_dtype_is_the_same_scene() -> None:
    # R08
    double = attend_as_configured(SMALL, torch.float64)
    assert double.q.dtype is torch.float64
    assert_close(double.context, attend_as_configured(SMALL).context.double(), rtol=0, atol=1e-5)
    exact = attend_as_configured(replace(SMALL, scene=replace(SMALL.scene, dtype="float64")))
    assert torch.equal(double.context, exact.context)


def test_the_probe_is_a_scene_that_hides_nothing() -> None:
    checks = {check.step: check for check in probe().checks}
    assert probe().equal
    assert probe() is probe()
    sizes = {checks["q"].shape[-1], checks["v"].shape[-1], checks["q"].shape[-2]}
    assert len(sizes) == 3
    assert min(sizes) > 1
    assert {check.tolerance.rtol for check in checks.values()} == {MATHS.rtol}


Wrong = Callable[[Tensor, Tensor, Tensor, Tensor, object], Any]
FAULTS: dict[str, tuple[Wrong, str]] = {
    "N18 scaled by the width of the values": (lambda q, k, v, a, _: RIGHT(q * (3 / 7) ** 0.5, k, v, a), "scores"),
    "M05 mask inverted": (lambda q, k, v, a, _: RIGHT(q, k, v, ~a), "masked"),
    "M16 hides the token itself": (lambda q, k, v, a, _: RIGHT(q, k, v, a.tril(-1)), "masked"),
    "M17 no mask": (lambda q, k, v, a, _: RIGHT(q, k, v), "masked"),
    "values the other way round": (lambda q, k, v, a, _: RIGHT(q, k, v.flip(2), a), "context"),
    "q and k swapped": (lambda q, k, v, a, _: RIGHT(k, q, v, a), "scores"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_head_is_caught_where_it_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, step = FAULTS[fault]
    monkeypatch.setattr(single_head, "scaled_dot_product", wrong)
    verdict = verify_head(SMALL)
    for line in (verdict.maths, verdict.arithmetic, verdict.probe):
        assert line.first_difference is not None
        assert line.first_difference.step == step


@pytest.mark.parametrize("name", ["w_q", "w_k", "w_v"])
def test_a_dropped_bias_is_caught_by_the_probe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the scene itself has none
    right = single_head.attend_one

    def wrong(x: Tensor, layers: Any, *rest: Any) -> HeadTrace:
        copies = deepcopy(layers)  # the numbers themselves are PyTorch's too
        layer = copies["qkv".index(name[-1])]
        if layer.bias is not None:
            layer.bias.zero_()
        return right(x, copies, *rest)

    monkeypatch.setattr(single_head, "attend_one", wrong)
    verdict = verify_head(SMALL)
    assert verdict.maths.equal
    assert verdict.probe.first_difference is not None
    assert verdict.probe.first_difference.step == name[-1]
    assert not verdict.equal


@pytest.mark.parametrize("step", STEPS)
def test_a_trace_that_is_handed_over_is_the_one_that_is_judged(step: str) -> None:
    good = attend_as_configured(SMALL)
    assert verify_head(SMALL, ours=good) == verify_head(SMALL)
    verdict = verify_head(SMALL, ours=replace(good, **{step: getattr(good, step) + 0.01}))
    assert verdict.arithmetic.first_difference is not None
    assert verdict.arithmetic.first_difference.step == step
    assert verdict.maths.equal
    assert not verdict.equal


def test_the_tolerance_of_the_reader_is_for_the_arithmetic_only() -> None:
    exact = Tolerance(rtol=0.0, atol=0.0)
    verdict = verify_head(SMALL, exact)
    assert {check.tolerance for check in verdict.arithmetic.checks} == {exact}
    assert verdict.maths.equal
    assert verify_head(SMALL).arithmetic.checks[0].tolerance == ARITHMETIC["float32"]
    # N27
    wide = verify_head(SMALL, Tolerance(rtol=0.0, atol=1e3)).arithmetic.first_difference
    assert wide is not None
    assert wide.outcome is Outcome.CANNOT_TELL


def test_distances_are_those_from_the_float64_answer() -> None:
    ours, exact = attend_as_configured(SMALL), attend_as_configured(SMALL, torch.float64)
    distances = verify_head(SMALL).distances
    assert tuple(distance.step for distance in distances) == STEPS
    for distance in distances:
        apart = (getattr(ours, distance.step).double() - getattr(exact, distance.step)).nan_to_num(0.0).abs().max()
        assert distance.ours == pytest.approx(apart.item(), rel=1e-6, abs=1e-12)
        assert 0 < distance.pytorch < 1e-5


@given(st.integers(0, 10**6))
def test_rows_that_may_attend_to_nothing_are_equal(seed: int) -> None:
    # M01
    tokens, weights = draw(SMALL)
    module = SelfAttention(11, 3, 7)
    module.load_state_dict(weights)
    allowed = torch.rand(5, 5, generator=torch.Generator().manual_seed(seed)) < 0.5
    allowed[2] = False
    found = report(module.trace(tokens, allowed), reference.attend_one(tokens, weights, allowed), ARITHMETIC["float32"])
    assert found.equal, found.first_difference


def test_no_mask_is_the_full_mask() -> None:
    tokens, weights = draw(SMALL)
    none, full = (reference.attend_one(tokens, weights, allowed) for allowed in (None, masks.grid(masks.full, 5)))
    for step in STEPS:
        assert torch.equal(getattr(none, step), getattr(full, step)), step


def test_nothing_else_is_touched() -> None:
    # R07, X03: neither the random state nor the default dtype nor the mode of gradients is read or changed
    before = torch.get_rng_state()
    expected = verify_head(SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    torch.set_default_dtype(torch.float64)
    try:
        probe.cache_clear()
        assert verify_head(SMALL) == expected
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("widths", "said"),
    [
        ((0, 3), f"head_dim is 0; it must be from 1 to {MAX_WIDTH}."),
        ((3, 1025), f"value_dim is 1025; it must be from 1 to {MAX_WIDTH}."),
        ((2.0, 3), "head_dim is 2.0; it must be a whole number."),
        ((2, True), "value_dim is True; it must be a whole number."),
    ],
)
def test_widths_that_are_none_are_refused(widths: tuple[Any, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        HeadConfig(SMALL.scene, *widths)
    assert hash(SMALL) == hash(replace(SMALL))  # it keys a cache
