"""Training on the real server: each lesson by one visitor, ten visitors at once, and what the others wait meanwhile.

    python -m tests.benchmarks.training

Visitors are real websocket sessions that press the button and ask for the picture as often as a page does. A lesson
counts once its accuracy is the one that it states. What others wait is taken on one server, in turns: a class types
seeds that nobody has had while nothing is trained, then while as many visitors train as the machine has cores, and then
again while nothing is; the ratio is of the medians. The sessions run on the same machine as the server, and take their
share of it.
"""

import asyncio
import os
import random
import re
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from attention.trained import LESSONS
from tests.benchmarks.load import APP, SCENE, late_of, memory_of
from tests.benchmarks.visitor import Visitor
from tests.browser.serving import Server, serve

CLASS: Final = 10
MOVES: Final = 12  # of each of the class
EVERY: Final = 1.0  # seconds
LIMIT: Final = 30.0  # seconds that a lesson may take


class TrainingError(AssertionError):
    """A run that did not come to its end, or not to its accuracy."""


async def train(address: str, task: str, more: str = "") -> tuple[float, float, list[float]]:
    """Press the button and stay until the end: seconds, the accuracy that is said, and how long each picture took."""
    visitor = Visitor(address, f"task={task.replace(' ', '+')}{more}", "train")
    faults = list((await visitor.open()).faults)
    start = time.perf_counter()
    faults += (await visitor.press("Train")).faults
    pictures = []
    while (run := await visitor.beat()) is not None:
        pictures.append(1000 * run.seconds)
        faults += run.faults
    seconds = time.perf_counter() - start
    said = " ".join(visitor.said)
    await visitor.close()
    found = re.search(r": trained\] \*\*([\d.]+)%\*\* of fresh positions right", said)
    if faults or not found:
        raise TrainingError(f"{task}: {faults or said}")
    return seconds, float(found[1]) / 100, pictures


def lessons(server: Server) -> None:
    """Each lesson alone, with another seed than the one that comes trained."""
    print(f"{'lesson':12} {'seconds':>8} {'accuracy':>9} {'picture ms':>11} {'95th':>6}")
    for place, (task, lesson) in enumerate(LESSONS.items()):
        seconds, accuracy, pictures = asyncio.run(train(server.address, task, f"&train_seed={100 + place}"))
        print(
            f"{task:12} {seconds:8.1f} {accuracy:9.1%} {statistics.median(pictures):11.0f} {late_of(pictures):6.0f}",
            flush=True,
        )
        if seconds > LIMIT or accuracy < lesson.reaches - 0.02:  # said of the last batch, and not of 512 sequences
            raise TrainingError(f"{task}: {seconds:.1f} s to {accuracy:.1%}")


async def _crowd(server: Server) -> list[tuple[float, float, list[float]]]:
    tasks = [task for _, task in zip(range(CLASS), list(LESSONS) * CLASS, strict=False)]
    return await asyncio.gather(
        *(train(server.address, task, f"&train_seed={200 + place}") for place, task in enumerate(tasks))
    )


def crowd(server: Server) -> None:
    """Ten visitors at once, each with settings of their own."""
    before, start = memory_of(server.process), time.perf_counter()
    found = asyncio.run(_crowd(server))
    waits = sorted(seconds for seconds, *_ in found)
    print(
        f"\n{CLASS} at once, each another run: all done after {time.perf_counter() - start:.0f} s (the first after "
        f"{waits[0]:.0f}, the middle after {statistics.median(waits):.0f}), none lost; memory {before} MB, then "
        f"{memory_of(server.process)} MB"
    )


async def _moves(visitors: Sequence[Visitor], draw: random.Random) -> list[float]:
    """How long each of a class waits for a new picture, in milliseconds."""

    async def one(visitor: Visitor) -> list[float]:
        await asyncio.sleep(draw.uniform(0, EVERY))
        found = []
        for _ in range(MOVES):
            run = await visitor.move("Any seed", draw.randrange(2**31))
            if run.faults:
                raise TrainingError(str(run.faults))
            found.append(1000 * run.seconds)
            await asyncio.sleep(EVERY)
        return found

    return [seconds for times in await asyncio.gather(*(one(visitor) for visitor in visitors)) for seconds in times]


async def _others(server: Server) -> list[list[float]]:
    cores, draw = os.cpu_count() or 1, random.Random(0)
    visitors = [Visitor(server.address, SCENE) for _ in range(CLASS)]
    for visitor in visitors:
        await visitor.open()
    rounds = [await _moves(visitors, draw)]
    # long runs, so that they last
    more = "&train_layers=4&train_heads=8&train_feed_forward=true"
    training = [
        asyncio.create_task(train(server.address, "two keys", f"{more}&train_seed={300 + core}"))
        for core in range(cores)
    ]
    await asyncio.sleep(2)
    rounds.append(await _moves(visitors, draw))
    for task in training:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await asyncio.sleep(6)  # until the server knows that they have left
    rounds.append(await _moves(visitors, draw))
    for visitor in visitors:
        await visitor.close()
    return rounds


def others(server: Server) -> None:
    """What those wait who only look, while as many train as there are cores."""
    print(f"\n{'a class of ' + str(CLASS) + ' types a seed':34} {'median ms':>10} {'95th':>6}")
    before, during, after = asyncio.run(_others(server))
    for name, found in (("nothing is trained", before), ("a training on every core", during), ("again nothing", after)):
        print(f"{name:34} {statistics.median(found):10.0f} {late_of(found):6.0f}")
    quiet = [*before, *after]
    print(f"ratio of the medians {statistics.median(during) / statistics.median(quiet):.2f}")


def main() -> None:
    """All three."""
    with serve(APP) as server:
        lessons(server)
        crowd(server)
        others(server)


if __name__ == "__main__":
    main()
