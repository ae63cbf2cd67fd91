"""Trained weights that come with the package: one model a lesson, and what is known of it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from attention.trained.config import TrainConfig
from attention.trained.model import Model, shapes

MANIFEST: Final = "presets.json"


@dataclass(frozen=True)
class NamedHead:
    """The head that shows a pattern, and the mean weight that it puts on the right key of fresh sequences."""

    pattern: str
    layer: int
    head: int
    weight: float


@dataclass(frozen=True)
class Preset:
    """What is known of a trained model: its run, its accuracy on fresh sequences, its heads, and what failed."""

    config: TrainConfig
    accuracy: float
    heads: tuple[NamedHead, ...]
    failed: TrainConfig | None
    failed_accuracy: float | None

    @property
    def file(self) -> str:
        """The name of the file with its weights."""
        return f"{self.config.task.replace(' ', '-')}.safetensors"


def as_json(presets: Mapping[str, Preset]) -> str:
    """The manifest. It says the length of the task's sequences too, for who reads it alone (`trained_layers`)."""
    found = {name: {**asdict(preset), "length": preset.config.learns.length} for name, preset in presets.items()}
    return json.dumps(found, indent=2) + "\n"


@cache
def presets() -> Mapping[str, Preset]:
    """All presets, by the name of their task."""
    found: dict[str, Any] = json.loads((files(__package__) / "weights" / MANIFEST).read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            name: Preset(
                config=TrainConfig(**known["config"]),
                accuracy=known["accuracy"],
                heads=tuple(NamedHead(**head) for head in known["heads"]),
                failed=TrainConfig(**known["failed"]) if known["failed"] else None,
                failed_accuracy=known["failed_accuracy"],
            )
            for name, known in found.items()
        }
    )


def load_preset(name: str) -> Model:
    """The trained model of a task.

    Raises:
        ValueError: there is no such preset, or its file does not hold what its config asks for.
    """
    if name not in presets():
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(presets())}.")
    preset = presets()[name]
    with as_file(files(__package__) / "weights" / preset.file) as path:
        return load(path, preset.config)


def load(path: Path, config: TrainConfig) -> Model:
    """The model of a config from a file of weights.

    Raises:
        ValueError: the file cannot be read, or a name, a shape or a number in it is not as the config asks.
    """
    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read as safetensors: {error}.") from error
    check_parameters(found, config, path.name)
    return Model(config, found)


def check_parameters(found: dict[str, Tensor], config: TrainConfig, name: str) -> None:
    """Refuse weights that are not those of a config.

    Raises:
        ValueError: as said; the message names the first that is missing, not known, of other shape, or not finite.
    """
    wanted = shapes(config)
    for parameter in wanted:
        if parameter not in found:
            raise ValueError(f"{name} has no {parameter}, which this model needs.")
    for parameter, tensor in found.items():
        if parameter not in wanted:
            raise ValueError(f"{name} has {parameter}, which this model does not know.")
        if tuple(tensor.shape) != wanted[parameter] or tensor.dtype != torch.float32:
            raise ValueError(
                f"{parameter} in {name} is {tuple(tensor.shape)} of {tensor.dtype}; "
                f"it must be {wanted[parameter]} of torch.float32."
            )
        if not tensor.isfinite().all():
            raise ValueError(f"{parameter} in {name} holds numbers that are not finite.")
