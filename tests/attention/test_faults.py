"""Wrong attentions that people really wrote: each is caught, at the first step where it is wrong.

One piece of the library is swapped for a wrong one. PyTorch's side must not notice, and the verdict must.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from attention import multi_head, reference, scaled_dot_product
from attention.bugs.wrong import split_by_view, split_interleaved
from attention.compare import Outcome, compare
from attention.config import AttentionConfig
from attention.multi_head import attend
from attention.scaled_dot_product import ScaledDotProduct, softmax
from attention.verify import MATHS, probe, report, verify
from tests.attention.scenes import assert_same, hard_scene, hard_trace

RIGHT = scaled_dot_product.scaled_dot_product


@dataclass(frozen=True)
class Fault:
    """What is swapped, what for, and the step that has to be named."""

    case: str
    place: Any
    name: str
    wrong: Callable[..., Any]
    step: str


@pytest.fixture(autouse=True)
def no_probe_is_kept() -> Iterator[None]:
    """A probe of a faulty library must not be what the next test is told."""
    probe.cache_clear()
    yield
    probe.cache_clear()


def rescaled(factor: Callable[[int], float]) -> Callable[..., ScaledDotProduct]:
    """The equation with another factor of the scores, which is a function of D."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, _drop: object) -> ScaledDotProduct:
        scores = q @ k.mT
        scaled = scores * factor(q.shape[-1])
        masked = torch.where(allowed, scaled, -math.inf)
        weights = softmax(masked)
        return ScaledDotProduct(scores, scaled, masked, weights, weights, weights @ v)

    return wrong


def remasked(change: Callable[[Tensor], Tensor]) -> Callable[..., ScaledDotProduct]:
    """The equation under another mask than the one that was asked for."""
    return lambda q, k, v, allowed, _: RIGHT(q, k, v, change(allowed))


