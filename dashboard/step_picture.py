"""From a step of a trace to a picture: which axes it has, which colours, and which cells are masked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attention.compare import apart
from attention.config import AttentionConfig
from attention.multi_head import SQUARE, AttentionTrace, allowed_by
from attention.scenes import Scene
from dashboard.cached import identity
from dashboard.heatmap import ATTENTION, Kind, Picture, Words, picture
from dashboard.token_names import names

_NUMBER: Final = {"scores": "score", "scaled": "scaled score", "masked": "masked score"}


def words(step: str) -> Words:
    """What the axes of a step are: query and key, or token and dimension."""
    name = step.rpartition(".")[2]
    if name in SQUARE:
        return Words(ATTENTION.rows, ATTENTION.columns, ATTENTION.pair, "tiles", _NUMBER.get(name, "weight"))
    return Words("token", "dimension", ("token", "·", "dimension"), "tiles", step)


def of_step(
    step: str,
    tensors: Sequence[Tensor],
    titles: Sequence[str],
    config: Scene,
    allowed: Tensor | None = None,
    called: Words | None = None,
    note: str = "",
    blank: Sequence[int] = (),
    labelled: bool = True,
) -> Picture:
    """A picture of one step, or of the same step several times side by side, on one scale.

    Args:
        step: its name; the last part decides what the axes are.
        tensors: each of (rows, columns).
        titles: one for each.
        config: the scene, for the picture's name.
        allowed: the mask, for steps whose masked cells are to be hatched.
        called: what axes, tiles and numbers are called, where the step's name does not say it.
        note: what tells it from another picture of the same step and titles.
        blank: rows that are left for the reader to fill in.
        labelled: whether the tokens are the scene's own, which have names if its weights are trained.
    """
    kind: Kind = "weights" if step.rpartition(".")[2] in ("weights", "dropped") else "signed"
    numbers: NDArray[np.float32] = np.stack([tensor.float().numpy() for tensor in tensors])
    hatched = None if allowed is None else allowed.numpy()
    name = identity(config, f"{step} {' '.join(titles)} {note}".replace(".", " "))
    called = called or words(step)
    rows, columns = labels(config, called, numbers.shape[1:]) if labelled else ((), ())
    return picture(
        numbers, hatched, safe(name), titles=titles, kind=kind, words=called, blank=blank,
        row_labels=rows, column_labels=columns,
    )  # fmt: skip


def of_difference(
    step: str, ours: Tensor, pytorch: Tensor, config: Scene, allowed: Tensor | None = None, note: str = ""
) -> Picture:
    """|ours − PyTorch's| of one step, (rows, columns) each, on a scale by decades."""
    sizes: NDArray[np.float32] = apart(ours, pytorch)[None].float().numpy()
    said = replace(words(step), number="|ours − PyTorch's|")
    name = safe(identity(config, f"difference {step} {note}".replace(".", " ")))
    hatched = None if allowed is None else allowed.numpy()
    rows, columns = labels(config, said, sizes.shape[1:])
    return picture(
        sizes, hatched, name, titles=["apart"], kind="difference", words=said, row_labels=rows, column_labels=columns
    )


def of_heads(config: AttentionConfig, trace: AttentionTrace) -> Picture:
    """The weights of every head of a scene, whose trace this is."""
    allowed = allowed_by(config)
    mask = None if allowed is None else allowed.numpy()
    rows, columns = names(config)
    weights = trace.weights[0].float().numpy()
    return picture(weights, mask, identity(config), row_labels=rows, column_labels=columns)


def labels(config: Scene, called: Words, shape: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the rows and the columns of a picture are called, where they are all of the scene's tokens."""
    asking, asked = names(config)
    of_tokens = called.pair[0] in ("query", "token") and len(asking) == shape[0]
    return asking if of_tokens else (), asked if called.pair[2] == "key" and len(asked) == shape[1] else ()


def size(tensor: Tensor) -> str:
    """A matrix's shape in words: "5 × 64"."""
    return " × ".join(map(str, tensor.shape))


def safe(name: str) -> str:
    """Only what may stand in a file's name."""
    return "".join(
        character if character.isascii() and (character.isalnum() or character == "-") else "-" for character in name
    )
