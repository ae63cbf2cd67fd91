"""Ten visitors of one server train at once, over real websockets: nobody loses a run."""

import asyncio
import os
import re

from attention.trained import LESSONS
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import APP, serve

LESSON = LESSONS["previous"]
# the last two want the same
SEEDS = (*range(1, 10), 9)
BEATS = 300  # that a visitor waits for the end: two minutes


async def trains(address: str, seed: int) -> tuple[list[int], str]:
    """Open the page, press the button, and stay until the end: the places in the queue, and what is said then."""
    visitor = Visitor(address, f"task=previous&train_seed={seed}", "train")
    faults = list((await visitor.open()).faults)
    faults += (await visitor.press("Train")).faults
    places: list[int] = []
    for _ in range(BEATS):
        said = " ".join(visitor.said)
        places += map(int, re.findall(r"Number (\d+) in the queue", said))
        assert "stopped" not in said
        run = await visitor.beat()
        if run is None:
            break
        faults += run.faults
    await visitor.close()
    assert faults == []
    return places, next(text for text in visitor.said if "fresh positions" in text)


async def class_trains(address: str) -> list[tuple[list[int], str]]:
    return await asyncio.gather(*(trains(address, seed) for seed in SEEDS))


def test_ten_at_once_all_come_to_the_end() -> None:
    with serve(APP) as server:
        found = asyncio.run(class_trains(server.address))
    for _, said in found:
        assert said.startswith(":green-badge[:material/check_circle: trained]"), said
        accuracy = re.search(rf"\*\*([\d.]+)%\*\* of fresh positions right at step {LESSON.works.steps}", said)
        assert accuracy, said
        assert float(accuracy[1]) >= 100 * LESSON.reaches
    assert found[-1][1] == found[-2][1], "one run for both"
    if (os.cpu_count() or 1) < len(set(SEEDS)) - 1:
        assert max((place for places, _ in found for place in places), default=0) > 1, "a queue that everybody saw"
