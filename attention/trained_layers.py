"""The layers whose trained weights a scene may have instead of random ones, by name: "repeat, layer 1".

Read from the presets' manifest alone: a scene's config asks what there is, and what is trained is itself made of what
stands on that config.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True)
class TrainedLayer:
    """One layer of a trained model: of which task, and the sizes that its attention was trained with.

    `length` is the number of tokens of the task's sequences: there is no position embedding for more. `blocks` is how
    many whole blocks there are, from this layer on: none where layers have no feed-forward network.
    """

    task: str
    layer: int
    width: int
    heads: int
    causal: bool
    length: int
    blocks: int

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.heads

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.task}, layer {self.layer}"

    @property
    def slug(self) -> str:
        """Its name as it may stand in a file's name."""
        return f"{self.task}-{self.layer}".replace(" ", "-")


def _read() -> Mapping[str, TrainedLayer]:
    manifest = files("attention") / "trained" / "weights" / "presets.json"
    found: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
    layers = (
        TrainedLayer(
            task, layer, c["width"], c["heads"], c["causal"], known["length"], c["feed_forward"] * (c["layers"] - layer)
        )
        for task, known in found.items()
        for c in [known["config"]]
        for layer in range(c["layers"])
    )
    return MappingProxyType({layer.name: layer for layer in layers})


TRAINED_LAYERS: Final = _read()
