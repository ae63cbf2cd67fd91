"""What the page of mistakes says around its pictures: mistakes, a cell, a guess, code."""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable
from functools import cache

from attention.bugs.catalogue import Bug
from attention.bugs.quiz import Judged
from attention.compare import Check
from attention.scenes import Scene
from dashboard import token_names
from dashboard.cell_panel import number
from dashboard.heatmap import Cell
from dashboard.mistakes import Mistakes
from dashboard.step_picture import words


def said(bug: Bug) -> str:
    """One mistake in words, as Markdown."""
    fine = " :green-badge[:material/check_circle: no mistake]" if bug.right else ""
    return f"**{bug.name}.**{fine} {bug.what} How it shows: {bug.shows} People [met it here]({bug.thread})."


def reported(mistakes: Mistakes) -> str:
    """What is taken home of an attention with mistakes in it; of the quiz, without naming any."""
    if mistakes.number is not None:
        return f"Ours has the hidden mistake of question {mistakes.number} in it. The script is the right code."
    made = " and ".join(bug.name for bug in mistakes.both)
    return f"Ours is made with: {made}. The script is the right code."


def cell(step: str, check: Check, at: Cell, of_heads: bool, ours: float, pytorch: float, scene: Scene) -> str:
    """Both numbers of a cell, how far they are apart, and how far they may be, as Markdown."""
    # an infinity is matched by itself alone
    limit = check.tolerance.atol + check.tolerance.rtol * abs(pytorch) if math.isfinite(pytorch) else 0.0
    apart = 0.0 if ours == pytorch else abs(ours - pytorch)
    head = f"head {at.head}, " if of_heads else ""
    where = f"`{step}`, {head}{token_names.pair(scene, words(step).pair, at.query, at.key)}"
    said = str(apart) if math.isnan(apart) else "∞" if math.isinf(apart) else f"{apart:.3g}"
    told = f":green[{said} apart]" if apart <= limit else f":red[**{said} apart**]"
    verdict = f"{told}; {f'{limit:.3g}' if limit else 'nothing'} is allowed"
    return f"{where}: ours **{number(ours)}**, PyTorch's **{number(pytorch)}**, {verdict}."


def why(bug: Bug, judged: Judged, guess: Bug) -> str:
    """What a guess came to, and what told, as Markdown."""
    first = f"`{judged.hidden}` is the first step that differs" if judged.hidden else "no step of this scene differs"
    if judged.right and guess.key == bug.key:
        return f":green-badge[:material/check_circle: right] It is **{bug.name}**: {first}. {bug.shows}"
    if judged.right:
        told = "in this scene the two make the same numbers at every step"
        return f":green-badge[:material/check_circle: right] {told}. It was made by **{bug.name}**."
    would = (
        f"**{guess.name}** would first break `{judged.guessed}`"
        if judged.guessed
        else f"**{guess.name}** shows nothing"
    )
    if judged.guessed == judged.hidden:
        where = "there" if judged.step == judged.guessed else f"at `{judged.step}`"
        would += f" too, but with other numbers: they are up to {judged.apart:.2g} apart {where}"
    else:
        would += f", and here {first}"
    return f":red-badge[:material/cancel: not this one] {would}."


@cache
def code(piece: Callable[..., object]) -> str:
    """The source of a piece without its docstring, which says what it should do and not what it does."""
    source = textwrap.dedent(inspect.getsource(piece))
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    if not ast.get_docstring(function):
        return source
    lines, docstring = source.splitlines(keepends=True), function.body[0]
    return "".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])
