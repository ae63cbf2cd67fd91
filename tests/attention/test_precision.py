"""Four dtypes: distances against PyTorch called directly, budgets that faults exceed, allclose as it says itself."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention import masks, multi_head, precision, reference, sample, scaled_dot_product
from attention.compare import Outcome, Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.layer_norm import EPS, layer_norm
from attention.multi_head import STEPS
from attention.precision import Needed, budget, closeness, errors, measure, pass_rates, smallest_atol
from attention.verify import ARITHMETIC, verify

SMALL: Final = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
SCENES: Final = (
    SMALL,
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=1),
    AttentionConfig(embed_dim=1, num_heads=1, num_tokens=7, seed=3),
    AttentionConfig(embed_dim=7, num_heads=7, num_tokens=1, causal=False),
    AttentionConfig(embed_dim=7, num_heads=7, num_tokens=11, causal=False, seed=2**32 - 1),
    AttentionConfig(embed_dim=64, num_heads=1, num_tokens=33, seed=5),
)
HALF: Final = ("bfloat16", "float16")


def scene(config: AttentionConfig, dtype: torch.dtype, loud: int = 1) -> tuple[Any, ...]:
    """Tokens, parameters, heads and mask; drawn in that very dtype."""
    drawn = replace(config, dtype=str(dtype).removeprefix("torch."))
    tokens, parameters = sample.draw_tokens(drawn) * loud, sample.draw_parameters(drawn)
    allowed = masks.grid(masks.causal, config.num_tokens) if config.causal else None
    return tokens, parameters, config.num_heads, allowed


def module_output(config: AttentionConfig, dtype: torch.dtype, upcast: bool) -> Tensor:
    """`nn.MultiheadAttention` itself, on what the dtype holds, cast up or not."""
    tokens, p, heads, allowed = scene(config, dtype)
    wanted = torch.float64 if upcast else dtype
    module = nn.MultiheadAttention(config.embed_dim, heads, batch_first=True, device="meta", dtype=wanted)
    state = {
        "in_proj_weight": torch.cat([p.w_q, p.w_k, p.w_v]),
        "in_proj_bias": torch.cat([p.b_q, p.b_k, p.b_v]),
        "out_proj.weight": p.w_o,
        "out_proj.bias": p.b_o,
    }
    module.load_state_dict({name: x.to(wanted) for name, x in state.items()}, assign=True)
    x = tokens.to(wanted)
    blocked = None if allowed is None else ~allowed
    output: Tensor = module(x, x, x, attn_mask=blocked, average_attn_weights=False)[0].detach()
    return output


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_distances_are_those_from_the_module_in_float64_on_the_same_numbers(config: AttentionConfig) -> None:
    found = {(one.dtype, one.step): one for one in errors(config)}
    assert list(found) == [(dtype, step) for dtype in DTYPES for step in STEPS]
    for name, dtype in DTYPES.items():
        answer = module_output(config, dtype, upcast=True)
        tokens, parameters, heads, allowed = scene(config, dtype)
        with torch.no_grad():
            ours = multi_head.attend(tokens, parameters, heads, allowed).output
        one = found[name, "output"]
        tiny = 64 * torch.finfo(torch.float64).eps * answer.abs().max().item()
        assert one.ours == pytest.approx((ours.double() - answer).abs().max().item(), abs=tiny)
        if name == "float64":
            assert one.pytorch == 0
        else:
            pytorch = (module_output(config, dtype, upcast=False).double() - answer).abs().max().item()
            # another path of the same module: as far off, give or take the roundings of one number
            assert one.pytorch == pytest.approx(pytorch, abs=4 * torch.finfo(dtype).eps * answer.abs().max().item())


@pytest.mark.parametrize("config", SCENES, ids=str)
def test_correct_code_keeps_every_budget(config: AttentionConfig) -> None:  # N01
    assert [one for one in errors(config) if not one.kept] == []
    assert all(report.equal for report in measure(config)[0].maths)


def test_the_dtype_of_the_scene_is_not_asked() -> None:
    assert len({errors(replace(SMALL, dtype=dtype)) for dtype in DTYPES}) == 1


def test_a_scene_drawn_once_and_cast_is_the_scene_drawn_in_that_dtype() -> None:  # R08
    for name, dtype in DTYPES.items():
        tokens, parameters = multi_head.draw(replace(SMALL, dtype="float32"))
        other, others = multi_head.draw(replace(SMALL, dtype=name))
        assert torch.equal(tokens.to(dtype), other)
        assert all(torch.equal(x, vars(others)[key]) for key, x in vars(parameters.to(dtype)).items())


def test_tiles_are_one_head_and_how_far_it_is_off() -> None:
    _, tiles = measure(SMALL, head=2)
    for (_, dtype), weights, off, most in zip(DTYPES.items(), tiles.weights, tiles.off, tiles.furthest, strict=True):
        tokens, parameters, heads, allowed = scene(SMALL, dtype)
        with torch.no_grad():
            right = multi_head.attend(tokens, parameters, heads, allowed).weights[0, 2]
            answer = reference.attend(tokens.double(), parameters.to(torch.float64), heads, allowed).weights[0, 2]
        assert torch.equal(weights, right)
        torch.testing.assert_close(off * torch.finfo(dtype).eps, right.double() - answer, rtol=1e-12, atol=0)
        assert most == (right.double() - answer).abs().max().item()
        assert weights.untyped_storage().nbytes() == weights.nbytes, "no other head is kept alive"


# Budgets -------------------------------------------------------------------------------------------------------------


def test_a_budget_by_hand() -> None:
    answer = torch.tensor([2.0, -4.0], dtype=torch.float64)
    eps = torch.finfo(torch.float32).eps
    ours, pytorch = torch.tensor([2.0 + 8 * eps, -4.0]), torch.tensor([2.0 + 2 * eps, -4.0])
    found = budget("q", ours, pytorch, answer)
    assert (found.dtype, found.step) == ("float32", "q")
    assert (found.ours, found.pytorch, found.apart) == (8 * eps, 2 * eps, 6 * eps)
    assert found.limit == 2 * (2 * eps) + precision.ROUNDINGS * eps * 4
    assert found.kept == (8 * eps <= found.limit)
    assert budget("attention.weights", ours, pytorch, answer).limit == 4 * eps + precision.AFTER_SOFTMAX * eps * 4


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_no_number_is_infinitely_far(wrong: float) -> None:
    right = torch.tensor([1.0, -math.inf], dtype=torch.float64)
    assert budget("masked", right.float(), right.float(), right).ours == 0, "equal infinities are no distance"
    found = budget("masked", torch.tensor([wrong, -math.inf]), right.float(), right)
    assert found.ours == math.inf
    assert not found.kept
    # and a number where there should be none
    assert not budget("masked", torch.tensor([1.0, 5.0]), right.float(), right).kept


def one_pass(x: Tensor) -> Tensor:
    """A softmax that does not take off the row's maximum."""
    raised = x.exp()
    return raised / raised.sum(dim=-1, keepdim=True)


