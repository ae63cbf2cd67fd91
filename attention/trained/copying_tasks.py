"""Tasks that copy: the previous token, the sequence reversed, and a sequence that comes again."""

import string
from typing import Final

import torch

from attention.trained.task import Batch, Task, shuffled

LETTERS: Final = tuple(string.ascii_lowercase)
PREVIOUS: Final = "the token before"
FOLLOWED: Final = "what followed last time"
MIRROR: Final = "the mirrored position"
_LENGTH: Final = 32
_PERIODS: Final = (8, 16)


def _previous(generator: torch.Generator, size: int) -> Batch:
    tokens = torch.randint(len(LETTERS), (size, _LENGTH), generator=generator)
    counted = torch.arange(_LENGTH).expand(size, -1) > 0
    return Batch(tokens, tokens.roll(1, dims=1), counted, {PREVIOUS: _before(size)})


def _reverse(generator: torch.Generator, size: int) -> Batch:
    tokens = torch.randint(len(LETTERS), (size, _LENGTH), generator=generator)
    mirrored = torch.arange(_LENGTH).flip(0).expand(size, -1)
    return Batch(tokens, tokens.flip(1), torch.ones_like(tokens, dtype=torch.bool), {MIRROR: mirrored})


def _repeat(generator: torch.Generator, size: int) -> Batch:
    """Letters, all different, of which the last 8 to 16 come again up to the end.

    Where they begin to come again differs from sequence to sequence: nothing but the letters tells. It takes two
    layers: in the first each letter looks at the one before, in the second the next one is found by what it knows of
    the one before.
    """
    shortest, longest = _PERIODS
    period = torch.randint(shortest, longest + 1, (size, 1), generator=generator)
    position = torch.arange(_LENGTH).expand(size, -1)
    again = position >= _LENGTH - period
    source = torch.where(again, position - period, position)
    tokens = shuffled(generator, size, len(LETTERS)).gather(1, source)
    counted = again & (position < _LENGTH - 1)
    followed = torch.where(counted, position - period + 1, -1)
    is_followed = (position > _LENGTH - 2 * period) & (position <= _LENGTH - period)
    keys = {PREVIOUS: torch.where(is_followed, position - 1, -1), FOLLOWED: followed}
    return Batch(tokens, tokens.roll(-1, dims=1), counted, keys)


def _before(size: int) -> torch.Tensor:
    return torch.arange(-1, _LENGTH - 1).expand(size, -1)


PREVIOUS_TASK: Final = Task(
    name="previous",
    says="At each position, name the letter before.",
    vocabulary=LETTERS,
    length=_LENGTH,
    chance=1 / len(LETTERS),
    patterns=(PREVIOUS,),
    draw=_previous,
)
REVERSE_TASK: Final = Task(
    name="reverse",
    says="Write the letters from the last to the first.",
    vocabulary=LETTERS,
    length=_LENGTH,
    chance=1 / len(LETTERS),
    patterns=(MIRROR,),
    draw=_reverse,
)
REPEAT_TASK: Final = Task(
    name="repeat",
    says="Some letters come a second time: name the next one.",
    vocabulary=LETTERS,
    length=_LENGTH,
    chance=1 / (len(LETTERS) - 1),
    patterns=(PREVIOUS, FOLLOWED),
    draw=_repeat,
)
