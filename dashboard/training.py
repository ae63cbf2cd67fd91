"""The training runs of this process, which all visitors share, and what is shown of them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import streamlit as st
import torch

from attention import sample
from attention.trained.config import TrainConfig
from attention.trained.model import Model, allowed_by
from attention.trained.task import Batch
from attention.trained.training import train
from dashboard.heatmap import Picture, Words, picture
from dashboard.runs import Runs

EVERY: Final = 10  # steps between two models that are kept
_VISITOR: Final = "_visitor"
WORDS: Final = Words(tiles="heads")


@dataclass(frozen=True)
class Moment:
    """A run after `step` steps; `model` is there now and then."""

    step: int
    loss: float
    accuracy: float
    model: Model | None


def moments(config: TrainConfig) -> Iterator[Moment]:
    """A run from its beginning: what goes on from where it stopped is the iterator itself."""
    for progress in train(config, checkpoint_every=EVERY):
        model = progress.checkpoint.model if progress.checkpoint else None
        yield Moment(progress.step, progress.loss, progress.accuracy, model)


# As many at a time as there are cores; a run is about 10 MB with the models that are kept.
RUNS: Final[Runs[TrainConfig, Moment]] = Runs(moments, at_once=os.cpu_count() or 1, kept=12)


def visitor() -> str:
    """What tells this visitor from others."""
    name: str = st.session_state.setdefault(_VISITOR, uuid4().hex)
    return name


def shown(config: TrainConfig) -> Batch:
    """The one sequence whose attention is drawn: the same for every run of a task and a seed."""
    return config.learns.batch(sample.generator("train/shown", config.seed), 1)


def kept(events: tuple[Moment, ...]) -> list[Moment]:
    """The moments that have a model."""
    return [moment for moment in events if moment.model is not None]


def drawn_of(config: TrainConfig, step: int, model: Model) -> Picture:
    """Every head of every layer on the shown sequence, as a picture whose tokens have names."""
    batch = shown(config)
    layers = model.trace(batch.tokens).attention
    titles = [f"layer {layer}, head {head}" for layer in range(config.layers) for head in range(config.heads)]
    tiles = torch.cat([layer.weights[0] for layer in layers])
    allowed = allowed_by(config, batch.tokens.shape[1])
    return picture(
        tiles.numpy(),
        None if allowed is None else allowed.numpy(),
        f"train-{config.task}-{config.layers}x{config.heads}-seed{config.seed}-step{step}".replace(" ", "-"),
        titles=titles,
        words=WORDS,
        labels=config.learns.labels(batch.tokens[0]),
    )
