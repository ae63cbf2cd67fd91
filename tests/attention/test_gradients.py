"""Gradients: against PyTorch called here once more, by finite differences, and wrong ones under a right forward."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import Tensor
from torch.testing import assert_close

from attention.bugs.pieces import RIGHT, Pieces
from attention.bugs.pieces import attend as attend_in_pieces
from attention.compare import Outcome, Tolerance
from attention.config import DTYPES, AttentionConfig
from attention.gradients import STEPS, Gradients, of_ours, of_pytorch, verify_gradients
from attention.multi_head import AttentionTrace, allowed_by, attend, draw
from attention.sample import AttentionParameters, generator
from attention.verify import ARITHMETIC, MATHS
from tests.attention.scenes import hard_scene, normal, random_parameters, torch_module
from tests.attention.test_verify import configs

SMALL = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=5)
TINY = replace(SMALL, embed_dim=4, num_heads=2, num_tokens=3, dtype="float64")
PARAMETERS = tuple(field.name for field in fields(AttentionParameters))
OURS_AND_PYTORCH = pytest.mark.parametrize("way", [of_ours, of_pytorch], ids=["ours", "PyTorch's"])
Way = Callable[..., Gradients]


def given_by(config: AttentionConfig) -> tuple[Tensor, AttentionParameters, int, Tensor | None]:
    tokens, parameters = draw(config)
    return tokens, parameters, config.num_heads, allowed_by(config)


def upstream(output: Tensor, seed: int) -> Tensor:
    """What the loss is said to weigh the output with."""
    drawn: Tensor = torch.randn(output.shape, generator=generator("upstream", seed), dtype=torch.float32)
    return drawn.to(output.dtype)


def names_of_wrong(config: AttentionConfig, attention: Callable[..., AttentionTrace]) -> list[str]:
    return [check.step for check in verify_gradients(config, attention=attention).maths.checks if not check.equal]


def by_pieces(**pieces: Any) -> Callable[..., AttentionTrace]:
    return partial(attend_in_pieces, pieces=Pieces(**pieces))


# right


@settings(max_examples=15)
@given(configs(("float64", "float32")))
def test_right_gradients_are_equal_in_both_lines(config: AttentionConfig) -> None:
    verdict = verify_gradients(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.arithmetic.equal, verdict.arithmetic.first_difference
    assert verdict.equal
    for line in (verdict.maths, verdict.arithmetic):
        assert tuple(check.step for check in line.checks) == STEPS


@settings(max_examples=10)
@given(configs(("bfloat16", "float16")))
def test_the_maths_is_equal_whatever_half_precision_rounds(config: AttentionConfig) -> None:
    verdict = verify_gradients(config)
    assert verdict.maths.equal, verdict.maths.first_difference
    assert verdict.equal == verdict.arithmetic.equal


def test_the_names_of_the_gradients() -> None:
    assert STEPS == ("dq", "dk", "dv", "dw_q", "db_q", "dw_k", "db_k", "dw_v", "db_v", "dw_o", "db_o", "dtokens")
    tokens, parameters, num_heads, allowed = given_by(SMALL)
    found = of_ours(tokens, parameters, num_heads, allowed, 1)
    for name in PARAMETERS:
        assert found[f"d{name}"].shape == getattr(parameters, name).shape
    assert found["dtokens"].shape == tokens.shape
    assert found["dq"].shape == found["dk"].shape == found["dv"].shape == (1, 3, 5, 4)


@OURS_AND_PYTORCH
@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_module_called_here(way: Way, causal: bool) -> None:
    # made and called the ordinary way, with batches first
    tokens, parameters, num_heads, _ = given_by(replace(SMALL, dtype="float64"))
    lower = torch.ones(5, 5).tril().bool()
    module, x = torch_module(parameters, num_heads), tokens.clone().requires_grad_()
    output = module(x, x, x, attn_mask=~lower if causal else None)[0]
    (output * upstream(output, 7)).sum().backward()
    found = way(tokens, parameters, num_heads, lower if causal else None, 7)
    expected = {
        "dtokens": x.grad, "dw_o": module.out_proj.weight.grad, "db_o": module.out_proj.bias.grad,
        **rows_of("dw_", module.in_proj_weight.grad), **rows_of("db_", module.in_proj_bias.grad),
    }  # fmt: skip
    assert set(expected) == set(STEPS) - {"dq", "dk", "dv"}
    for step, grad in expected.items():
        assert_close(found[step], grad, rtol=1e-9, atol=1e-12, msg=step)


def rows_of(what: str, packed: Tensor | None) -> dict[str, Tensor]:
    """The packed gradients of q, k and v by their names."""
    assert packed is not None
    return {f"{what}{name}": part for name, part in zip("qkv", packed.chunk(3), strict=True)}


@OURS_AND_PYTORCH
def test_gradients_within_heads_are_those_of_the_equation(way: Way) -> None:
    # dV = Wᵀ dC; dS = W (dW − Σ dW W) / √D; dQ = dS K; dK = dSᵀ Q
    tokens, p, num_heads, allowed = hard_scene()
    trace = attend(tokens, p, num_heads, allowed)
    d_output = upstream(trace.output, 3)
    d_context = (d_output @ p.w_o).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    w, d_w = trace.weights, d_context @ trace.v.mT
    d_scores = w * (d_w - (d_w * w).sum(dim=-1, keepdim=True)) / 5**0.5
    found = way(tokens, p, num_heads, allowed, 3)
    assert_close(found["dv"], w.mT @ d_context)
    assert_close(found["dq"], d_scores @ trace.k)
    assert_close(found["dk"], d_scores.mT @ trace.q)
    # and what follows from them by hand
    assert_close(found["db_o"], d_output.sum(dim=(0, 1)))
    assert_close(found["dw_o"], torch.einsum("bto,bti->oi", d_output, trace.merged))
    for name in "qkv":
        flat = found[f"d{name}"].transpose(1, 2).flatten(2)
        assert_close(found[f"db_{name}"], flat.sum(dim=(0, 1)))
        assert_close(found[f"dw_{name}"], torch.einsum("bto,bti->oi", flat, tokens))


def test_gradients_are_those_of_finite_differences() -> None:
    tokens, parameters, num_heads, allowed = given_by(TINY)
    leaves = [tokens, *(getattr(parameters, name) for name in PARAMETERS)]

    def loss(tokens: Tensor, *given: Tensor) -> Tensor:
        output = attend(tokens, AttentionParameters(*given), num_heads, allowed).output
        return (output * upstream(output, 5)).sum()

    assert torch.autograd.gradcheck(loss, [leaf.clone().requires_grad_() for leaf in leaves])
    found = of_ours(tokens, parameters, num_heads, allowed, 5)
    for place, step in enumerate(("dtokens", *(f"d{name}" for name in PARAMETERS))):
        for cell in range(0, leaves[place].numel(), 3):
            ends = []
            for by in (1e-5, -1e-5):
                moved = [leaf.clone() for leaf in leaves]
                moved[place].view(-1)[cell] += by
                ends.append(loss(*moved).item())
            assert found[step].view(-1)[cell].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_on_the_keys_has_a_gradient_of_0(dtype: str) -> None:
    config = replace(SMALL, dtype=dtype)
    verdict = verify_gradients(config)
    check = next(check for check in verdict.maths.checks if check.step == "db_k")
    assert check.equal
    assert check.reason in ("equal to the last bit", "0 on both sides but for rounding, as it must be")
    found = of_ours(*given_by(replace(config, dtype="float64")), config.seed)
    assert found["db_k"].abs().max() < 1e-14
    assert found["db_q"].abs().max() > 1e-3
    if dtype in ("float64", "float32"):
        assert verdict.equal


@OURS_AND_PYTORCH
def test_with_one_token_queries_and_keys_have_none(way: Way) -> None:
    # S15: the one weight is 1 whatever the score
    given = given_by(replace(SMALL, num_tokens=1, dtype="float64"))
    found = way(*given, 1)
    for step in ("dq", "dk", "dw_q", "dw_k", "db_q", "db_k"):
        assert found[step].abs().max() < 1e-15
    for step in ("dv", "dw_v", "db_v", "dw_o", "db_o", "dtokens"):
        assert found[step].abs().max() > 1e-2
    assert verify_gradients(replace(SMALL, num_tokens=1)).equal


@OURS_AND_PYTORCH
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_row_without_keys_poisons_no_gradient(way: Way, dtype: torch.dtype) -> None:
    # M04
    tokens, parameters = normal(1, 2, 7, 15, dtype=dtype), random_parameters(2, 15, dtype)
    allowed = torch.ones(7, 7).tril().bool()
    allowed[[0, 3]] = False
    found = way(tokens, parameters, 3, allowed, 1)
    for step in STEPS:
        assert found[step].isfinite().all()
    assert (found["dq"][:, :, [0, 3]] == 0).all()  # nobody was asked
    assert (found["dq"][:, :, 1:3] != 0).any()
    other = (of_pytorch if way is of_ours else of_ours)(tokens, parameters, 3, allowed, 1)
    for step in STEPS:
        assert_close(found[step], other[step], rtol=1e-4, atol=1e-4 if dtype == torch.float32 else 1e-12)


@OURS_AND_PYTORCH
def test_a_mask_for_every_sequence(way: Way) -> None:
    # M22, M31
    tokens, parameters, num_heads, allowed = hard_scene()
    x, module = tokens.clone().requires_grad_(), torch_module(parameters, num_heads)
    blocked = ~allowed.repeat_interleave(num_heads, dim=0)[:, 0]
    output = module(x, x, x, attn_mask=blocked)[0]
    (output * upstream(output, 2)).sum().backward()
    found = way(tokens, parameters, num_heads, allowed, 2)
    assert_close(found["dtokens"], x.grad)
    assert_close(found["db_v"], rows_of("db_", module.in_proj_bias.grad)["db_v"])
    assert not torch.equal(found["dtokens"], way(tokens, parameters, num_heads, allowed.flip(0), 2)["dtokens"])


# the callers' own


@OURS_AND_PYTORCH
@pytest.mark.parametrize("recording", [True, False])
def test_the_callers_tensors_and_mode_stay_as_they_were(way: Way, recording: bool) -> None:
    given = given_by(SMALL)
    tensors = [given[0], *(getattr(given[1], name) for name in PARAMETERS)]
    before, state = [tensor.clone() for tensor in tensors], torch.get_rng_state()
    with torch.set_grad_enabled(recording):
        found = way(*given, 1)
        assert torch.is_grad_enabled() is recording
    for tensor, was in zip(tensors, before, strict=True):
        assert not tensor.requires_grad
        assert tensor.grad is None
        assert torch.equal(tensor, was)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(value.requires_grad for value in found.values)


def test_the_verdict_is_the_same_on_each_run_and_without_recording() -> None:
    with torch.no_grad():
        first = verify_gradients(SMALL)
    assert first == verify_gradients(SMALL)
    assert first != verify_gradients(replace(SMALL, seed=1))
    given = given_by(SMALL)
    for way in (of_ours, of_pytorch):
        one, same, other = (way(*given, seed) for seed in (1, 1, 2))
        assert all(torch.equal(a, b) for a, b in zip(one.values, same.values, strict=True))
        assert not torch.equal(one["dtokens"], other["dtokens"])


def test_the_tolerance_of_the_reader_is_for_the_arithmetic_only() -> None:
    tight = Tolerance(0, 0)
    verdict = verify_gradients(SMALL, tight)
    assert verdict.maths.equal
    assert not verdict.arithmetic.equal
    assert not verdict.equal
    assert not replace(verdict, maths=verdict.arithmetic, arithmetic=verdict.maths).equal
    assert {check.tolerance for check in verdict.arithmetic.checks} == {tight}


@pytest.mark.parametrize("dtype", DTYPES)
def test_atol_is_meant_per_unit_of_each_gradient(dtype: str) -> None:
    config = replace(SMALL, dtype=dtype)
    exact = of_pytorch(*given_by(replace(config, dtype="float64")), config.seed)
    # halves are exact in float64 as they were drawn and rounded
    tokens, parameters = draw(config)
    exact = of_pytorch(tokens.double(), parameters.to(torch.float64), 3, allowed_by(config), config.seed)
    size = {step: exact[step].abs().max().item() for step in STEPS}
    sum_of = {"dw_q": "dq", "db_q": "dq", "dw_k": "dk", "dw_v": "dv", "db_v": "dv"}
    verdict = verify_gradients(config)
    for line, usual in ((verdict.maths, MATHS), (verdict.arithmetic, ARITHMETIC[dtype])):
        for check in line.checks:
            unit = max(size[check.step], size[sum_of.get(check.step, check.step)])
            if check.step == "db_k":  # 0: the unit is the largest of all
                unit = max(size.values())
            assert check.tolerance.rtol == usual.rtol
            assert check.tolerance.atol == pytest.approx(usual.atol * unit, rel=1e-12)


# wrong under a right forward


class Scaled(torch.autograd.Function):
    """What goes in; of its gradient a little too much comes back."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:  # noqa: D102
        return x.clone()

    @staticmethod
    def backward(context: Any, *grad: Tensor) -> Tensor:  # noqa: D102
        return grad[0] * 1.000001