def filled_with(number: float) -> Callable[..., ScaledDotProduct]:
    """Another number than minus infinity for what is blocked."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, _drop: object) -> ScaledDotProduct:
        steps = RIGHT(q, k, v, allowed)
        masked = torch.where(allowed, steps.scaled, number)
        weights = softmax(masked)
        return steps._replace(masked=masked, weights=weights, context=weights @ v)

    return wrong


def reweighted(change: Callable[[ScaledDotProduct, Tensor], Tensor]) -> Callable[..., ScaledDotProduct]:
    """Other weights after all the right scores."""

    def wrong(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, _drop: object) -> ScaledDotProduct:
        steps = RIGHT(q, k, v, allowed)
        weights = change(steps, allowed)
        return steps._replace(weights=weights, context=weights @ v)

    return wrong


def equation(case: str, wrong: Callable[..., ScaledDotProduct], step: str) -> Fault:
    return Fault(case, multi_head, "scaled_dot_product", wrong, step)


FAULTS = [
    Fault("S01 heads split by view", multi_head, "split_heads", split_by_view, "q"),
    Fault("S01 every H-th number to a head", multi_head, "split_heads", split_interleaved, "q"),
    Fault("S05 x @ W", multi_head, "project", lambda x, weight, bias: x @ weight + bias, "q"),
    Fault("a dropped bias", multi_head, "project", lambda x, weight, bias: x @ weight.mT, "q"),
    equation("N18 scaled by E", rescaled(lambda d: 1 / math.sqrt(3 * d)), "scaled"),
    equation("N18 not scaled", rescaled(lambda d: 1.0), "scaled"),
    equation("N18 divided by the inverse", rescaled(math.sqrt), "scaled"),
    equation("N18 scaled by D", rescaled(lambda d: 1 / d), "scaled"),
    equation("M05 mask inverted", remasked(torch.logical_not), "masked"),
    equation("M16 hides the token itself", remasked(lambda allowed: allowed.tril(-1)), "masked"),
    equation("M16 sees one token ahead", remasked(lambda allowed: allowed | allowed.roll(1, -1)), "masked"),
    equation("M17 no mask", remasked(torch.ones_like), "masked"),
    equation("M22 masks of the wrong sequence", remasked(lambda allowed: allowed.flip(0)), "masked"),
    equation("M18 zeros for masked scores", filled_with(0.0), "masked"),
    equation("N09 a large negative number", filled_with(-1e9), "masked"),
    equation("M19 masked after softmax", reweighted(lambda s, allowed: softmax(s.scaled) * allowed), "weights"),
    equation("N21 softmax over queries", reweighted(lambda s, _: torch.softmax(s.masked, -2)), "weights"),
    equation("N21 softmax over heads", reweighted(lambda s, _: torch.softmax(s.masked, 1).nan_to_num()), "weights"),
    equation("S10 heads averaged", reweighted(lambda s, _: s.weights.mean(1, True).expand_as(s.weights)), "weights"),
    equation("values transposed", lambda q, k, v, allowed, _: RIGHT(q, k, v.flip(2), allowed), "context"),
]
# scores of this size leave no weight beside a billion; which number it was is only seen in `masked`
HARMLESS_HERE = ("N09 a large negative number",)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_a_wrong_piece_is_caught_where_it_is_wrong(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    before = reference.attend(*hard_scene())
    monkeypatch.setattr(fault.place, fault.name, fault.wrong)
    pytorch = reference.attend(*hard_scene())
    assert_same(pytorch, before, rtol=0, atol=0)  # no code is shared

    found = report(attend(*hard_scene()), pytorch, MATHS)
    assert found.first_difference is not None
    assert found.first_difference.step == fault.step
    if fault.case not in HARMLESS_HERE:
        assert found.checks[-1].outcome is Outcome.DIFFERS  # the output is wrong too
    verdict = verify(AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7))
    for line in (verdict.maths, verdict.probe):
        assert line.first_difference is not None
        assert line.first_difference.step == fault.step
    assert not verdict.arithmetic.equal


@pytest.mark.parametrize(
    ("swap", "step"),
    [
        ({"w_q": "w_k"}, "q"),
        ({"w_k": "w_v"}, "k"),
        ({"w_v": "w_q"}, "v"),
        ({"b_q": "b_k"}, "q"),
        ({"b_k": "b_q"}, "k"),
        ({"b_v": "b_o"}, "v"),
        ({"w_o": "w_v"}, "output"),
        ({"b_o": "b_v"}, "output"),
    ],
)
def test_swapped_parameters_are_caught(swap: dict[str, str], step: str) -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    swapped = replace(parameters, **{name: getattr(parameters, other) for name, other in swap.items()})
    pytorch = reference.attend(tokens, parameters, num_heads, allowed)
    found = report(attend(tokens, swapped, num_heads, allowed), pytorch, MATHS).first_difference
    assert found is not None
    assert found.step == step


@pytest.mark.parametrize("name", ["b_q", "b_k", "b_v", "b_o"])
def test_one_dropped_bias_is_caught(name: str) -> None:
    tokens, parameters, num_heads, allowed = hard_scene()
    dropped = replace(parameters, **{name: torch.zeros_like(getattr(parameters, name))})
    pytorch = reference.attend(tokens, parameters, num_heads, allowed)
    found = report(attend(tokens, dropped, num_heads, allowed), pytorch, MATHS).first_difference
    assert found is not None
    assert found.step == {"b_o": "output"}.get(name, name[-1])


def test_heads_merged_by_view_are_caught() -> None:
    # S01, on the way back
    trace = hard_trace()
    merged = trace.context.reshape(trace.merged.shape)
    found = report(replace(trace, merged=merged), reference.attend(*hard_scene()), MATHS).first_difference
    assert found is not None
    assert found.step == "merged"


def test_averaged_weights_have_the_wrong_shape() -> None:
    # S10, as nn.MultiheadAttention hands them out by default: one axis less, and it would broadcast
    weights = hard_trace().weights
    check = compare("weights", weights.mean(1), weights, MATHS)
    assert check.reason == "shape (2, 7, 7), expected (2, 3, 7, 7)"


@pytest.mark.parametrize("blind", [{"num_heads": 1}, {"num_tokens": 1, "num_heads": 4}])
def test_the_probe_sees_what_a_scene_cannot_show(blind: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    # S01: with one token or one head a view does no harm
    monkeypatch.setattr(multi_head, "split_heads", split_by_view)
    verdict = verify(AttentionConfig(embed_dim=8, **blind))  # type: ignore[arg-type]  # mypy sees the bool among them
    assert verdict.maths.equal
    assert not verdict.probe.equal
    assert not verdict.equal


def test_softmax_without_its_maximum_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # N07: large scores give NaN on our side only
    def naive(x: Tensor) -> Tensor:
        exponentials = torch.exp(x)
        return exponentials / exponentials.sum(-1, keepdim=True)

    tokens, parameters, num_heads, allowed = hard_scene()
    scene = 50 * tokens, parameters, num_heads, allowed
    assert report(attend(*scene), reference.attend(*scene), MATHS).equal
    monkeypatch.setattr(scaled_dot_product, "softmax", naive)
    found = report(attend(*scene), reference.attend(*scene), MATHS).first_difference
    assert found is not None
    assert found.step == "weights"
    assert "NaN in ours, none in PyTorch's" in found.reason
