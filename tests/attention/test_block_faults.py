"""Wrong blocks that people really wrote: each is caught, at the first step where it is wrong.

One piece is swapped for a wrong one. PyTorch's side must not notice, and the verdict must.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attention import block, reference_block, verify_block
from attention.block import BlockTrace
from attention.compare import Outcome
from attention.config import AttentionConfig
from attention.feed_forward import ACTIVATIONS
from attention.multi_head import attend
from attention.sample import BlockParameters
from attention.verify import MATHS, report
from attention.verify_block import BlockConfig, probe
from attention.verify_block import verify_block as verify
from tests.attention.scenes import assert_same, normal, random_block

RIGHT = block.run_block
CONFIG = BlockConfig(AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7))


@pytest.fixture(autouse=True)
def no_probe_is_kept() -> Iterator[None]:
    """A probe of a faulty library must not be what the next test is told."""
    probe.cache_clear()
    yield
    probe.cache_clear()


@dataclass(frozen=True)
class Pieces:
    """A block in pieces, of PyTorch's own calls; each can be swapped."""

    norm: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, weight, bias: F.layer_norm(
        x, x.shape[-1:], weight, bias
    )
    attend: Callable[..., Any] = attend
    activate: Callable[[Tensor], Tensor] | None = None
    feed: Callable[[Tensor, Tensor, Tensor], Tensor] = F.linear
    add_1: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, normed, f: x + f
    add_2: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x, normed, f: x + f
    second_norm: bool = True
    after_residual: bool = True  # False: x + LN(f(x))

    def __call__(
        self,
        x: Tensor,
        p: BlockParameters,
        num_heads: int,
        allowed: Tensor | None = None,
        *,
        norm_first: bool = False,
        activation: str = "gelu",
    ) -> BlockTrace:
        """The block, with its steps."""
        activate = self.activate or getattr(F, activation)

        def norm(number: int, of: Tensor) -> Tensor:
            if number == 2 and not self.second_norm:
                return of
            return self.norm(of, getattr(p, f"norm_{number}_weight"), getattr(p, f"norm_{number}_bias"))

        def feed(tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            hidden = self.feed(tokens, p.w_1, p.b_1)
            activated = activate(hidden)
            return hidden, activated, self.feed(activated, p.w_2, p.b_2)

        if norm_first:
            norm_1 = norm(1, x)
            attention = self.attend(norm_1, p.attention, num_heads, allowed)
            sum_1 = self.add_1(x, norm_1, attention.output)
            norm_2 = norm(2, sum_1)
            hidden, activated, fed = feed(norm_2)
            sum_2 = self.add_2(sum_1, norm_2, fed)
        elif self.after_residual:
            attention = self.attend(x, p.attention, num_heads, allowed)
            sum_1 = self.add_1(x, x, attention.output)
            norm_1 = norm(1, sum_1)
            hidden, activated, fed = feed(norm_1)
            sum_2 = self.add_2(norm_1, sum_1, fed)
            norm_2 = norm(2, sum_2)
        else:
            attention = self.attend(x, p.attention, num_heads, allowed)
            norm_1 = norm(1, attention.output)
            sum_1 = x + norm_1
            hidden, activated, fed = feed(sum_1)
            norm_2 = norm(2, fed)
            sum_2 = sum_1 + norm_2
        return BlockTrace(norm_first, x, attention, sum_1, norm_1, hidden, activated, fed, sum_2, norm_2)


def unbiased(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    deviation = x.std(-1, keepdim=True) + 1e-5
    return (x - x.mean(-1, keepdim=True)) / deviation * weight + bias


def eps_outside(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    deviation = x.std(-1, keepdim=True, unbiased=False) + 1e-5
    return (x - x.mean(-1, keepdim=True)) / deviation * weight + bias


def one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    variance = x.float().square().mean(-1, keepdim=True) - x.float().mean(-1, keepdim=True).square()
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-5).to(x.dtype) * weight + bias


def over_tokens(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(1, keepdim=True) + 1e-5) * weight + bias


def with_eps(eps: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def swapped_placement(*given: Any, norm_first: bool, **switches: Any) -> BlockTrace:
    return RIGHT(*given, norm_first=not norm_first, **switches)


def other_parameters(**names: str) -> Callable[..., BlockTrace]:
    """The block with some of its parameters taken for others, or, where the other is "", left out."""

    def wrong(x: Tensor, p: BlockParameters, *rest: Any, **switches: Any) -> BlockTrace:
        taken: dict[str, Any] = {}
        for name, other in names.items():
            nothing = 1.0 if name.startswith("norm") and name.endswith("weight") else 0.0
            taken[name] = getattr(p, other) if other else torch.full_like(getattr(p, name), nothing)
        return RIGHT(x, replace(p, **taken), *rest, **switches)

    return wrong


def without_bias(name: str) -> Callable[..., BlockTrace]:
    """The block whose attention has lost one bias."""

    def wrong(x: Tensor, p: BlockParameters, *rest: Any, **switches: Any) -> BlockTrace:
        lost = replace(p.attention, **{name: torch.zeros_like(getattr(p.attention, name))})
        return RIGHT(x, replace(p, attention=lost), *rest, **switches)

    return wrong


def unmasked(x: Tensor, parameters: Any, num_heads: int, allowed: Tensor | None, *_: Any) -> Any:
    return attend(x, parameters, num_heads)


@dataclass(frozen=True)
class Fault:
    """A wrong block, and the step that has to be named: with the norms after, and with the norms before."""

    case: str
    wrong: Callable[..., BlockTrace]
    post: str
    pre: str


FAULTS = [
    Fault("S20 norm placement swapped", swapped_placement, "norm_1", "attention.q"),
    Fault("S20 x + LN(f(x))", Pieces(after_residual=False), "sum_1", ""),
    Fault("S20 the residual is the normed one", Pieces(add_1=lambda x, normed, f: normed + f), "", "sum_1"),
    Fault("S20 the second residual is another one", Pieces(add_2=lambda x, normed, f: normed + f), "sum_2", "sum_2"),
    Fault("the first residual left out", Pieces(add_1=lambda x, normed, f: f), "sum_1", "sum_1"),
    Fault("the second residual left out", Pieces(add_2=lambda x, normed, f: f), "sum_2", "sum_2"),
    Fault("the second norm left out", Pieces(second_norm=False), "norm_2", "norm_2"),
    Fault("N11 unbiased variance", Pieces(norm=unbiased), "norm_1", "norm_1"),
    Fault("N11 eps 1e-6", Pieces(norm=with_eps(1e-6)), "norm_1", "norm_1"),
    Fault("N11 eps 1e-12", Pieces(norm=with_eps(1e-12)), "norm_1", "norm_1"),
    Fault("N11 eps outside the root", Pieces(norm=eps_outside), "norm_1", "norm_1"),
    Fault("N13 the variance in one pass", Pieces(norm=one_pass), "norm_1", "norm_1"),
    Fault("norm over tokens", Pieces(norm=over_tokens), "norm_1", "norm_1"),
    Fault("relu for gelu", Pieces(activate=F.relu), "activated", "activated"),
    Fault("tanh gelu", Pieces(activate=partial(F.gelu, approximate="tanh")), "activated", "activated"),
    Fault("silu for gelu", Pieces(activate=F.silu), "activated", "activated"),
    Fault("no activation", Pieces(activate=lambda x: x), "activated", "activated"),
    Fault("M11 the mask is built and not passed", Pieces(attend=unmasked), "attention.masked", "attention.masked"),
    Fault("feed-forward without biases", Pieces(feed=lambda x, w, b: x @ w.mT), "hidden", "hidden"),
    Fault("b_1 dropped", other_parameters(b_1=""), "hidden", "hidden"),
    Fault("b_2 dropped", other_parameters(b_2=""), "fed", "fed"),
    *(
        Fault(f"{name} dropped", without_bias(name), f"attention.{step}", f"attention.{step}")
        for name, step in {"b_q": "q", "b_k": "k", "b_v": "v", "b_o": "output"}.items()
    ),
    *(
        Fault(f"{name} left out", other_parameters(**{name: ""}), name[:6], name[:6])
        for name in ("norm_1_weight", "norm_1_bias", "norm_2_weight", "norm_2_bias")
    ),
    Fault(
        "norms swapped",
        other_parameters(
            norm_1_weight="norm_2_weight",
            norm_1_bias="norm_2_bias",
            norm_2_weight="norm_1_weight",
            norm_2_bias="norm_1_bias",
        ),
        "norm_1",
        "norm_1",
    ),
    Fault(
        "one norm for both",
        other_parameters(norm_2_weight="norm_1_weight", norm_2_bias="norm_1_bias"),
        "norm_2",
        "norm_2",
    ),
]


def scene() -> tuple[Tensor, BlockParameters, int, Tensor]:
    return 2 * normal(1, 2, 7, 15) + 1, random_block(2, 15, 11), 3, torch.ones(7, 7).tril().bool()


# what a fault is in one placement only is tried there only
CASES = [
    pytest.param(fault, norm_first, step, id=f"{fault.case}, {'pre' if norm_first else 'post'}-norm")
    for fault in FAULTS
    for norm_first, step in ((False, fault.post), (True, fault.pre))
    if step
]
# it shifts all scores of a row alike, which softmax does not see
HARMLESS = ("b_k dropped",)


@pytest.mark.parametrize(("fault", "norm_first", "step"), CASES)
def test_a_wrong_block_is_caught_where_it_is_wrong(
    fault: Fault, norm_first: bool, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytorch = reference_block.run_block(*scene(), norm_first=norm_first)
    found = report(fault.wrong(*scene(), norm_first=norm_first, activation="gelu"), pytorch, MATHS)
    assert found.first_difference is not None
    assert found.first_difference.step == step
    if fault.case not in HARMLESS:
        assert found.checks[-1].outcome is Outcome.DIFFERS  # what comes out is wrong too

    monkeypatch.setattr(verify_block, "run_block", fault.wrong)
    verdict = verify(replace(CONFIG, norm_first=norm_first))
    assert verdict.maths.first_difference is not None
    assert verdict.maths.first_difference.step == f"0: {step}"
    assert not verdict.equal
    # the probe tells it too, whatever the reader's scene shows; its norms come after first, then before
    assert verdict.probe.first_difference is not None
    assert verdict.probe.first_difference.step == (fault.post or fault.pre)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_pieces_are_right_as_long_as_none_is_swapped(norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_block, "run_block", Pieces())
    for activation in ("gelu", "relu"):
        assert verify(replace(CONFIG, norm_first=norm_first, activation=activation, depth=2)).equal


LIBRARY = {
    "layer_norm": (with_eps(1e-6), "norm_1"),
    "project": (lambda x, weight, bias: x @ weight.mT, "hidden"),
    "attend": (unmasked, "attention.masked"),
}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("name", LIBRARY)
def test_a_wrong_piece_of_the_library_is_caught(name: str, norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # the block's own pieces, swapped under it; no code is shared with PyTorch's side
    before = reference_block.run_block(*scene(), norm_first=norm_first)
    wrong, step = LIBRARY[name]
    monkeypatch.setattr(block, name, wrong)
    after = reference_block.run_block(*scene(), norm_first=norm_first)
    assert_same(after.attention, before.attention, rtol=0, atol=0)
    assert all(torch.equal(attrgetter(s)(after), attrgetter(s)(before)) for s in before.steps)
    verdict = verify(replace(CONFIG, norm_first=norm_first))
    for line in (verdict.maths, verdict.probe):
        assert line.first_difference is not None
    assert verdict.maths.first_difference is not None
    assert verdict.maths.first_difference.step == f"0: {step}"


def test_a_wrong_activation_of_the_library_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIVATIONS, "gelu", partial(F.gelu, approximate="tanh"))
    found = verify(CONFIG).maths.first_difference
    assert found is not None
    assert found.step == "0: activated"
    assert not verify(replace(CONFIG, activation="relu")).probe.equal  # where the reader's scene cannot show it
    monkeypatch.setitem(ACTIVATIONS, "relu", F.leaky_relu)
    found = verify(replace(CONFIG, activation="relu")).maths.first_difference
    assert found is not None
    assert found.step == "0: activated"


def test_a_fault_of_a_later_block_is_found_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []

    def wrong_from_the_third_on(x: Tensor, *given: Any, **switches: Any) -> BlockTrace:
        trace = RIGHT(x, *given, **switches)
        if x.dtype is torch.float64:
            seen.append(x)
        return trace if len(seen) < 3 else replace(trace, fed=trace.fed + 1e-3)

    monkeypatch.setattr(verify_block, "run_block", wrong_from_the_third_on)
    found = verify(replace(CONFIG, depth=4)).maths.first_difference
    assert found is not None
    assert found.step == "2: fed"
    assert math.isclose(found.max_abs, 1e-3, rel_tol=1e-6)
