"""Trains the presets that come with the package: `python -m attention.trained.make`.

It writes the weights and the manifest beside this file, and says what came out. With names of tasks after it, those
alone are made again.
"""

import sys
import time
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

from attention.trained.lessons import LESSONS, Lesson
from attention.trained.measuring import accuracy, fresh, on_pattern
from attention.trained.model import Model
from attention.trained.presets import MANIFEST, NamedHead, Preset, as_json, presets
from attention.trained.training import finished

WEIGHTS: Final = Path(__file__).parent / "weights"


def make(lesson: Lesson) -> tuple[Preset, Model]:
    """Train what works and what fails, and measure both on fresh sequences."""
    model = finished(lesson.works)
    batch = fresh(model.config.learns)
    heads = tuple(_best(model, pattern) for pattern in lesson.works.learns.patterns)
    failed = accuracy(finished(lesson.fails), batch) if lesson.fails else None
    return Preset(
        lesson.works, round(accuracy(model, batch), 4), heads, lesson.fails, failed and round(failed, 4)
    ), model


def _best(model: Model, pattern: str) -> NamedHead:
    weights = on_pattern(model, fresh(model.config.learns), pattern)
    layer, head = divmod(int(weights.argmax()), model.config.heads)
    return NamedHead(pattern, layer, head, round(weights[layer, head].item(), 4))


def main(names: list[str]) -> None:
    """Make those presets, or all."""
    torch.set_num_threads(1)
    WEIGHTS.mkdir(exist_ok=True)
    made = dict(presets()) if names else {}
    for name in names or LESSONS:
        start = time.perf_counter()
        made[name], model = make(LESSONS[name])
        save_file(dict(model.parameters), WEIGHTS / made[name].file)
        print(f"{name}: {time.perf_counter() - start:.1f} s; {made[name]}", flush=True)  # noqa: T201
    (WEIGHTS / MANIFEST).write_text(as_json(made), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
