"""Tasks in which tokens have an order or a name: sort numbers, and look up two cards at once."""

from math import comb
from typing import Final

import torch

from attention.trained.task import Batch, Task, nowhere, shuffled

RANK: Final = "the number of this rank"
FIRST: Final = "the first card"
SECOND: Final = "the second card"

_NUMBERS: Final = 64
_SORTED: Final = 10

_NAMES: Final = "abcdefgh"
_VALUES: Final = 10
_QUESTIONS: Final = 24
_CARDS: Final = tuple(f"{name}{value}" for name in _NAMES for value in range(_VALUES))
_ASKED: Final = tuple(f"{a}−{b}" for a in _NAMES for b in _NAMES if a != b)
_ANSWERS: Final = tuple(f"{x}".replace("-", "−") for x in range(1 - _VALUES, _VALUES))


def _sort(generator: torch.Generator, size: int) -> Batch:
    """Different numbers; the right one at position i is the i-th smallest."""
    tokens = shuffled(generator, size, _NUMBERS)[:, :_SORTED]
    targets, order = tokens.sort(dim=1)
    return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool), {RANK: order})


def _two_keys(generator: torch.Generator, size: int) -> Batch:
    """A card of each name with a number of its own, in any order, then questions: one card's number less another's."""
    num = len(_NAMES)
    names, values = shuffled(generator, size, num), shuffled(generator, size, _VALUES)[:, :num]
    asked = torch.randint(len(_ASKED), (size, _QUESTIONS), generator=generator)
    first, rest = asked // (num - 1), asked % (num - 1)
    second = rest + (rest >= first)
    place = names.argsort(dim=1)  # where the card of a name lies
    at_first, at_second = place.gather(1, first), place.gather(1, second)
    answer = values.gather(1, at_first) - values.gather(1, at_second) + _VALUES - 1

    cards, before = names * _VALUES + values, nowhere(size, num)
    tokens = torch.cat([cards, len(_CARDS) + asked], dim=1)
    targets = torch.cat([cards, len(_CARDS) + len(_ASKED) + answer], dim=1)
    counted = (torch.arange(num + _QUESTIONS) >= num).expand(size, -1)
    keys = {FIRST: torch.cat([before, at_first], dim=1), SECOND: torch.cat([before, at_second], dim=1)}
    return Batch(tokens, targets, counted, keys)


def _chance_of_rank() -> float:
    """How often the best guess of the i-th smallest is right, from i and the number that stands there; counted out."""

    def sets(rank: int, seen: int, guess: int) -> int:
        """In how many sets the guess has this rank, among those with the number seen."""
        above, larger = _NUMBERS - 1 - guess, _SORTED - 1 - rank
        if seen < guess:
            return comb(guess - 1, rank - 1) * comb(above, larger) if rank else 0
        if seen > guess:
            return comb(guess, rank) * comb(above - 1, larger - 1) if larger else 0
        return comb(guess, rank) * comb(above, larger)

    numbers, ranks = range(_NUMBERS), range(_SORTED)
    right = sum(max(sets(rank, seen, guess) for guess in numbers) for rank in ranks for seen in numbers)
    return right / (_SORTED**2 * comb(_NUMBERS, _SORTED))


SORT_TASK: Final = Task(
    name="sort",
    says="Put the numbers in order: at position i, name the i-th smallest.",
    vocabulary=tuple(map(str, range(_NUMBERS))),
    length=_SORTED,
    chance=_chance_of_rank(),
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
