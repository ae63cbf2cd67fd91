"""The training runs of this process, which all visitors share, and what is shown of them.

A visitor may want one training and one sweep (see `sweeping`) at the same time; both wait in the one queue, `TURNS`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import streamlit as st
import torch

from attention.trained import TrainConfig, accuracy, fresh, load_preset, on_pattern, presets, train
from attention.trained import model as models
from attention.trained.model import Model
from attention.trained.task import Batch
from dashboard import cached
from dashboard.heatmap import Picture, Words, picture
from dashboard.runs import Runs, Turns

EVERY: Final = 5  # steps between two models that are kept
TIMELINE: Final = 25  # of these at most, but for the first and the last
MEASURED_ON: Final = 128  # fresh sequences
SHOWN: Final = 1  # the seed of the sequence whose attention is drawn
WORDS: Final = Words(tiles="heads")
_VISITOR: Final = "_visitor"


@dataclass(frozen=True)
class Take:
    """A run of some settings: the one that all visitors share, or the n-th that one of them has begun anew."""

    config: TrainConfig
    of: str = ""
    number: int = 0


@dataclass(frozen=True)
class Moment:
    """A run after `step` steps; `model` is there now and then."""

    step: int
    loss: float
    accuracy: float
    model: Model | None


def moments(take: Take) -> Iterator[Moment]:
    """A run from its beginning: what goes on from where it stopped is the iterator itself."""
    for progress in train(take.config, checkpoint_every=EVERY):
        model = progress.checkpoint.model if progress.checkpoint else None
        yield Moment(progress.step, progress.loss, progress.accuracy, model)


def thinned(events: list[Moment]) -> list[Moment]:
    """A run with as many of its models as a timeline needs: the first, the last, and some between, spread evenly."""
    last, every = max(moment.step for moment in events if moment.model), EVERY
    while last > every * TIMELINE:
        every *= 2
    return [
        replace(moment, model=None) if moment.model and moment.step % every and moment.step != last else moment
        for moment in events
    ]


# as many runs at a time as there are cores, and none while somebody waits for a picture
TURNS: Final = Turns(os.cpu_count() or 1, give_way=cached.give_way)
# a class of 32 may train as many settings; a run is about 4 MB, with the models that are kept, and 17 MB at most
RUNS: Final[Runs[Take, Moment]] = Runs(moments, TURNS, kept=32, thin=thinned)


def visitor() -> str:
    """What tells this visitor from others."""
    name: str = st.session_state.setdefault(_VISITOR, uuid4().hex)
    return name


def kept(events: tuple[Moment, ...]) -> list[Moment]:
    """The moments that have a model."""
    return [moment for moment in events if moment.model is not None]


def finished(config: TrainConfig) -> tuple[int, Model]:
    """What is shown before anybody trains: the trained model that comes with the package, or the beginning."""
    preset = presets().get(config.task)
    if preset and preset.config == config:
        return config.steps, load_preset(config.task)
    return 0, models.draw(config)


def shown(config: TrainConfig) -> Batch:
    """The one sequence whose attention is drawn: the same for every run of a task."""
    return fresh(config.learns, 1, SHOWN)


def drawn_of(config: TrainConfig, step: int, model: Model) -> Picture:
    """Every head of every layer on the shown sequence, as a picture whose tokens have names."""
    batch = shown(config)
    layers = model.trace(batch.tokens).attention
    labels = config.learns.labels(batch.tokens[0])
    titles = [f"layer {layer}, head {head}" for layer in range(config.layers) for head in range(config.heads)]
    allowed = models.allowed_by(config, batch.tokens.shape[1])
    kind = f"{config.layers}x{config.heads}-{'causal' if config.causal else 'full'}"
    return picture(
        torch.cat([layer.weights[0] for layer in layers]).numpy(),
        None if allowed is None else allowed.numpy(),
        f"train-{config.task}-{kind}-seed{config.seed}-step{step}".replace(" ", "-"),
        titles=titles,
        words=WORDS,
        row_labels=labels,
        column_labels=labels,
    )


def on_patterns(model: Model) -> dict[str, list[list[float]]]:
    """For each pattern of the task the mean weight that every head puts on the right key, by layer and head."""
    batch = fresh(model.config.learns, MEASURED_ON)
    return {name: on_pattern(model, batch, name).tolist() for name in model.config.learns.patterns}


def knocked(model: Model, layer: int, head: int) -> tuple[float, float]:
    """The accuracy on fresh sequences with a head and without it."""
    batch = fresh(model.config.learns, MEASURED_ON)
    return accuracy(model, batch), accuracy(model.without_head(layer, head), batch)
