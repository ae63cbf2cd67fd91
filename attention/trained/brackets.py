"""Brackets of three kinds: which one must close here?"""

from typing import Final

import torch

from attention.trained.task import Batch, Task, nowhere

OPENER: Final = "the bracket that is open"
OPENERS: Final = ("(", "[", "{")
CLOSE: Final = "?"
CLOSERS: Final = (")", "]", "}")
_LENGTH: Final = 20
_DEPTH: Final = 2


def _brackets(generator: torch.Generator, size: int) -> Batch:
    """Brackets open and close, one in the other, up to two deep; every closing one is written "?"."""
    kinds = torch.randint(len(OPENERS), (size, _LENGTH), generator=generator)
    opens = torch.rand(size, _LENGTH, generator=generator) < 0.5
    rows = torch.arange(size)
    stack, depth = torch.zeros(size, _DEPTH, dtype=torch.long), torch.zeros(size, dtype=torch.long)
    tokens, targets, keys = kinds.clone(), kinds.clone(), nowhere(size, _LENGTH)
    counted = torch.zeros(size, _LENGTH, dtype=torch.bool)
    for position in range(_LENGTH):
        opening = (depth == 0) | (opens[:, position] & (depth < _DEPTH))
        opener = stack[rows, (depth - 1).clamp(min=0)]
        closed = kinds[rows, opener] + len(OPENERS) + 1
        tokens[:, position] = torch.where(opening, kinds[:, position], len(OPENERS))
        targets[:, position] = torch.where(opening, kinds[:, position], closed)
        keys[:, position] = torch.where(opening, -1, opener)
        counted[:, position] = ~opening
        stack[rows[opening], depth[opening]] = position
        depth += torch.where(opening, 1, -1)
    return Batch(tokens, targets, counted, {OPENER: keys})


BRACKETS_TASK: Final = Task(
    name="brackets",
    says="Each ? closes the bracket that is open last: say with which sign.",
    vocabulary=(*OPENERS, CLOSE, *CLOSERS),
    length=_LENGTH,
    chance=1 / len(OPENERS),
    patterns=(OPENER,),
    draw=_brackets,
)
