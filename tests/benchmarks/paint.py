"""From a key press on the seed slider to the new picture, in headless Chromium, beside a floor page.

    python -m tests.benchmarks.paint [changes]

Every change is a new seed, so nothing comes from a cache. The clock starts at the trusted key press
and stops at the second animation frame after the picture says that it is drawn. The floor of a size is
an otherwise empty page with the slider that computes the same attention and draws nothing; the empty
page computes nothing either. All pages take turns in one run, so that they share whatever else the
machine does. Before the clock runs, the number that the page shows is compared with the library's.
"""

import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from attention import AttentionConfig
from attention.multi_head import attend_as_configured
from tests.browser.serving import chromium, serve

SIZES = {
    "12 x 64": (AttentionConfig(embed_dim=768, num_heads=12, num_tokens=64, seed=0), 1.6),
    "16 x 128": (AttentionConfig(embed_dim=1024, num_heads=16, num_tokens=128, seed=0), 2.0),
    "32 x 256": (AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, seed=0), 3.5),
    "12 x 64, no mask": (AttentionConfig(embed_dim=768, num_heads=12, num_tokens=64, seed=0, causal=False), 1.6),
    "16 x 128, no mask": (AttentionConfig(embed_dim=1024, num_heads=16, num_tokens=128, seed=0, causal=False), 2.0),
    "32 x 256, no mask": (AttentionConfig(embed_dim=1024, num_heads=32, num_tokens=256, seed=0, causal=False), 3.5),
}
FLOOR = Path(__file__).with_name("floor_app.py")
APP = Path(__file__).parents[2] / "dashboard" / "app.py"

CLOCK = """
() => {
  window.clock = {};
  const press = (event) => { if (event.isTrusted) window.clock = { start: event.timeStamp }; };
  document.addEventListener("keydown", press, true);
  const frames = (done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  const note = (name) => frames((now) => { window.clock[name] ??= now - window.clock.start; });
  const drawn = document.querySelector("[data-scene]");
  let shown = drawn.dataset.scene;
  new MutationObserver(() => {
    const now = document.querySelector("[data-scene]")?.dataset.scene;
    if (now && now !== shown) { shown = now; note("picture"); }
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-scene"] });
  const line = document.querySelector(".st-key-verdict");
  let checking = false;
  if (line) new MutationObserver(() => {
    const now = line.textContent.includes("being checked");
    if (checking && !now) note("verdict");
    checking = now;
  }).observe(line, { subtree: true, childList: true, characterData: true });
}
"""


@dataclass
class Lane:
    """One open page and its times in milliseconds."""

    name: str
    page: Page
    has_verdict: bool
    picture: list[float] = field(default_factory=list)
    verdict: list[float] = field(default_factory=list)

    def change(self, seed: int, *, keep: bool) -> None:
        """Press the key once, and wait for what it brings."""
        self.page.bring_to_front()
        self.page.locator('input[type=range][aria-label="Seed"]').focus()
        self.page.wait_for_timeout(400)
        self.page.keyboard.press("ArrowRight")
        done = "verdict" if self.has_verdict else "picture"
        self.page.wait_for_function(f"() => window.clock.{done} !== undefined", timeout=30_000)
        clock = self.page.evaluate("() => window.clock")
        scene = self.page.locator("[data-scene]").get_attribute("data-scene")
        assert scene == str(seed) or f"seed{seed}-" in str(scene), f"{self.name}: seed {seed} asked, {scene} drawn"
        if keep:
            self.picture.append(clock["picture"])
            if self.has_verdict:
                self.verdict.append(clock["verdict"])


def check(page: Page, config: AttentionConfig) -> None:
    """The page's exact number for the pinned cell is the library's, and its verdict says equal."""
    shown = page.locator(".heads .readout").text_content() or ""
    weight = attend_as_configured(config).weights[0, 0, 9, 4].item()
    text = shown.split(": ")[1].split(" (")[0]
    assert abs(float(text) - weight) < 1e-8 * weight, f"the page says {text}, the library {weight}"
    page.get_by_text("equal PyTorch's").wait_for(timeout=30_000)


@contextmanager
def lanes() -> Iterator[list[Lane]]:
    """Every page open, checked, and warm: the empty page, then each size's floor and the size itself."""
    with serve(APP) as app, serve(FLOOR) as floor, sync_playwright() as playwright, chromium(playwright) as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 900})

        def lane(name: str, address: str, config: AttentionConfig | None) -> Lane:
            page = context.new_page()
            page.goto(address)
            page.locator("[data-scene]").wait_for(state="attached", timeout=60_000)
            if config:
                check(page, config)
            page.evaluate(CLOCK)
            return Lane(name, page, config is not None)

        opened = [lane("empty page", f"{floor.address}/?num_heads=0", None)]
        for name, (config, _) in SIZES.items():
            opened.append(lane(f"{name}, floor", f"{floor.address}/?{_query(config)}", None))
            opened.append(lane(name, f"{app.address}/?{_query(config)}", config))
        yield opened


def _query(config: AttentionConfig) -> str:
    return (
        f"embed_dim={config.embed_dim}&num_heads={config.num_heads}&num_tokens={config.num_tokens}"
        f"&seed={config.seed}&causal={str(config.causal).lower()}"
    )


def main(changes: int = 30) -> None:
    """Print the table."""
    warm_up = 3
    with lanes() as opened:
        for turn in range(warm_up + changes):
            for lane in opened:
                lane.change(turn + 1, keep=turn >= warm_up)
        empty, *rest = opened
        base = statistics.median(empty.picture)
        print(f"{changes} changes each; ms, median / 95th percentile")
        print(f"empty page {_spread(empty.picture)}")
        for below, lane in zip(rest[::2], rest[1::2], strict=True):
            picture, floor = statistics.median(lane.picture), statistics.median(below.picture)
            later = [v - p for v, p in zip(lane.verdict, lane.picture, strict=True)]
            print(
                f"{lane.name:18} floor {_spread(below.picture):>10}  picture {_spread(lane.picture):>10}"
                f"  {picture / floor:4.2f} × floor (to reach {SIZES[lane.name][1]}), {picture / base:5.2f} × empty"
                f"  verdict {_spread(later):>11} later, {statistics.median(later) / floor:4.2f} × floor"
            )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} / {statistics.quantiles(values, n=20)[-1]:.0f}"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
