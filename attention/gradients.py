"""Gradients of attention against PyTorch's: of q, k and v, of the tokens, of every weight and bias.

The loss is Σ output · g with a fixed random g. For q, k and v PyTorch's side is `F.scaled_dot_product_attention`,
for all else `nn.MultiheadAttention`, both with gradients, on its ordinary path.

A bias on the keys adds the same to all scores of a row, which the softmax does not see: its gradient is 0, and what
is left of it is rounding. So are the gradients of queries and keys where there is one token.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from attention import reference, sample
from attention.compare import Check, Outcome, Tolerance, compare
from attention.config import AttentionConfig
from attention.multi_head import AttentionTrace, allowed_by, attend, draw
from attention.sample import AttentionParameters
from attention.verify import ARITHMETIC, MATHS, Report

STEPS: Final = ("dq", "dk", "dv", *(f"d{field.name}" for field in fields(AttentionParameters)), "dtokens")
# of the largest gradient of all: what is smaller in float64 is 0 but for rounding
_NOTHING: Final = 1e-12


@dataclass(frozen=True)
class Gradients:
    """The gradients of the loss, by the names of `STEPS`: shapes are those of what they belong to."""

    values: tuple[Tensor, ...]

    def __getitem__(self, step: str) -> Tensor:
        """The gradient of that name."""
        return self.values[STEPS.index(step)]


@dataclass(frozen=True)
class GradientVerdict:
    """Both lines, as of the steps forward."""

    maths: Report
    arithmetic: Report

    @property
    def equal(self) -> bool:
        """Whether both are all equal."""
        return self.maths.equal and self.arithmetic.equal


def verify_gradients(
    config: AttentionConfig, tolerance: Tolerance | None = None, attention: Callable[..., AttentionTrace] = attend
) -> GradientVerdict:
    """Check the gradients of a scene, in float64 and in its own dtype.

    Gradients are sums over tokens, and their size is not about 1: atol is meant per unit of each one's own largest
    number in float64, or of the largest that it is a sum of.

    Args:
        config: the scene.
        tolerance: of the arithmetic line; by default that of `torch.testing.assert_close`.
        attention: what is checked, called as `multi_head.attend` is.
    """
    tokens, parameters = draw(config)
    given = tokens, parameters, config.num_heads, allowed_by(config)
    exact = (tokens.double(), parameters.to(torch.float64), *given[2:])
    answer = of_pytorch(*exact, config.seed)
    return GradientVerdict(
        maths=_report(of_ours(*exact, config.seed, attention), answer, answer, MATHS),
        arithmetic=_report(
            of_ours(*given, config.seed, attention),
            of_pytorch(*given, config.seed),
            answer,
            tolerance or ARITHMETIC[config.dtype],
        ),
    )


@torch.enable_grad()
def of_ours(
    tokens: Tensor,
    parameters: AttentionParameters,
    num_heads: int,
    allowed: Tensor | None,
    seed: int,
    attention: Callable[..., AttentionTrace] = attend,
) -> Gradients:
    """The gradients by our own steps."""
    tokens, parameters = _leaves(tokens, parameters)
    trace = attention(tokens, parameters, num_heads, allowed)
    asked = [trace.q, trace.k, trace.v, *(getattr(parameters, f.name) for f in fields(parameters)), tokens]
    loss = (trace.output * _upstream(trace.output, seed)).sum()
    # a step that a mistake leaves out of the sum, or detaches, has no gradient, which is one of 0
    reached = [x for x in asked if x.requires_grad]
    found = iter(torch.autograd.grad(loss, reached, allow_unused=True))
    grads = (next(found) if x.requires_grad else None for x in asked)
    return Gradients(tuple(torch.zeros_like(x) if grad is None else grad for x, grad in zip(asked, grads, strict=True)))


@torch.enable_grad()
def of_pytorch(
    tokens: Tensor, parameters: AttentionParameters, num_heads: int, allowed: Tensor | None, seed: int
) -> Gradients:
    """The gradients by PyTorch's modules."""
    tokens, parameters = _leaves(tokens, parameters)
    if allowed is None:
        allowed = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    within = _of_kernel(tokens, parameters, num_heads, allowed, seed)
    module = reference.as_module(parameters, num_heads).requires_grad_()
    x = tokens.transpose(0, 1)  # (T, B, E) is its native order
    blocked = ~allowed.expand(len(tokens), num_heads, *allowed.shape[-2:]).flatten(0, 1)  # (B·H, T, T)
    output = module(x, x, x, attn_mask=blocked, need_weights=False)[0].transpose(0, 1)
    loss = (output * _upstream(output, seed)).sum()
    packed, bias, w_o, b_o, dx = torch.autograd.grad(
        loss,
        [module.in_proj_weight, module.in_proj_bias, module.out_proj.weight, module.out_proj.bias, tokens],
    )
    (w_q, w_k, w_v), (b_q, b_k, b_v) = packed.chunk(3), bias.chunk(3)
    named = {"w_q": w_q, "b_q": b_q, "w_k": w_k, "b_k": b_k, "w_v": w_v, "b_v": b_v, "w_o": w_o, "b_o": b_o}
    return Gradients((*within, *(named[field.name] for field in fields(parameters)), dx))


