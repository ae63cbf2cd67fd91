"""Tasks with cards: put them in order, and look up two at once."""

from typing import Final

import torch

from attention.trained.task import Batch, Task, nowhere, shuffled

RANK: Final = "the card of this rank"
FIRST: Final = "the first card"
SECOND: Final = "the second card"

_PLACES: Final = 16
_LETTERS: Final = "abcdefgh"

_NAMES: Final = "abcd"
_VALUES: Final = 6
_QUESTIONS: Final = 24
_CARDS: Final = tuple(f"{name}{value}" for name in _NAMES for value in range(_VALUES))
_ASKED: Final = tuple(f"{a}−{b}" for a in _NAMES for b in _NAMES if a != b)
_ANSWERS: Final = tuple(f"{x}".replace("-", "−") for x in range(1 - _VALUES, _VALUES))


def _sort(generator: torch.Generator, size: int) -> Batch:
    """Cards numbered from 1 up, each with a letter, in any order; the right one at position i is the i-th smallest."""
    numbers = shuffled(generator, size, _PLACES)
    letters = torch.randint(len(_LETTERS), (size, _PLACES), generator=generator)
    tokens = numbers * len(_LETTERS) + letters
    targets, order = tokens.sort(dim=1)
    return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool), {RANK: order})


def _two_keys(generator: torch.Generator, size: int) -> Batch:
    """A card of each name, each with another number, then questions: one card's number less another's.

    Two heads can take one card's number with a plus and the other's with a minus. One head gives out a single
    average, in which a number would have to count with either sign, depending on the question.
    """
    num = len(_NAMES)
    values = shuffled(generator, size, _VALUES)[:, :num]
    asked = torch.randint(len(_ASKED), (size, _QUESTIONS), generator=generator)
    first, rest = asked // (num - 1), asked % (num - 1)
    second = rest + (rest >= first)
    answer = values.gather(1, first) - values.gather(1, second) + _VALUES - 1
    cards, before = torch.arange(num) * _VALUES + values, nowhere(size, num)
    tokens = torch.cat([cards, len(_CARDS) + asked], dim=1)
    targets = torch.cat([cards, len(_CARDS) + len(_ASKED) + answer], dim=1)
    counted = (torch.arange(num + _QUESTIONS) >= num).expand(size, -1)
    keys = {FIRST: torch.cat([before, first], dim=1), SECOND: torch.cat([before, second], dim=1)}
    return Batch(tokens, targets, counted, keys)


SORT_TASK: Final = Task(
    name="sort",
    says="Put the cards in the order of their numbers.",
    vocabulary=tuple(f"{number}{letter}" for number in range(1, _PLACES + 1) for letter in _LETTERS),
    length=_PLACES,
    chance=1 / len(_LETTERS),
    patterns=(RANK,),
    draw=_sort,
)
TWO_KEYS_TASK: Final = Task(
    name="two keys",
    says="Cards, each with a name and a number, then questions: take one card's number from another's.",
    vocabulary=(*_CARDS, *_ASKED, *_ANSWERS),
    length=len(_NAMES) + _QUESTIONS,
    chance=1 / _VALUES,
    patterns=(FIRST, SECOND),
    draw=_two_keys,
)
