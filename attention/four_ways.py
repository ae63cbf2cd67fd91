"""Four ways to the same answer, on the same tokens and weights: a list of heads, packed, einsum, PyTorch."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attention import copying, masks, sample
from attention.compare import Check, Tolerance, compare, largest_distance
from attention.config import AttentionConfig
from attention.einsum import attend_by_einsum
from attention.ladder import MultiHeadAttention, MultiHeadAttentionWrapper
from attention.verify import MATHS, Distance, Report, Sides, Verdict, probe, sides_of

WAYS: Final = ("list of heads", "packed", "einsum", "PyTorch")
# draws of dropout that are averaged, and runs that are timed: fewer where each takes long
_DRAWS: Final = (4, 32)
_RUNS: Final = (5, 9)
_WORK: Final = 2**19  # numbers of output, over all draws

Module = TypeVar("Module", bound=nn.Module)
Book = TypeVar("Book", MultiHeadAttentionWrapper, MultiHeadAttention)


@dataclass(frozen=True)
class Answer:
    """What one way says: the weights of every head, as they meet the values, and the output."""

    way: str
    weights: Float[Tensor, "B H T T"]
    output: Float[Tensor, "B T E"]


@dataclass(frozen=True)
class Timing:
    """How long one way took, in milliseconds: median and 95th percentile."""

    way: str
    median: float
    p95: float


class FourWays:
    """All four, with the parameters of a scene copied into each. They are causal, as the book's classes always are.

    Built on the meta device and then filled: constructors would draw from the random state of the whole process. Each
    is built when it is asked for, since it holds a copy of all parameters.
    """

    def __init__(self, config: AttentionConfig, dropout: float = 0.0, dtype: torch.dtype | None = None) -> None:
        dtype = dtype or config.torch_dtype
        self.config, self.dropout, self.parameters = config, dropout, sample.draw_parameters(config).to(dtype)
        self.tokens = sample.draw_tokens(config).to(dtype)
        self.allowed = masks.grid(masks.causal, config.num_tokens)

    def listed(self, dropout: float | None = None) -> MultiHeadAttentionWrapper:
        """The book's list of heads, with the scene's dropout or another; in training where there is any."""
        return self._build(MultiHeadAttentionWrapper, self.config.head_dim, dropout)

    def packed(self, dropout: float | None = None) -> MultiHeadAttention:
        """The book's packed form, likewise."""
        return self._build(MultiHeadAttention, self.config.embed_dim, dropout)

    def module(self) -> nn.MultiheadAttention:
        """PyTorch's, in eval mode: with dropout it would draw from the random state of the whole process."""
        with torch.device("meta"):
            module = nn.MultiheadAttention(self.config.embed_dim, self.config.num_heads, batch_first=True)
        return self._filled(module).eval()

    @torch.no_grad()
    def answers(self) -> tuple[Answer, ...]:
        """What each way says. With dropout, list and packed draw from one seed; einsum and PyTorch go without."""
        listed = self.listed().trace(self.tokens, self._generator(0))
        packed = self.packed().trace(self.tokens, self._generator(0))
        einsum = attend_by_einsum(self.tokens, self.parameters, self.config.num_heads, self.allowed)
        output, weights = self._ask_pytorch(self.module())
        return (
            Answer(WAYS[0], listed.dropped, listed.output),
            Answer(WAYS[1], packed.dropped, packed.output),
            Answer(WAYS[2], einsum.weights, einsum.output),
            Answer(WAYS[3], weights, output),
        )

    @torch.no_grad()
    def mean_over_draws(self, draws: int) -> Float[Tensor, "B T E"]:
        """The mean of the packed form's output over many draws of dropout: what comes near the answer without it."""
        packed = self.packed()
        total = torch.zeros_like(self.tokens, dtype=torch.float64)
        for draw in range(draws):
            total += packed(self.tokens, self._generator(draw))
        return (total / draws).to(self.tokens.dtype)

    def distance_of_mean(self, draws: int) -> float:
        """How far that mean is from the output without dropout: the root of the mean square of the difference."""
        mean = self.mean_over_draws(draws)
        with torch.no_grad():
            return float((mean - self.packed(dropout=0.0)(self.tokens)).double().square().mean().sqrt())

    @torch.no_grad()
    def timings(self, clock: Callable[[], float] = time.perf_counter) -> tuple[Timing, ...]:
        """How long each takes without dropout: one after the other, many times, so that noise meets all alike."""
        listed, packed, module = self.listed(dropout=0.0), self.packed(dropout=0.0), self.module()
        runs: dict[str, Callable[[], object]] = {
            WAYS[0]: lambda: listed(self.tokens),
            WAYS[1]: lambda: packed(self.tokens),
            WAYS[2]: lambda: attend_by_einsum(self.tokens, self.parameters, self.config.num_heads, self.allowed),
            WAYS[3]: lambda: self._ask_pytorch(module),
        }
        took: dict[str, list[float]] = {way: [] for way in runs}
        for turn in range(_fewer(_RUNS, self.config) + 1):
            for way, run in runs.items():
                start = clock()
                run()
                if turn:  # the first one warms up
                    took[way].append(1000 * (clock() - start))
        return tuple(
            Timing(way, statistics.median(times), sorted(times)[int(0.95 * len(times))]) for way, times in took.items()
        )

    def _ask_pytorch(self, module: nn.MultiheadAttention) -> tuple[Tensor, Tensor]:
        x = self.tokens
        output, weights = module(x, x, x, attn_mask=~self.allowed, average_attn_weights=False)
        return output, weights

    def _build(self, form: type[Book], width: int, dropout: float | None) -> Book:
        embed_dim, tokens, heads = self.config.embed_dim, self.config.num_tokens, self.config.num_heads
        dropout = self.dropout if dropout is None else dropout
        with torch.device("meta"):
            module = form(embed_dim, width, tokens, dropout, heads, qkv_bias=True)
        return self._filled(module).train(dropout > 0)

    def _filled(self, module: Module) -> Module:
        """The module with memory, the causal mask, and these parameters in it."""
        module = module.to_empty(device="cpu").to(self.parameters.w_q.dtype)
        for name, buffer in module.named_buffers():
            if name.endswith("mask"):
                buffer.copy_(~self.allowed)
        copying.write(module, self.parameters)
        return module

    def _generator(self, draw: int) -> torch.Generator:
        """Of each draw of dropout its own."""
        return sample.generator(f"dropout {draw}", self.config.seed)


