"""The quiz: each mistake is asked for once a round, and a guess is judged by making both."""

import math
from dataclasses import replace

import pytest
import torch

from attention.bugs.catalogue import BUGS, BY_KEY, Bug
from attention.bugs.caught import both_with
from attention.bugs.quiz import Judged, judge, question, questions
from attention.config import AttentionConfig
from attention.verify_block import BlockConfig

SMALL = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
BLOCK = BlockConfig(SMALL)


@pytest.mark.parametrize("in_block", [False, True])
def test_every_mistake_that_a_scene_shows_is_asked_for_once_a_round(in_block: bool) -> None:
    asked = questions(in_block)
    wanted = {bug.key for bug in BUGS if in_block or not bug.of_block} - {"mask-renormalised", "plain-softmax"}
    assert {bug.key for bug in asked} == wanted
    assert len(asked) == len(wanted) == (29 if in_block else 21)
    assert asked == questions(in_block)  # a link opens on the same one
    assert [bug.key for bug in asked] != [bug.key for bug in BUGS if bug.key in wanted]
    assert [question(in_block, number) for number in range(len(asked) + 2)] == [*asked, *asked[:2]]


@pytest.mark.parametrize("hidden", questions(in_block=False), ids=lambda bug: bug.key)
def test_a_guess_is_right_only_if_it_is_the_one(hidden: Bug) -> None:
    asked = questions(in_block=False)
    place = asked.index(hidden)
    for guess in (asked * 2)[place : place + 6]:
        found = judge(SMALL, hidden, guess)
        assert found.right == (guess is hidden), guess.key
        assert (found.hidden, found.guessed) == (hidden.first_step(), guess.first_step())
        if not found.right:
            assert found.step is not None
            assert found.apart > 0
            # where one of the two is still right the other is wrong already
            first = min((hidden.first_step(), guess.first_step()), key=both_with(SMALL, hidden.pieces)[0].steps.index)
            assert found.step == first or hidden.first_step() == guess.first_step()


def test_a_guess_that_makes_the_same_numbers_is_right_too() -> None:
    # S15: in one head two of them are no mistakes at all
    one_head = replace(SMALL, num_heads=1)
    assert judge(one_head, BY_KEY["embed-scale"], BY_KEY["averaged"]) == Judged(True, None, None)
    assert judge(one_head, BY_KEY["no-scale"], BY_KEY["averaged"]).right is False
    relu = replace(BLOCK, activation="relu")
    assert judge(relu, BY_KEY["relu"], BY_KEY["tanh-gelu"]) == Judged(True, None, None)
    assert judge(BLOCK, BY_KEY["relu"], BY_KEY["tanh-gelu"]).step == "activated"


def test_how_far_two_mistakes_are_apart() -> None:
    # N18: scores over 5 once more, or not at all
    found = judge(SMALL, BY_KEY["no-scale"], BY_KEY["scale-twice"])
    scores = both_with(SMALL, BY_KEY["no-scale"].pieces, torch.float64)[0].scaled  # type: ignore[attr-defined]
    assert (found.right, found.step) == (False, "scaled")
    assert found.apart == pytest.approx(0.8 * scores.abs().max().item())
    # an infinity against a number
    assert judge(SMALL, BY_KEY["mask-inverted"], BY_KEY["masked-zero"]).apart == math.inf


@pytest.mark.parametrize("norm_first", [False, True])
def test_mistakes_of_a_block_are_told_apart(norm_first: bool) -> None:
    scene = replace(BLOCK, norm_first=norm_first)
    hidden = BY_KEY["no-residual"]
    for guess in (hidden, *questions(in_block=True)[::4]):
        found = judge(scene, hidden, guess)
        assert found.right == (guess is hidden)
        assert (found.hidden, found.guessed) == (hidden.first_step(norm_first), guess.first_step(norm_first))
