"""Links that ask for nonsense, tried and counted.

    python -m tests.benchmarks.hostile [links]

Every link is opened in a session of its own; what counts is that the page runs to its end, shows no error, and takes
no more than its time. It ends with 1 if anything of it went wrong, or the server's memory has grown.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from typing import Final
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed

from dashboard import controls
from tests.benchmarks.load import APP, memory_of
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import Server, serve

LINKS: Final = 2000
ALLOWED: Final = 300  # MB
SLOW: Final = 5.0  # seconds

PAGES: Final = sorted(file.stem for file in (APP.parent / "app_pages").glob("*.py"))
NAMES: Final = (*controls._PARAMETERS, "nothing_of_that_name", "_seed_slider", "")
VALUES: Final = (
    "", " ", "0", "-1", "1", "2", "12", "99", "1e9", "1e400", "-1e400", "NaN", "inf", "-inf", "None", "null", "true",
    "[]", "{}", "()", "0x10", "1_000", "१२", "12.0", "7.5", "9" * 400, "-" + "9" * 400, "a" * 10_000, "\x00", "\r\n",
    "\u202e",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "'; DROP TABLE x; --",
    "../../../etc/passwd", "${7*7}", "{{7*7}}", "%00", "%n%n", "0-0-0", "9999-9999-9999", "1-2", "float16", "float128",
    "causal", "sum_1", "output", "No scale", "−1e4 for −∞", "🙂" * 50,
)  # fmt: skip


def link(draw: random.Random) -> tuple[str, str]:
    """A page and a query: some parameters, some of them more than once, each possible or not."""
    count = draw.choice([1, 1, 2, 3, 5, 8, 20])
    pairs = [(draw.choice(NAMES), draw.choice(VALUES)) for _ in range(count)]
    if draw.random() < 0.2:
        pairs *= 2  # repeated keys
    query = urlencode(pairs) if draw.random() < 0.9 else "&".join(f"{name}={value}" for name, value in pairs)
    return draw.choice(["", *PAGES, "no_such_page"]), query


async def open_links(server: Server, count: int, draw: random.Random) -> Counter[str]:
    """Every link in a session of its own, four at a time."""
    found: Counter[str] = Counter()
    links = [link(draw) for _ in range(count)]

    async def open_some(mine: list[tuple[str, str]]) -> None:
        for page, query in mine:
            visitor = Visitor(server.address, query, page)
            try:
                run = await visitor.open()
                found["ran to the end"] += not run.faults
                found["showed an error"] += bool(run.faults)
                found[f"took over {SLOW:g} s"] += run.seconds > SLOW
                for fault in run.faults:
                    print(f"  {page}?{query[:200]}: {fault[:200]}")
                await visitor.close()
            except (TimeoutError, OSError, ConnectionClosed) as error:
                found["lost"] += 1
                print(f"  {page}?{query[:200]}: {error!r}")

    await asyncio.gather(*(open_some(links[start::4]) for start in range(4)))
    return found


def main(links: int) -> int:
    """Print what became of them; 1 if anything went wrong."""
    with serve(APP) as server:
        asyncio.run(open_links(server, 20, random.Random(1)))
        before, start = memory_of(server.process), time.perf_counter()
        opened = asyncio.run(open_links(server, links, random.Random(2)))
        print(f"{links} links in {time.perf_counter() - start:.0f} s: {dict(opened)}")
        grown = memory_of(server.process) - before
        traces = server.log.read_text(errors="replace").count("Traceback")
    print(f"the server's memory grew by {grown} MB ({ALLOWED} allowed); its log holds {traces} stack traces")
    bad = opened["showed an error"] + opened["lost"] + opened[f"took over {SLOW:g} s"]
    return 1 if bad or traces or grown > ALLOWED else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else LINKS))