@torch.no_grad()
def verify_ways(config: AttentionConfig, tolerance: Tolerance, sides: Sides | None = None) -> Verdict:
    """Every step of a causal scene, and then weights and output of each of our ways, against PyTorch; dropout off.

    `sides` are those of the scene, where the caller has them already.
    """
    causal = replace(config, causal=True)
    usual = (sides or sides_of(causal)).judge(tolerance, probe())
    shown, exact = FourWays(causal).answers(), FourWays(causal, dtype=torch.float64).answers()
    return Verdict(
        maths=Report(usual.maths.checks + _checks(exact, MATHS)),
        arithmetic=Report(usual.arithmetic.checks + _checks(shown, tolerance)),
        distances=usual.distances + _distances(shown, exact[-1]),
        probe=usual.probe,
    )


def _checks(answers: tuple[Answer, ...], tolerance: Tolerance) -> tuple[Check, ...]:
    *ours, pytorch = answers
    return tuple(
        compare(f"{answer.way}: {step}", getattr(answer, step), getattr(pytorch, step), tolerance)
        for answer in ours
        for step in ("weights", "output")
    )


def _distances(answers: tuple[Answer, ...], exact: Answer) -> tuple[Distance, ...]:
    *ours, pytorch = answers
    return tuple(
        Distance(
            f"{answer.way}: {step}",
            largest_distance(getattr(answer, step), getattr(exact, step)),
            largest_distance(getattr(pytorch, step), getattr(exact, step)),
        )
        for answer in ours
        for step in ("weights", "output")
    )


def draws_for(config: AttentionConfig) -> int:
    """How many draws of dropout a scene averages."""
    return _fewer(_DRAWS, config)


def _fewer(limits: tuple[int, int], config: AttentionConfig) -> int:
    least, most = limits
    return max(least, min(most, _WORK // (config.num_tokens * config.embed_dim)))


def differences(answers: tuple[Answer, ...]) -> tuple[tuple[float, ...], ...]:
    """The largest |difference| of the outputs of each pair."""
    return tuple(tuple(largest_distance(a.output, b.output.double()) for b in answers) for a in answers)
