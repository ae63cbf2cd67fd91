"""The from-scratch attention against `nn.MultiheadAttention` asked for the same per-head weights.

    python -m tests.benchmarks.speed [seconds per case]

Both run in this process at the same thread count, in eval mode with gradients off, where PyTorch may
take its fused path. Ours keeps every step; PyTorch keeps weights and output. Each case is checked for
equality before it is timed; the two take turns.
"""

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from attention import AttentionConfig, attend, reference, sample
from attention.multi_head import allowed_by

# heads, tokens, embed dim: heads 64 wide, as in the paper, up to the largest embed dim
SIZES = [(4, 16, 256), (8, 32, 512), (12, 16, 768), (12, 64, 768), (16, 128, 1024), (32, 256, 1024)]
THREADS = (1, 2)  # as the dashboard runs, and as PyTorch comes on a machine of two cores
MEDIAN_TO_REACH, NEVER_OVER = 1.0, 1.3


def fused_module(config: AttentionConfig) -> nn.MultiheadAttention:
    """PyTorch's module with the config's parameters, free to take its fused path (batch_first, eval)."""
    ordinary = reference.as_module(sample.draw_parameters(config), config.num_heads)
    module = nn.MultiheadAttention(config.embed_dim, config.num_heads, batch_first=True, device="meta").eval()
    module.load_state_dict(ordinary.state_dict(), assign=True)
    return module


def time_case(config: AttentionConfig, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of every run, ours and PyTorch's, taken in turns."""
    tokens, parameters, allowed = sample.draw_tokens(config), sample.draw_parameters(config), allowed_by(config)
    module = fused_module(config)
    blocked = None if allowed is None else ~allowed

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        trace = attend(tokens, parameters, config.num_heads, allowed)
        return trace.output, trace.weights

    def pytorch() -> tuple[torch.Tensor, torch.Tensor]:
        output, weights = module(tokens, tokens, tokens, attn_mask=blocked, average_attn_weights=False)
        return output, weights

    for mine, theirs in zip(ours(), pytorch(), strict=True):
        torch.testing.assert_close(mine, theirs)
    times: dict[Callable[[], object], list[float]] = {ours: [], pytorch: []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[ours]) < 20:
        for run, taken in times.items():
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return times[ours], times[pytorch]


@torch.no_grad()
def main(seconds: float = 2.0) -> None:
    """Print a row per case, and the median of the ratios, for each thread count."""
    for threads in THREADS:
        torch.set_num_threads(threads)
        ratios = []
        print(f"threads: {threads}; ms, median / 95th percentile")
        for heads, tokens, embed_dim in SIZES:
            for causal in (True, False):
                config = AttentionConfig(embed_dim=embed_dim, num_heads=heads, num_tokens=tokens, causal=causal)
                ours, pytorch = time_case(config, seconds)
                ratios.append(statistics.median(a / b for a, b in zip(ours, pytorch, strict=True)))
                name = f"{heads} x {tokens} of {embed_dim}, {'causal' if causal else 'no mask'}"
                print(f"{name:28} ours {_spread(ours):>17}  PyTorch {_spread(pytorch):>17}  {ratios[-1]:.2f} ×")
        print(f"median of the ratios {statistics.median(ratios):.2f} × (to reach {MEDIAN_TO_REACH})")
        print(f"largest {max(ratios):.2f} × (never over {NEVER_OVER})")


def _spread(seconds: list[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.3f} / {1e3 * statistics.quantiles(seconds, n=20)[-1]:.3f}"


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