def too_much(x: Tensor) -> Tensor:
    return Scaled.apply(x)  # type: ignore[no-any-return]


def detached(name: str) -> Callable[..., AttentionTrace]:
    """Attention in which no gradient reaches one parameter."""

    def wrong(tokens: Tensor, parameters: AttentionParameters, *rest: Any) -> AttentionTrace:
        return attend(tokens, replace(parameters, **{name: getattr(parameters, name).detach()}), *rest)

    return wrong


def scaled_at(name: str) -> Callable[..., AttentionTrace]:
    def wrong(tokens: Tensor, parameters: AttentionParameters, *rest: Any) -> AttentionTrace:
        return attend(tokens, replace(parameters, **{name: too_much(getattr(parameters, name))}), *rest)

    return wrong


def forward_is_right(attention: Callable[..., AttentionTrace]) -> None:
    given = given_by(SMALL)
    assert torch.equal(attention(*given).output, attend(*given).output)


# b_k's gradient is 0 with it and without
WITH_GRADIENT = [name for name in PARAMETERS if name != "b_k"]


@pytest.mark.parametrize("name", WITH_GRADIENT)
@pytest.mark.parametrize("wrong", [detached, scaled_at])
def test_a_wrong_gradient_of_a_parameter_is_named(wrong: Callable[[str], Any], name: str) -> None:
    forward_is_right(wrong(name))
    assert names_of_wrong(SMALL, wrong(name)) == [f"d{name}"]
    verdict = verify_gradients(SMALL, attention=detached(name))
    assert verdict.arithmetic.first_difference is not None
    assert verdict.arithmetic.first_difference.step == f"d{name}"
    assert verdict.arithmetic.first_difference.outcome is Outcome.DIFFERS


