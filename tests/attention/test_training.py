"""Training: the same run each time, stopped and gone on with, and what becomes of a learning rate that is too high."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from attention.trained import Checkpoint, Diverged, Progress, TrainConfig, accuracy, fresh, train
from attention.trained.training import schedule

SMALL = TrainConfig(task="previous", causal=True, heads=2, width=16, batch_size=8, steps=12)


def finished(config: TrainConfig, start: Checkpoint | None = None) -> list[Progress]:
    return list(train(config, start, checkpoint_every=4))


def checkpoint_of(progress: Progress) -> Checkpoint:
    assert progress.checkpoint is not None
    return progress.checkpoint


def same(a: Checkpoint, b: Checkpoint) -> bool:
    """Whether all parameters, and all that the optimizer knows, are the same to the last bit."""
    ours, others = (flat([dict(x.model.parameters), x.optimizer]) for x in (a, b))
    return a.step == b.step and len(ours) == len(others) and all(map(torch.equal, ours, others))


def flat(x: Any) -> list[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        return flat(list(x.values()))
    return [t for each in x for t in flat(each)] if isinstance(x, (list, tuple)) else []


def test_every_step_is_told_and_some_have_a_checkpoint() -> None:
    told = finished(replace(SMALL, steps=10))
    assert [progress.step for progress in told] == list(range(11))
    assert [progress.step for progress in told if progress.checkpoint] == [0, 4, 8, 10]
    assert told[-1].loss < told[0].loss


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    state = torch.random.get_rng_state()
    first, again, other = finished(SMALL), finished(SMALL), finished(replace(SMALL, seed=1))
    assert [(p.loss, p.accuracy) for p in first] == [(p.loss, p.accuracy) for p in again]
    assert same(checkpoint_of(first[-1]), checkpoint_of(again[-1]))
    assert not same(checkpoint_of(first[-1]), checkpoint_of(other[-1]))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_run_that_goes_on_is_the_run_that_never_stopped() -> None:
    whole = finished(SMALL)
    start = checkpoint_of(whole[4])
    before = [tensor.clone() for tensor in flat([dict(start.model.parameters), start.optimizer])]
    rest = finished(SMALL, start)
    assert [(p.step, p.loss, p.accuracy) for p in rest] == [(p.step, p.loss, p.accuracy) for p in whole[4:]]
    assert same(checkpoint_of(rest[-1]), checkpoint_of(whole[-1]))
    kept = flat([dict(start.model.parameters), start.optimizer])
    assert all(map(torch.equal, before, kept))  # nobody changed what it went on from


def test_a_run_can_be_made_longer() -> None:
    short = finished(replace(SMALL, steps=6))
    longer = finished(SMALL, checkpoint_of(short[-1]))
    assert same(checkpoint_of(longer[-1]), checkpoint_of(finished(SMALL)[-1]))


def test_two_runs_in_turns_do_not_touch_each_other() -> None:
    other = replace(SMALL, seed=5)
    mixed = list(zip(train(SMALL), train(other), strict=True))
    assert [p.loss for p, _ in mixed] == [p.loss for p in finished(SMALL)]
    assert [p.loss for _, p in mixed] == [p.loss for p in finished(other)]


def test_the_first_steps_are_those_of_adamw() -> None:
    """By the equations of "Decoupled Weight Decay Regularization", algorithm 2, on one parameter."""
    told = list(train(replace(SMALL, steps=1), checkpoint_every=1))
    before, after = checkpoint_of(told[0]).model.parameters["tokens"], checkpoint_of(told[1]).model.parameters["tokens"]
    rate, moved = 3e-3 / 10, after != before * (1 - 3e-4 * 0.01)
    # after one step both averages, freed of their bias, are the gradient and its square: the step is its sign
    step = ((before * (1 - rate * 0.01)) - after)[moved].abs()
    assert moved.any()
    assert step.max() <= rate * 1.001
    assert step.median() == pytest.approx(rate, rel=0.01)


def test_the_rate_rises_stays_and_falls() -> None:
    rates = [schedule(step) for step in range(1200)]
    assert rates[0] == 0.1
    assert set(rates[9:300]) == {1.0}
    assert all(a > b for a, b in pairwise(rates[300:]))
    assert rates[1199] == 0.5


@pytest.mark.parametrize("rate", [1.0, 10.0])
def test_a_rate_that_diverges_is_said_in_words(rate: float) -> None:
    told: list[Progress] = []
    with pytest.raises(Diverged, match=f"learning rate of {rate:g} the training diverged at step") as said:
        told.extend(train(replace(SMALL, learning_rate=rate, steps=200), checkpoint_every=1))
    assert f"the loss is {said.value.loss:.3g}, where guessing has 3.26" in str(said.value)
    assert said.value.step == len(told)
    for progress in told:  # no picture of NaN
        parameters = checkpoint_of(progress).model.parameters
        assert all(tensor.isfinite().all() for tensor in parameters.values())


def test_a_small_model_learns_from_scratch() -> None:
    config = TrainConfig(task="previous", causal=True, width=32, steps=80)
    model = checkpoint_of(finished(config)[-1]).model
    assert accuracy(model, fresh(model.config.learns, 64)) > 0.95


def test_what_is_not_of_a_run_is_refused() -> None:
    start = checkpoint_of(finished(SMALL)[-1])
    with pytest.raises(ValueError, match="the checkpoint is of another run"):
        next(train(replace(SMALL, seed=1), start))
    with pytest.raises(ValueError, match="the checkpoint is of step 12; the run has 6 steps"):
        next(train(replace(SMALL, steps=6), start))
    with pytest.raises(ValueError, match="checkpoint_every is 0"):
        next(train(SMALL, checkpoint_every=0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "chess"}, "task is 'chess'; it must be one of previous, reverse, repeat"),
        ({"layers": 5}, "layers is 5; it must be from 1 to 4"),
        ({"heads": 9}, "heads is 9; it must be from 1 to 8"),
        ({"heads": 3}, "width 16 does not divide into 3 heads"),
        ({"causal": 1}, "causal is 1; it must be True or False"),
        ({"steps": 5001}, "steps is 5001; it must be from 1 to 5000"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **changes)
