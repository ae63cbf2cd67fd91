"""What the tokens of a scene are called: by their position, and by what they are where the weights are trained."""

from collections.abc import Sequence

from attention.scenes import Scene, config_of
from attention.trained import inputs

Names = tuple[str, ...]


def names(scene: Scene) -> tuple[Names, Names]:
    """What those are that ask, and those that are asked; nothing where weights are random, as tokens are then."""
    of_all = inputs.labels(config_of(scene))
    if isinstance(scene, tuple):
        return of_all[-scene[1].num_queries :], of_all[: scene[1].num_keys]
    return of_all, of_all


def named(token: int, labels: Sequence[str] = ()) -> str:
    """A token in a sentence: its position, and its name if it has one."""
    return f"{token} “{labels[token]}”" if token < len(labels) else str(token)


def pair(scene: Scene, kinds: tuple[str, str, str], row: int, column: int) -> str:
    """A cell in a sentence: "query 9 “the” → key 4 “,”". `kinds` are a picture's `Words.pair`."""
    rows, columns = names(scene)
    first, join, second = kinds
    row_name = named(row, rows if first in ("query", "token") else ())
    return f"{first} {row_name} {join} {second} {named(column, columns if second == 'key' else ())}"