def test_a_detached_bias_on_the_keys_cannot_be_told() -> None:
    assert names_of_wrong(SMALL, detached("b_k")) == []


IN_Q, IN_V = ["dw_q", "db_q"], ["dw_v", "db_v"]
BEFORE_OUTPUT = [step for step in STEPS if step not in ("db_k", "dw_o", "db_o")]


@pytest.mark.parametrize(
    ("attention", "wrong"),
    [
        (by_pieces(score=lambda q, k: q @ k.detach().mT), ["dk", "dw_k", "dtokens"]),
        (by_pieces(score=lambda q, k: q.detach() @ k.mT), ["dq", *IN_Q, "dtokens"]),
        (by_pieces(values=lambda q, k, v: v.detach()), ["dv", *IN_V, "dtokens"]),
        (by_pieces(score=lambda q, k: q @ too_much(k).mT), ["dk", "dw_k", "dtokens"]),
        (by_pieces(after=lambda weights, allowed: weights.detach()), ["dq", "dk", *IN_Q, "dw_k", "dtokens"]),
        (
            by_pieces(normalise=lambda masked, *rest: too_much(RIGHT.normalise(masked, *rest))),
            ["dq", "dk", *IN_Q, "dw_k", "dtokens"],
        ),
        (by_pieces(merge=lambda context: too_much(RIGHT.merge(context))), BEFORE_OUTPUT),
        (lambda tokens, *rest: attend(too_much(tokens), *rest), ["dtokens"]),
        (lambda tokens, *rest: attend(tokens.detach(), *rest), ["dtokens"]),
    ],
    ids=["k detached", "q detached", "v detached", "k scaled", "weights detached", "weights scaled", "context scaled",
         "tokens scaled", "tokens detached"],
)  # fmt: skip
def test_a_wrong_gradient_within_is_named(attention: Callable[..., AttentionTrace], wrong: list[str]) -> None:
    forward_is_right(attention)
    assert names_of_wrong(SMALL, attention) == wrong


