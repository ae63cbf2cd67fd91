"""A quiz: a hidden mistake, a reader's guess, and why it is right or wrong, found by making both."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import torch

from attention import sample
from attention.bugs.catalogue import BUGS, Bug
from attention.bugs.caught import Scene, both_with, first_step
from attention.compare import Outcome, apart
from attention.verify import MATHS, checks, report

_ORDER: Final = 2017  # of the questions: the same for everybody, so that a link opens on the same one
# no ordinary scene shows it
_NEVER_ASKED: Final = ("plain-softmax",)


@dataclass(frozen=True)
class Judged:
    """What a guess came to.

    `hidden` and `guessed` are the first steps that each breaks; None where nothing is broken. `step` is the first step
    at which the two mistakes make different numbers, and `apart` how far they are apart there; a guess that makes the
    same numbers everywhere is right too.
    """

    right: bool
    hidden: str | None
    guessed: str | None
    step: str | None = None
    apart: float = 0.0


def questions(in_block: bool) -> tuple[Bug, ...]:
    """The mistakes that are asked for, in the order of the questions: those of an attention, or of a block too."""
    asked = [bug for bug in BUGS if not bug.right and bug.key not in _NEVER_ASKED and (in_block or not bug.of_block)]
    order = torch.randperm(len(asked), generator=sample.generator("the order of the questions", _ORDER))
    return tuple(asked[place] for place in order.tolist())


def question(in_block: bool, number: int) -> Bug:
    """The mistake of a question; after the last the first comes again."""
    asked = questions(in_block)
    return asked[number % len(asked)]


@torch.no_grad()
def judge(scene: Scene, hidden: Bug, guess: Bug) -> Judged:
    """Whether a guess is right in a scene, and what tells the two mistakes apart there."""
    truth, pytorch = both_with(scene, hidden.pieces, torch.float64)
    tried, _ = both_with(scene, guess.pieces, torch.float64)
    broken = first_step(report(truth, pytorch, MATHS)), first_step(report(tried, pytorch, MATHS))
    if guess.key == hidden.key:
        return Judged(True, *broken)
    alike = Outcome.EQUAL, Outcome.NOT_COMPARABLE, Outcome.CANNOT_TELL  # NaN in both is no difference to be seen
    found = checks(truth, tried, MATHS)
    step = next((check.step for check in found if check.outcome not in alike), None)
    if step is None:
        return Judged(True, *broken)
    off = apart(attrgetter(step)(truth), attrgetter(step)(tried))
    return Judged(False, *broken, step, float(torch.where(off.isnan(), torch.inf, off).max()))
