"""What axe-core finds on every page: `python -m tests.accessibility [page ...]`.

Every page, light and dark, 1440 and 390 pixels wide, with everything opened that is closed at first, and on a phone
with the sidebar open too. It prints page, look, rule, how many elements break it, and whose they are: ours, or
Streamlit's own, which `tests/browser/axe.py` lists with the reason. It ends with 1 if there is one of ours.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.browser.axe import STREAMLITS, Finding, examine
from tests.browser.looks import DARK, DARK_PHONE, LIGHT, PHONE, visits

_LOOKS: Final = (LIGHT, DARK, PHONE, DARK_PHONE)


def main(wanted: Sequence[str]) -> int:
    """Print them; 1 if one is ours."""
    start = time.perf_counter()
    print(f"{'page':18} {'look':12} {'rule':32} {'elements':>8}  whose")
    ours: dict[tuple[str, str], Finding] = {}
    looked = 0
    for name, look, page in visits(wanted, _LOOKS):
        found = examine(page)
        looked += 1
        for (rule, whose), count in sorted(Counter((one.rule, one.whose) for one in found).items()):
            print(f"{name:18} {look.name:12} {rule:32} {count:8}  {whose}", flush=True)
        if not found:
            print(f"{name:18} {look.name:12} {'nothing':32} {0:8}", flush=True)
        ours |= {(one.rule, one.selector): one for one in found if one.whose == "ours"}
    for one in ours.values():
        print(f"\n{one.rule}: {one.selector}\n  {one.html[:300]}\n  {one.why}")
    for own in STREAMLITS:
        print(f"\nStreamlit's own, {own.rule}, at {own.selector}: {own.reason}")
    print(f"\n{looked} looks at pages in {time.perf_counter() - start:.0f} s: {len(ours)} findings of ours.")
    return 1 if ours or not looked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