def test_a_gradient_that_is_no_number_is_wrong() -> None:
    def square_root_of_nothing(weights: Tensor, allowed: Tensor) -> Tensor:
        return weights + torch.sqrt(weights - weights)  # 0 forward, infinity times 0 back

    found = verify_gradients(SMALL, attention=by_pieces(after=square_root_of_nothing)).maths
    assert found.first_difference is not None
    assert found.first_difference.step == "dq"
    assert "NaN in ours, none in PyTorch's" in found.first_difference.reason


def test_gradients_of_a_wrong_kernel_are_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    # the two sides share no step: what is wrong in PyTorch's call is told, too
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *given, **mask: kernel(*given))
    found = verify_gradients(SMALL).maths.first_difference
    assert found is not None
    assert found.step == "dq"


# how large is large


def test_a_small_gradient_is_judged_by_its_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    # queries and keys a ten-thousandth of what they were: so are their gradients, and none of them is nothing
    def faint(config: AttentionConfig) -> tuple[Tensor, AttentionParameters]:
        tokens, parameters = draw(config)
        small = {name: getattr(parameters, name) * 1e-4 for name in ("w_q", "b_q", "w_k", "b_k")}
        return tokens, replace(parameters, **small)

    monkeypatch.setattr("attention.gradients.draw", faint)
    assert verify_gradients(SMALL).equal
    assert names_of_wrong(SMALL, by_pieces(score=lambda q, k: q @ too_much(k).mT))[:2] == ["dk", "dw_k"]


@pytest.mark.parametrize("seed", [2, 5])
def test_a_sum_has_the_rounding_of_what_it_sums(seed: int) -> None:
    config = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=2, seed=seed, causal=False)
    exact = of_pytorch(*given_by(replace(config, dtype="float64")), seed)
    size = {step: exact[step].abs().max().item() for step in STEPS}
    for step in ("dw_q", "db_q"):
        assert size[step] < size["dq"]  # what it sums goes against itself
        check = next(check for check in verify_gradients(config).maths.checks if check.step == step)
        assert check.tolerance.atol == pytest.approx(MATHS.atol * size["dq"])


def test_a_tolerance_over_every_gradient_cannot_tell() -> None:
    # N27
    found = verify_gradients(SMALL, Tolerance(rtol=0.0, atol=1e3)).arithmetic
    outcomes = {check.step: check.outcome for check in found.checks}
    assert outcomes.pop("db_k") is Outcome.EQUAL  # it has to be 0
    assert set(outcomes.values()) <= {Outcome.CANNOT_TELL, Outcome.EQUAL}
    assert found.first_difference is not None
    assert found.first_difference.outcome is Outcome.CANNOT_TELL
