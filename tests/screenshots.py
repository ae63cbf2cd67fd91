"""Every page as readers see it, for whoever wants to look: `python -m tests.screenshots DIRECTORY [page ...]`.

Each page in each look (light, dark, 390 pixels wide, 200 % zoom), from top to bottom, and on a phone and zoomed also
what the window shows first, and with the sidebar open.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.browser.looks import LOOKS, ZOOM, at_rest, unfold, visits


def main(directory: Path, wanted: Sequence[str]) -> int:
    """Write them all; returns 0."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, look, page in visits(wanted, LOOKS):
        if look.width <= ZOOM.width:
            page.screenshot(path=directory / f"{name}-{look.name}-window.png")
            page.get_by_test_id("stExpandSidebarButton").click()
            page.get_by_test_id("stSidebarContent").wait_for()
            at_rest(page)
            page.screenshot(path=directory / f"{name}-{look.name}-sidebar.png")
            page.get_by_test_id("stSidebarCollapseButton").locator("button").click()
            at_rest(page)
        unfold(page)
        page.screenshot(path=directory / f"{name}-{look.name}.png")
        print(name, look.name, flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
