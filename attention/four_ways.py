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
from attention.sample import AttentionParameters
from attention.verify import MATHS, Distance, Report, Sides, Verdict, probe, sides_of

WAYS: Final = ("list of heads", "packed", "einsum", "PyTorch")
# draws of dropout that are averaged, and runs that are timed: fewer where each takes long
_DRAWS: Final = (8, 64)
_RUNS: Final = (5, 15)
_WORK: Final = 2**21  # numbers of output, over all draws

Module = TypeVar("Module", bound=nn.Module)


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

    Built on the meta device and then filled: constructors would draw from the random state of the whole process.
    """

    def __init__(self, config: AttentionConfig, dropout: float = 0.0, dtype: torch.dtype | None = None) -> None:
        dtype = dtype or config.torch_dtype
        parameters = sample.draw_parameters(config).to(dtype)
        width, heads, tokens = config.embed_dim, config.num_heads, config.num_tokens
        with torch.device("meta"):
            listed = MultiHeadAttentionWrapper(width, config.head_dim, tokens, dropout, heads, qkv_bias=True)
            packed = MultiHeadAttention(width, width, tokens, dropout, heads, qkv_bias=True)
            module = nn.MultiheadAttention(width, heads, batch_first=True)
        self.config, self.dropout, self.parameters = config, dropout, parameters
        self.tokens = sample.draw_tokens(config).to(dtype)
        self.allowed = masks.grid(masks.causal, tokens)
        self.listed = _filled(listed, parameters, tokens)
        self.packed = _filled(packed, parameters, tokens)
        self.module = _filled(module, parameters, tokens)
        self.module.eval()  # with dropout it would draw from the random state of the whole process

    @torch.no_grad()
    def answers(self) -> tuple[Answer, ...]:
        """What each way says. With dropout, list and packed draw from one seed; einsum and PyTorch go without."""
        self._set_training(self.dropout > 0)
        listed = self.listed.trace(self.tokens, self._generator(0))
        packed = self.packed.trace(self.tokens, self._generator(0))
        einsum = attend_by_einsum(self.tokens, self.parameters, self.config.num_heads, self.allowed)
        output, weights = self._ask_pytorch()
        return (
            Answer(WAYS[0], listed.dropped, listed.output),
            Answer(WAYS[1], packed.dropped, packed.output),
            Answer(WAYS[2], einsum.weights, einsum.output),
            Answer(WAYS[3], weights, output),
        )

    @torch.no_grad()
    def mean_over_draws(self, draws: int) -> Float[Tensor, "B T E"]:
        """The mean of the packed form's output over many draws of dropout: what comes near the answer without it."""
        self._set_training(True)
        total = torch.zeros_like(self.tokens, dtype=torch.float64)
        for draw in range(draws):
            total += self.packed(self.tokens, self._generator(draw))
        return (total / draws).to(self.tokens.dtype)

    def distance_of_mean(self, draws: int) -> float:
        """How far that mean is from the output without dropout: the root of the mean square of the difference."""
        mean = self.mean_over_draws(draws)
        self._set_training(False)
        with torch.no_grad():
            return float((mean - self.packed(self.tokens)).double().square().mean().sqrt())

    @torch.no_grad()
    def timings(self, clock: Callable[[], float] = time.perf_counter) -> tuple[Timing, ...]:
        """How long each takes without dropout: one after the other, many times, so that noise meets all alike."""
        self._set_training(False)
        runs: dict[str, Callable[[], object]] = {
            WAYS[0]: lambda: self.listed(self.tokens),
            WAYS[1]: lambda: self.packed(self.tokens),
            WAYS[2]: lambda: attend_by_einsum(self.tokens, self.parameters, self.config.num_heads, self.allowed),
            WAYS[3]: self._ask_pytorch,
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

    def _ask_pytorch(self) -> tuple[Tensor, Tensor]:
        x = self.tokens
        output, weights = self.module(x, x, x, attn_mask=~self.allowed, average_attn_weights=False)
        return output, weights

    def _set_training(self, training: bool) -> None:
        for module in (self.listed, self.packed):
            module.train(training)

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


def _filled(module: Module, parameters: AttentionParameters, num_tokens: int) -> Module:
    """The module with memory, the causal mask, and these parameters in it."""
    module = module.to_empty(device="cpu").to(parameters.w_q.dtype)
    for name, buffer in module.named_buffers():
        if name.endswith("mask"):
            buffer.copy_(~masks.grid(masks.causal, num_tokens))
    copying.write(module, parameters)
    return module