def _of_kernel(
    tokens: Tensor, parameters: AttentionParameters, num_heads: int, allowed: Tensor, seed: int
) -> tuple[Tensor, ...]:
    """The gradients of q, k and v (B, H, T, D), by PyTorch's kernel for the equation."""
    p = parameters
    q, k, v = (
        F.linear(tokens, w, b).unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for w, b in ((p.w_q, p.b_q), (p.w_k, p.b_k), (p.w_v, p.b_v))
    )
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    output = F.linear(context.transpose(1, 2).flatten(2), p.w_o, p.b_o)
    return torch.autograd.grad((output * _upstream(output, seed)).sum(), [q, k, v])


def _leaves(tokens: Tensor, parameters: AttentionParameters) -> tuple[Tensor, AttentionParameters]:
    """The same numbers, each asking for its gradient; the caller's own tensors stay as they are."""
    asking = {field.name: getattr(parameters, field.name).detach().requires_grad_() for field in fields(parameters)}
    return tokens.detach().requires_grad_(), replace(parameters, **asking)


def _upstream(output: Tensor, seed: int) -> Tensor:
    """What the loss weighs the output with: standard normal, and the same in every dtype."""
    drawn: Tensor = torch.randn(output.shape, generator=sample.generator("upstream", seed), dtype=torch.float32)
    return drawn.to(output.dtype)


def _report(ours: Gradients, pytorch: Gradients, answer: Gradients, tolerance: Tolerance) -> Report:
    """Step by step; `answer` are PyTorch's gradients in float64, which say how large each is."""
    largest = max(_size(gradient) for gradient in answer.values)
    return Report(
        tuple(_check(step, ours[step], pytorch[step], _scale(answer, step), largest, tolerance) for step in STEPS)
    )


def _scale(answer: Gradients, step: str) -> float:
    """How large a gradient is, or what it is a sum of: b_q's is a sum of q's, whose rounding it has."""
    own, of = _size(answer[step]), f"d{step[-1]}"
    if own > _NOTHING * max(_size(gradient) for gradient in answer.values) and of in STEPS:
        return max(own, _size(answer[of]))
    return own


def _check(step: str, ours: Tensor, pytorch: Tensor, size: float, largest: float, tolerance: Tolerance) -> Check:
    is_nothing = size <= _NOTHING * largest
    own = Tolerance(rtol=tolerance.rtol, atol=tolerance.atol * (largest if is_nothing else size))
    found = compare(step, ours, pytorch, own)
    if is_nothing and found.outcome is Outcome.CANNOT_TELL:
        return replace(found, outcome=Outcome.EQUAL, reason="0 on both sides but for rounding, as it must be")
    return found


def _size(gradient: Tensor) -> float:
    return float(gradient.abs().max()) if gradient.numel() else 0.0