def test_a_softmax_in_one_pass_is_over_budget(monkeypatch: pytest.MonkeyPatch) -> None:  # N07
    config = AttentionConfig(embed_dim=16, num_heads=1, num_tokens=9, causal=False, seed=2)

    def found(dtype: torch.dtype) -> precision.Budget:
        tokens, parameters, heads, allowed = scene(config, dtype, loud=8)
        with torch.no_grad():
            ours = multi_head.attend(tokens, parameters, heads, allowed)
            pytorch = reference.attend(tokens, parameters, heads, allowed)
            exact = reference.attend(tokens.double(), parameters.to(torch.float64), heads, allowed)
        return budget("weights", ours.weights, pytorch.weights, exact.weights)

    assert all(found(dtype).kept for dtype in DTYPES.values())
    monkeypatch.setattr("attention.scaled_dot_product.softmax", one_pass)
    assert not found(torch.float16).kept


def test_scores_added_up_in_half_precision_are_over_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    config = AttentionConfig(embed_dim=1024, num_heads=1, num_tokens=8, causal=False)
    right = scaled_dot_product.scaled_dot_product

    def one_by_one(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, drop: Any) -> Any:
        scores = torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
        for d in range(q.shape[-1]):  # each sum is rounded to the dtype
            scores = scores + q[..., d, None] * k[..., None, :, d]
        return right(q, k, v, allowed, drop)._replace(scores=scores)

    assert all(one.kept for one in errors(config))
    monkeypatch.setattr(multi_head, "scaled_dot_product", one_by_one)
    over = {one.dtype: one.step for one in errors(config) if not one.kept}
    assert over.keys() >= set(HALF)
    assert set(over.values()) == {"scores"}


