"""Training as a generator: one step after the other, which can be stopped anywhere and go on from a checkpoint.

All that a run is at a step is in its checkpoint. The batch of a step is drawn from a generator of its own, seeded by
the run's seed and the number of the step, so there is no random state to keep.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from attention import sample
from attention.trained import model as models
from attention.trained.config import TrainConfig
from attention.trained.model import Model
from attention.trained.task import Batch

WARM_UP: Final = 10  # steps over which the learning rate rises to its value
STEADY: Final = 300  # steps up to which it stays there; then it falls with the root of the steps
LARGEST_GRADIENT: Final = 1.0
WEIGHT_DECAY: Final = 0.01
DIVERGED: Final = 4.0  # times the loss of one who guesses among all tokens


class Diverged(ArithmeticError):
    """Training went wrong for good; the message says where and what to do."""

    def __init__(self, config: TrainConfig, step: int, loss: float) -> None:
        guessing = math.log(len(config.learns.vocabulary))
        super().__init__(
            f"With a learning rate of {config.learning_rate:g} the training diverged at step {step}: the loss is "
            f"{loss:.3g}, where guessing has {guessing:.3g}. Try a smaller one, such as 0.003."
        )
        self.step, self.loss = step, loss


@dataclass(frozen=True)
class Checkpoint:
    """All that a run is after `step` steps: nobody changes it, and `train` can go on from it."""

    step: int
    model: Model
    optimizer: Mapping[str, Any]


@dataclass(frozen=True)
class Progress:
    """How the model does after `step` steps, on a batch that it has not seen; now and then with a checkpoint."""

    step: int
    loss: float
    accuracy: float
    checkpoint: Checkpoint | None


def train(config: TrainConfig, start: Checkpoint | None = None, *, checkpoint_every: int = 10) -> Iterator[Progress]:
    """Train up to `config.steps` steps, and say after each how it went: from step 0, before any, to the last.

    Nothing is computed between two items: who stops asking stops the training.

    Args:
        config: what is trained.
        start: where to go on; its run may have had fewer steps. The item of its step comes again.
        checkpoint_every: after how many steps an item has a checkpoint; the last one always has.

    Raises:
        ValueError: the checkpoint is of another config, or of a later step.
        Diverged: the loss is no number any more, or far over that of guessing. No checkpoint has come of it.
    """
    check_start(config, start)
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every is {checkpoint_every}; it must be from 1 up.")
    run = _Run(config, start)
    for step in range(start.step if start else 0, config.steps + 1):
        loss, accuracy = run.look(step)
        if not loss.item() <= DIVERGED * math.log(len(config.learns.vocabulary)):  # NaN is not either
            raise Diverged(config, step, loss.item())
        is_due = step % checkpoint_every == 0 or step == config.steps
        yield Progress(step, loss.item(), accuracy, run.checkpoint(step) if is_due else None)
        if step < config.steps:
            run.improve(step, loss)


def finished(config: TrainConfig) -> Model:
    """The model at the end of its run.

    Raises:
        Diverged: as `train`.
    """
    *_, last = train(config, checkpoint_every=config.steps)
    if last.checkpoint is None:
        raise AssertionError("the last item of a run has a checkpoint")
    return last.checkpoint.model


def check_start(config: TrainConfig, start: Checkpoint | None) -> None:
    """Refuse to go on from what is not of this run.

    Raises:
        ValueError: as said.
    """
    if start is None:
        return
    if replace(start.model.config, steps=config.steps) != config:
        raise ValueError("the checkpoint is of another run: its config differs in more than the number of steps.")
    if start.step > config.steps:
        raise ValueError(f"the checkpoint is of step {start.step}; the run has {config.steps} steps.")


def batch_of(config: TrainConfig, step: int) -> Batch:
    """The sequences of a step."""
    return config.learns.batch(sample.generator(f"train/batch {step}", config.seed), config.batch_size)


def schedule(step: int) -> float:
    """What the learning rate is multiplied by at a step.

    How many steps there will be does not matter, so that a run can be made longer.

    The shape is that of "Attention Is All You Need", section 5.3, with a level part between rise and fall.
    """
    return min((step + 1) / WARM_UP, 1.0, math.sqrt(STEADY / (step + 1)))


class _Run:
    """The parameters that are being trained, and their optimizer."""

    def __init__(self, config: TrainConfig, start: Checkpoint | None) -> None:
        held = (start.model if start else models.draw(config)).parameters
        self._parameters = {name: tensor.clone().requires_grad_() for name, tensor in held.items()}
        self._model = Model(config, self._parameters)
        self._optimizer = torch.optim.AdamW(
            self._parameters.values(), lr=config.learning_rate, weight_decay=WEIGHT_DECAY
        )
        if start:
            self._optimizer.load_state_dict(copy.deepcopy(dict(start.optimizer)))

    def look(self, step: int) -> tuple[Tensor, float]:
        """Loss and accuracy on the sequences of a step."""
        batch = batch_of(self._model.config, step)
        with torch.enable_grad():
            logits = self._model.run(batch.tokens).logits[batch.counted]
            right = batch.targets[batch.counted]
            return F.cross_entropy(logits, right), (logits.argmax(dim=-1) == right).double().mean().item()

    def improve(self, step: int, loss: Tensor) -> None:
        """One step of AdamW."""
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._parameters.values(), LARGEST_GRADIENT)
        for group in self._optimizer.param_groups:
            group["lr"] = self._model.config.learning_rate * schedule(step)
        self._optimizer.step()

    def checkpoint(self, step: int) -> Checkpoint:
        """A copy of everything."""
        parameters = {name: tensor.detach().clone() for name, tensor in self._parameters.items()}
        return Checkpoint(step, Model(self._model.config, parameters), copy.deepcopy(self._optimizer.state_dict()))
