"""A whole class on one server: real websocket sessions that all move a slider, and what each of them waits for.

    python -m tests.benchmarks.load [sessions ...]

Each of N sessions moves the seed every 5 seconds among 20 values, for 60 seconds: the first visitor of a setting waits
for it to be computed, the others get it from the cache. Then all move at once. Beside it, in the same run, stands a
floor: a page with one slider and nothing else. Each class has a server of its own, which has seen nobody before. The
clock runs from the message sent to the finished run; what a browser draws then is not in it. The sessions run on the
same machine as the server, and take their share of it.
"""

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.benchmarks.visitor import Run, Visitor
from tests.browser.serving import Server, serve

APP: Final = Path(__file__).parents[2] / "dashboard" / "app.py"
FLOOR: Final = Path(__file__).with_name("idle_app.py")
SCENE: Final = "embed_dim=768&num_heads=12&num_tokens=64"
SESSIONS: Final = (1, 10, 30, 60, 100)
SETTINGS: Final = 20
EVERY: Final = 5.0  # seconds
LASTS: Final = 60.0  # seconds
OPENED: Final = 20  # new sessions, while the others are active


@dataclass
class Found:
    """What a class found: the runs, those of sessions that came later, those of the burst, and the server's memory."""

    runs: list[Run] = field(default_factory=list)
    opened: list[Run] = field(default_factory=list)
    burst: list[Run] = field(default_factory=list)
    settled: float = 0.0
    lost: int = 0
    memory: list[int] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def faults(self) -> int:
        """Runs in which something went wrong."""
        return sum(bool(run.faults) for run in (*self.runs, *self.opened, *self.burst))


def memory_of(process: int, which: str = "VmRSS") -> int:
    """The resident memory of a process, in MB; "VmHWM" is the most that it has been."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) // 1024
    raise ValueError(f"process {process} has no resident memory")


def cpu_of(process: int) -> float:
    """The CPU time of a process so far, in seconds."""
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / 100


async def keep_moving(visitor: Visitor, until: float, found: Found, draw: random.Random) -> None:
    """Move the slider every so often; the sessions do not move in step."""
    await asyncio.sleep(draw.uniform(0, EVERY))
    seed = -1
    while time.perf_counter() < until:
        next_move = time.perf_counter() + EVERY
        seed = draw.choice([other for other in range(1, SETTINGS + 1) if other != seed])
        found.runs.append(await visitor.move("Seed", seed))
        await asyncio.sleep(max(0.0, next_move - time.perf_counter()))


async def open_more(server: Server, query: str, until: float, found: Found) -> None:
    """New visitors, one after the other, while the others are active."""
    pause = (until - time.perf_counter()) / (OPENED + 1)
    for _ in range(OPENED):
        await asyncio.sleep(pause)
        visitor = Visitor(server.address, query)
        found.opened.append(await visitor.open())
        await visitor.close()


async def watch_memory(server: Server, found: Found) -> None:
    """The server's memory, once a second."""
    while True:
        found.memory.append(memory_of(server.process))
        await asyncio.sleep(1)


async def a_class(server: Server, query: str, sessions: int, lasts: float = LASTS) -> Found:
    """N sessions that open the page, move for a while, and then all move at once."""
    found, draw = Found(), random.Random(sessions)
    watching = asyncio.create_task(watch_memory(server, found))
    visitors = [Visitor(server.address, query) for _ in range(sessions)]
    found.memory.append(memory_of(server.process))
    for start in range(0, sessions, 10):  # a class comes in within some seconds, not within one
        await asyncio.gather(*(visitor.open() for visitor in visitors[start : start + 10]))
    before, until = cpu_of(server.process), time.perf_counter() + lasts
    moving = [keep_moving(visitor, until, found, random.Random(draw.random())) for visitor in visitors]
    ended = await asyncio.gather(*moving, open_more(server, query, until, found), return_exceptions=True)
    found.cpu = cpu_of(server.process) - before
    start_of_burst = time.perf_counter()
    at_once = await asyncio.gather(
        *(visitor.move("Seed", SETTINGS + 1 + place % SETTINGS) for place, visitor in enumerate(visitors)),
        return_exceptions=True,
    )
    found.settled = time.perf_counter() - start_of_burst
    found.burst = [run for run in at_once if isinstance(run, Run)]
    found.lost = sum(isinstance(end, BaseException) for end in (*ended, *at_once))
    for visitor in visitors:
        with suppress(Exception):
            await visitor.close()
    await asyncio.sleep(2)
    found.memory.append(memory_of(server.process))
    watching.cancel()
    return found


def late_of(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def row(what: str, sessions: int, found: Found) -> str:
    """One line of the table."""
    seconds = [1000 * run.seconds for run in found.runs]
    opened = [1000 * run.seconds for run in found.opened]
    changes = len(found.runs) or 1
    middle, late = statistics.median(seconds), late_of(seconds)
    size = statistics.median(run.received for run in found.runs)
    return (
        f"{what:10} {sessions:4} {len(found.runs):6} {middle:8.0f} {late:7.0f} {max(seconds):7.0f} {found.faults:7} "
        f"{found.lost:5} {size:9.0f} {1000 * found.cpu / changes:7.0f} "
        f"{statistics.median(opened):7.0f} {late_of(opened):6.0f} {found.settled:7.2f} "
        f"{found.memory[0]:6} {max(found.memory):6} {found.memory[-1]:6}"
    )


HEAD: Final = (
    f"{'':10} {'N':>4} {'moves':>6} {'median':>8} {'95th':>7} {'largest':>7} {'faults':>7} {'lost':>5} {'bytes':>9} "
    f"{'CPU':>7} {'opens':>7} {'95th':>6} {'burst s':>7} {'MB':>6} {'peak':>6} {'after':>6}"
)


def main(counts: Sequence[int]) -> None:
    """Both servers at every number of sessions, in turns."""
    print("change to finished run, ms; bytes of an update, median; CPU ms a change; first run of a new session, ms")
    print(HEAD)
    for sessions in counts:
        for what, script, query in (("dashboard", APP, SCENE), ("floor", FLOOR, "")):
            with serve(script) as server:  # each begins with empty caches
                print(row(what, sessions, asyncio.run(a_class(server, query, sessions))), flush=True)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or SESSIONS)
