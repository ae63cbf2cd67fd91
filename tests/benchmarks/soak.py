"""Whether the server's memory stays where it is: many different settings, one after the other.

    python -m tests.benchmarks.soak [settings]

Four sessions type new seeds and move the number of tokens, as fast as the server answers; no setting comes twice. The
server's memory after 100 settings is what it is measured against; at the end it may be 300 MB more.
"""

import asyncio
import random
import sys
import time
from typing import Final

from tests.benchmarks.load import APP, memory_of
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import Server, serve

SCENE: Final = "embed_dim=64&num_heads=4&num_tokens=32"
SETTINGS: Final = 20_000
SESSIONS: Final = 4
WARM: Final = 100
ALLOWED: Final = 300  # MB


class Soak:
    """The settings so far, and the server's memory along the way."""

    def __init__(self, server: Server, settings: int) -> None:
        self.server, self.settings = server, settings
        self.done, self.faults = 0, 0
        self.memory: dict[int, int] = {}
        self.start = time.perf_counter()

    async def visit(self, place: int) -> None:
        """One session, until all settings are done."""
        draw = random.Random(place)
        visitor = Visitor(self.server.address, SCENE)
        await visitor.open()
        while self.done < self.settings:
            if draw.random() < 0.1:
                run = await visitor.move("Tokens", draw.randint(1, 64))
            else:
                run = await visitor.move("Any seed", draw.randrange(2**32))
            self.faults += bool(run.faults)
            self.done += 1
            if self.done == WARM or self.done % (self.settings // 10) == 0:
                self.memory[self.done] = memory_of(self.server.process)
                print(
                    f"{self.done:7} {time.perf_counter() - self.start:7.0f} s {self.memory[self.done]:6} MB", flush=True
                )
        await visitor.close()


async def soak(server: Server, settings: int) -> Soak:
    """All sessions together."""
    found = Soak(server, settings)
    await asyncio.gather(*(found.visit(place) for place in range(SESSIONS)))
    return found


def main(settings: int) -> int:
    """Print the memory along the way; 1 if it has grown by more than is allowed, or a run went wrong."""
    with serve(APP) as server:
        found = asyncio.run(soak(server, settings))
    grown = max(found.memory.values()) - found.memory[WARM]
    print(
        f"{settings} settings: {grown} MB more than after {WARM} at the most ({ALLOWED} allowed), {found.faults} faults"
    )
    return 1 if grown > ALLOWED or found.faults else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SETTINGS))
