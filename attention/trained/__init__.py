"""Heads that have learnt: tasks, a small transformer, its training, and trained weights that come with it.

Example:
    >>> model = load_preset("repeat")
    >>> task = model.config.learns
    >>> batch = fresh(model.config.learns, size=1)
    >>> labels, weights = task.labels(batch.tokens[0]), model.trace(batch.tokens).attention[1].weights[0]
    >>> len(labels), tuple(weights.shape)
    (32, (4, 32, 32))
"""

from attention.trained.config import TrainConfig
from attention.trained.lessons import LESSONS, Lesson
from attention.trained.measuring import accuracy, fresh, knocked_out, on_pattern
from attention.trained.model import Model, ModelTrace
from attention.trained.presets import NamedHead, Preset, load_preset, presets
from attention.trained.sweeping import SweepConfig, Swept, sweep
from attention.trained.task import Batch, Task
from attention.trained.tasks import TASKS
from attention.trained.training import Checkpoint, Diverged, Progress, train
from attention.trained.verdict import verify_model

__all__ = [
    "LESSONS",
    "TASKS",
    "Batch",
    "Checkpoint",
    "Diverged",
    "Lesson",
    "Model",
    "ModelTrace",
    "NamedHead",
    "Preset",
    "Progress",
    "SweepConfig",
    "Swept",
    "Task",
    "TrainConfig",
    "accuracy",
    "fresh",
    "knocked_out",
    "load_preset",
    "on_pattern",
    "presets",
    "sweep",
    "train",
    "verify_model",
]