def test_a_variance_that_cancels_is_over_budget() -> None:
    generator = sample.generator("far from 0", 1)
    x = torch.randn(4, 64, generator=generator) + 100
    weight, bias = torch.randn(64, generator=generator), torch.randn(64, generator=generator)
    pytorch = F.layer_norm(x, (64,), weight, bias, EPS)
    exact = F.layer_norm(x.double(), (64,), weight.double(), bias.double(), EPS)
    assert budget("norm_1", layer_norm(x, weight, bias), pytorch, exact).kept
    variance = x.square().mean(-1, keepdim=True) - x.mean(-1, keepdim=True).square()
    cancelled = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + EPS) * weight + bias
    assert not budget("norm_1", cancelled, pytorch, exact).kept


# What allclose says --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [Tolerance(1e-5, 1e-8), Tolerance(0, 0), Tolerance(0, 1e-3), Tolerance(0.1, 0.1)])
def test_closeness_is_what_allclose_says(tolerance: Tolerance) -> None:
    found = {(one.dtype, one.step): one for one in closeness(SMALL, tolerance)}
    assert len(found) == len(DTYPES) * len(STEPS)
    for name, dtype in DTYPES.items():
        attended = scene(SMALL, dtype)
        with torch.no_grad():
            ours, pytorch = multi_head.attend(*attended), reference.attend(*attended)
        for step in STEPS:
            a, b, one = getattr(ours, step), getattr(pytorch, step), found[name, step]
            assert one.close == torch.allclose(a, b, rtol=tolerance.rtol, atol=tolerance.atol)
            assert one.failing == pytest.approx((~torch.isclose(a, b, **vars(tolerance))).double().mean().item())
            assert one.close == (one.failing == 0)
    assert {one.close for one in found.values()} == ({True} if tolerance.atol == 0.1 else {True, False})


def test_all_under_atol_is_close_and_cannot_tell() -> None:  # N27
    # every number of PyTorch's is below 100 here, and zeros would be close too
    found = closeness(SMALL, Tolerance(0, 100))
    unequal = [one for one in found if one.outcome is Outcome.CANNOT_TELL]
    assert unequal, "some step is not equal to the last bit"
    assert all(one.close and not one.as_we_say for one in unequal)
    assert all(one.as_we_say for one in closeness(SMALL, Tolerance(1e-5, 1e-5)) if one.dtype == "float32")


# The smallest atol ---------------------------------------------------------------------------------------------------


def test_the_smallest_atol_by_hand() -> None:
    ours, pytorch = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([1.5, -4.0, 0.25])
    assert smallest_atol(ours, pytorch, 0.0) == 2.0
    assert smallest_atol(ours, pytorch, 0.25) == 1.0
    assert smallest_atol(ours, pytorch, 0.5) == 0.125
    assert smallest_atol(ours, pytorch, 1.0) == 0.0
    assert smallest_atol(torch.tensor([-math.inf]), torch.tensor([-math.inf]), 0.5) == 0
    for wrong in (math.nan, math.inf, 3.0):
        assert smallest_atol(torch.tensor([wrong]), torch.tensor([-math.inf]), 0.5) == math.inf
    assert smallest_atol(torch.tensor([-math.inf]), torch.tensor([3.0]), 0.5) == math.inf


