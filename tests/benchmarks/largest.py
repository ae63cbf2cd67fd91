"""The most that a link can ask for: every page at its limits, in CPU and memory of the server.

    python -m tests.benchmarks.largest [page ...]

Each link asks for more than the page computes, in other proportions of width, heads and tokens, with the page's most
costly switches. Each is opened on a server of its own, which has seen one small scene: CPU seconds up to the finished
run, and how far the server's memory rose over what it was. It ends with 1 if a link took over 1.2 seconds (the limit is
1, and the machine is noisy) or 100 MB; the first page may take 300 MB, for all of its 32 heads × 256 tokens.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks.load import APP, cpu_of, memory_of
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import Server, serve

SMALL: Final = "embed_dim=12&num_heads=3&num_tokens=8"
SHAPES: Final = ((1024, 32), (768, 12), (512, 8), (256, 4), (128, 32), (1024, 1))  # embed dim, heads; all tokens
SWITCHES: Final[dict[str, str]] = {
    "heads": "causal=false",
    "one_head": "causal=false&head_dim=1024&value_dim=1024",
    "masks": "causal=false&rules=padding&rules=T+%E2%89%A0+S&queries=256&keys=256&loudness=1000",
    "head_counts": "causal=false",
    "four_ways": "training=true&dropout=0.5",
    "block": "causal=false&depth=8&of_block=7",
    "break_it": "causal=false&quiz=block&question=3",
    "precision": "pass_seeds=500&causal=false",
    "pytorch_differs": "causal=false",
    "compare": "causal=false&a=32x256-of-1024-full-seed4-float32",
    "predict": "causal=false",
}
CPU: Final = 1.2  # seconds
MEMORY: Final = 100  # MB
MEMORY_OF_FIRST: Final = 300  # MB


async def ask(server: Server, page: str, query: str) -> tuple[float, int, bool]:
    """Open one link after a small one: CPU seconds, MB at the peak, and whether something went wrong."""
    small = Visitor(server.address, SMALL, page)
    await small.open()
    await small.close()
    Path(f"/proc/{server.process}/clear_refs").write_text("5")  # the peak begins anew
    memory, cpu = memory_of(server.process), cpu_of(server.process)
    large = Visitor(server.address, query, page)
    run = await large.open()
    await large.close()
    return cpu_of(server.process) - cpu, memory_of(server.process, "VmHWM") - memory, bool(run.faults)


def main(pages: Sequence[str]) -> int:
    """Every page in every shape; 1 if one is over a limit."""
    print(f"{'page':16} {'asked for':>16} {'CPU s':>6} {'peak MB':>8}")
    over = 0
    for page in pages:
        for embed_dim, heads in SHAPES:
            query = f"embed_dim={embed_dim}&num_heads={heads}&num_tokens=256&seed=3&{SWITCHES[page]}"
            with serve(APP) as server:
                cpu, memory, fault = asyncio.run(ask(server, "" if page == "heads" else page, query))
            allowed = MEMORY_OF_FIRST if page == "heads" else MEMORY
            is_over = fault or cpu > CPU or memory > allowed
            over += is_over
            print(
                f"{page:16} {embed_dim:5} × {heads:2} × 256 {cpu:6.2f} {memory:8} {'over' if is_over else ''}",
                flush=True,
            )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or tuple(SWITCHES)))
