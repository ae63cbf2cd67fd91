"""What a task is: sequences of tokens, what is right at which position, and which key tells it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sequences that nobody has seen, and their right answers.

    `keys` says by name which key a query should attend to: its position, or -1 where there is nothing to say. A
    task that needs two heads has two names.
    """

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    counted: Bool[Tensor, "B T"]
    keys: Mapping[str, Int[Tensor, "B T"]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. `draw` makes sequences from a generator and a number; their tokens index `vocabulary`.

    `chance` is the accuracy of the best guess of one who sees the token at a position and no other.
    """

    name: str
    says: str
    vocabulary: tuple[str, ...]
    length: int
    chance: float
    patterns: tuple[str, ...]
    draw: Callable[[torch.Generator, int], Batch]

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        """Fresh sequences.

        Raises:
            ValueError: the size is under 1.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"size is {size!r}; it must be a whole number from 1 up.")
        return self.draw(generator, size)

    def labels(self, tokens: Int[Tensor, " T"]) -> list[str]:
        """What the tokens of one sequence are called."""
        return [self.vocabulary[token] for token in tokens.tolist()]

    def tokens(self, labels: list[str]) -> Int[Tensor, "1 T"]:
        """The sequence that is called so.

        Raises:
            ValueError: a label is not in the vocabulary, or there are more than the task's length; the message
                says which.
        """
        if not 1 <= len(labels) <= self.length:
            raise ValueError(f"{len(labels)} tokens; {self.name} takes from 1 to {self.length}.")
        unknown = [label for label in labels if label not in self._index]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not in the vocabulary of {self.name}: {' '.join(self.vocabulary)}.")
        return torch.tensor([[self._index[label] for label in labels]])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.vocabulary)}


def nowhere(size: int, length: int) -> Int[Tensor, "B T"]:
    """Keys of a pattern that says nothing yet."""
    return torch.full((size, length), -1)


def shuffled(generator: torch.Generator, size: int, num: int) -> Int[Tensor, "B N"]:
    """A random order of 0 to num − 1 in each row."""
    return torch.rand(size, num, generator=generator).argsort(dim=1)
