"""How long the first visitor waits, from the start of the server, and the second: beside a bare page with torch.

    python -m tests.benchmarks.first_page [rounds]

The clock runs from the start of the process to the painted page (heads and all; the verdict comes later) in a browser
with an empty cache that asks again and again until the server answers. The second visitor comes with an empty cache
too, to a server that is up. Both servers in turns.
"""

import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as BrowserError

from tests.benchmarks.load import APP, late_of
from tests.browser.serving import chromium, free_port, starting

PAGES: Final = {
    "dashboard": (APP, ".heads[data-scene]"),
    "bare page": (Path(__file__).with_name("bare_app.py"), ".bare"),
}
ROUNDS: Final = 7
LIMIT: Final = 1.5


def visit(browser: Browser, address: str, painted: str, start: float) -> float:
    """Seconds from `start` to the painted page, for somebody who comes for the first time."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    while True:
        try:
            page.goto(address, wait_until="commit")
            break
        except BrowserError:  # nobody listens yet
            page.wait_for_timeout(20)
    page.locator(painted).first.wait_for(timeout=60_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.perf_counter() - start
    context.close()
    return seconds


def main(rounds: int) -> int:
    """Print both; 1 if the dashboard takes more than 1.5 × as long at the median."""
    first, second = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    with sync_playwright() as playwright, chromium(playwright) as browser:
        for _ in range(rounds):
            for what, (script, painted) in PAGES.items():
                port = free_port()
                start = time.perf_counter()
                with starting(script, port=port) as server:
                    first[what].append(visit(browser, server.address, painted, start))
                    second[what].append(visit(browser, server.address, painted, time.perf_counter()))
    over = 0
    for who, times in (("first visitor, from the start of the server", first), ("second visitor", second)):
        medians = {what: statistics.median(seconds) for what, seconds in times.items()}
        print(f"{who}, {rounds} rounds; s, median / 95th percentile")
        for what, seconds in times.items():
            late = late_of(seconds)
            print(f"  {what:10} {medians[what]:5.2f} / {late:5.2f}")
        ratio = medians["dashboard"] / medians["bare page"]
        print(f"  {ratio:.2f} × (limit {LIMIT})")
        over += ratio > LIMIT
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS))