@pytest.mark.parametrize("step", ["output", "masked"])
def test_it_is_the_smallest_that_passes(step: str) -> None:
    (needed, *_) = pass_rates(SMALL, 1, step, 1e-4)
    for dtype, atol in zip(DTYPES.values(), needed.atols, strict=True):
        attended = scene(replace(SMALL, seed=0), dtype)
        with torch.no_grad():
            a, b = (getattr(side.attend(*attended), step).double() for side in (multi_head, reference))
        assert torch.allclose(a, b, rtol=1e-4, atol=atol * (1 + 1e-9))
        if atol:
            assert not torch.allclose(a, b, rtol=1e-4, atol=atol * (1 - 1e-9))


def test_pass_rates_come_one_by_one_and_depend_on_the_seed_alone() -> None:
    running = pass_rates(SMALL, 10**9, "output", 0.0)  # nothing runs ahead
    first = [next(running) for _ in range(3)]
    assert [one.seed for one in first] == [0, 1, 2]
    assert torch.is_grad_enabled(), "between two seeds nothing of the caller is changed"
    assert first == list(pass_rates(replace(SMALL, seed=9, dtype="float16"), 3, "output", 0.0))
    assert len({one.atols for one in first}) == 3
    transposed = precision.by_dtype(first)
    assert [name for name, _ in transposed] == list(DTYPES)
    assert transposed[3][1] == tuple(one.atols[3] for one in first)
    assert isinstance(first[0], Needed)
    assert isinstance(running, Iterator)


def test_the_share_that_passes() -> None:
    atols = (0.0, 0.5, 0.5, math.inf)
    for atol, share in ((0.0, 0.25), (0.49, 0.25), (0.5, 0.75), (1e300, 0.75)):
        assert precision.share_passing(atols, atol) == share


def test_large_scenes_get_fewer_seeds() -> None:
    largest = AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256)
    assert precision.seeds_for(SMALL, 500, 10) == 500
    assert precision.seeds_for(AttentionConfig(), 40, 10) == 40
    assert 1 <= precision.seeds_for(largest, 40, 10) <= 10
    assert precision.seeds_for(SMALL, 40, 0.001) == 1


# The verdict ---------------------------------------------------------------------------------------------------------


def test_the_verdict_speaks_of_all_dtypes() -> None:
    usual, (measured, _) = verify(SMALL), measure(SMALL)
    found = precision.judged(usual, "float32", measured)
    assert found.equal
    names = [f"{dtype}: {step}" for dtype in DTYPES for step in STEPS]
    for checks in (found.maths.checks, found.arithmetic.checks, found.distances):
        assert [one.step for one in checks] == names
    own = {f"float32: {check.step}": check for check in usual.arithmetic.checks}
    for check in found.arithmetic.checks:
        if check.step in own:
            assert replace(check, step="") == replace(own[check.step], step="")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_broken_budget_is_in_the_verdict_at_any_tolerance(dtype: str) -> None:
    usual, (measured, _) = verify(replace(SMALL, dtype=dtype), Tolerance(0.5, 0.1)), measure(SMALL)
    broken = tuple(
        replace(one, ours=math.inf) if (one.dtype, one.step) == ("float16", "context") else one
        for one in measured.budgets
    )
    found = precision.judged(usual, dtype, replace(measured, budgets=broken))
    assert not found.equal
    first = found.arithmetic.first_difference
    assert first is not None
    differing = [check.step for check in found.arithmetic.checks if check.outcome is Outcome.DIFFERS]
    assert differing == ["float16: context"]
    assert ARITHMETIC["float32"] == Tolerance(1.3e-6, 1e-5)
