"""Properties of attention: right code has them all, and each is broken by a wrong attention made for it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from attention.bugs.catalogue import BUGS, BY_KEY, Bug
from attention.bugs.pieces import RIGHT, Pieces
from attention.config import DTYPES, AttentionConfig
from attention.properties import _largest, broken, properties
from attention.scaled_dot_product import softmax
from tests.attention.test_verify import configs

SCENE = AttentionConfig(embed_dim=15, num_heads=3, num_tokens=7)
FREE = replace(SCENE, causal=False)
ROWS, FORBIDDEN, FUTURE, PERMUTED, HULL, CONSTANT = NAMES = (
    "rows sum to 1",
    "forbidden weights are exactly 0",
    "a changed future token leaves earlier outputs as they were, to the last bit",
    "without a mask, permuting tokens permutes the outputs",
    "every context lies in the hull of the values that its query may see",
    "a constant (up to ±1000) on a row of scaled scores changes nothing",
)


def names_of_broken(config: AttentionConfig, pieces: Pieces) -> set[str]:
    return {one.name for one in broken(properties(config, pieces))}


@settings(max_examples=25)
@given(configs(tuple(DTYPES)))
def test_right_code_has_every_property(config: AttentionConfig) -> None:
    found = properties(config)
    assert tuple(one.name for one in found) == NAMES
    for one in found:
        assert one.holds, one
        assert one.off is None or 0 <= one.off < 1e-12  # a thousandth of what is let through
    assert not list(broken(found))
    assert found == properties(config, RIGHT)
    # in float64, whatever the scene's dtype
    assert found == properties(replace(config, dtype="float64"))


def test_the_default_scene_says_something_of_each() -> None:
    for one in properties(AttentionConfig()):
        assert one.holds
        assert one.off is not None


# what a scene cannot say


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (SCENE, {}),
        (FREE, {FORBIDDEN: "nothing is forbidden", FUTURE: "there is no mask"}),
        (
            replace(SCENE, num_tokens=1),
            {FORBIDDEN: "nothing is forbidden", FUTURE: "there is no earlier token", PERMUTED: "there is one token"},
        ),
        (
            replace(FREE, num_tokens=1),
            {FORBIDDEN: "nothing is forbidden", FUTURE: "there is no mask", PERMUTED: "there is one token"},
        ),
        (replace(SCENE, num_tokens=2), {}),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_scene_cannot_say(config: AttentionConfig, said: dict[str, str]) -> None:
    found = properties(config)
    assert {one.name: one.found for one in found if one.off is None} == said
    assert all(one.holds for one in found)


# each is broken by a wrong attention made for it


def share(rest: float) -> Callable[..., Tensor]:
    """A softmax of which a little is missing."""
    return lambda masked, scaled, allowed: RIGHT.normalise(masked, scaled, allowed) * (1 - rest)


def leaks(weight: float) -> Callable[..., Tensor]:
    """What is forbidden gets a little, and its row still sums to 1."""

    def wrong(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
        found = RIGHT.normalise(masked, scaled, allowed) + weight * ~allowed
        return found / found.sum(dim=-1, keepdim=True)

    return wrong


def mixed_into_all(weight: float) -> Callable[..., Tensor]:
    """The last token reaches all others beside the attention."""
    return lambda context: RIGHT.merge(context) + weight * RIGHT.merge(context)[:, -1:]


def by_place(amount: float) -> Callable[..., Tensor]:
    """Scores know how far apart tokens are."""

    def wrong(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
        places = torch.arange(scores.shape[-1], dtype=scores.dtype)
        return RIGHT.scale(scores, head_dim, num_heads) - amount * (places[:, None] - places).abs()

    return wrong


def far_out(weights: Tensor, allowed: Tensor) -> Tensor:
    """What sums to 1 and is no mean: some weights over 1 and others under 0."""
    return 3 * weights - 2 * weights.mean(dim=-1, keepdim=True)


def no_number(scores: Tensor, head_dim: int, num_heads: int) -> Tensor:
    return scores * math.nan


def by_its_size(masked: Tensor, scaled: Tensor, allowed: Tensor) -> Tensor:
    """A softmax whose temperature depends on the scores themselves."""
    warm = 1 + scaled.abs().mean(dim=-1, keepdim=True)
    return softmax(masked / warm)


MADE: list[tuple[str, AttentionConfig, dict[str, Any], set[str]]] = [
    ("a little is missing of the rows", FREE, {"normalise": share(1e-8)}, {ROWS}),
    ("a billionth of a billionth leaks", SCENE, {"normalise": leaks(1e-20)}, {FORBIDDEN}),
    ("a thousandth leaks", SCENE, {"normalise": leaks(1e-3)}, {FORBIDDEN, FUTURE, HULL}),
    ("the last token leaks beside the attention", SCENE, {"merge": mixed_into_all(1e-12)}, {FUTURE}),
    ("places count", SCENE, {"scale": by_place(1e-6)}, {PERMUTED}),
    ("places count, no mask", FREE, {"scale": by_place(1e-6)}, {PERMUTED}),
    ("weights under 0", FREE, {"after": far_out}, {HULL}),
    ("a temperature of the row's own", FREE, {"normalise": by_its_size}, {CONSTANT}),
    ("an attention that gives NaN", FREE, {"scale": no_number}, {ROWS, PERMUTED, HULL, CONSTANT}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "pieces", "wanted"), [made[1:] for made in MADE], ids=[made[0] for made in MADE])
def test_each_property_is_broken_by_an_attention_made_for_it(
    config: AttentionConfig, pieces: dict[str, Any], wanted: set[str]
) -> None:
    assert names_of_broken(config, Pieces(**pieces)) == wanted


# the table: which mistakes break which, under a causal mask; all others none, however wrong their numbers are
BREAK: dict[str, set[str]] = {
    "softmax-axis": {ROWS, FUTURE, HULL, CONSTANT},
    "mask-inverted": set(NAMES),  # its last row sees nothing, and is NaN
    "mask-off-by-one": {FORBIDDEN, FUTURE, HULL},
    "upper-triangle": {FORBIDDEN, FUTURE, HULL},
    "mask-after-softmax": {ROWS, FUTURE, HULL},
    # what is right can still feel the future in its rounding
    "mask-renormalised": {FUTURE},
    "masked-zero": {FORBIDDEN, FUTURE, HULL, CONSTANT},
    "plain-softmax": {CONSTANT},
    "view-split": {FUTURE, PERMUTED},
    "view-merge": {FUTURE, PERMUTED},
    "dropout-on": {PERMUTED, HULL},
}


@pytest.mark.parametrize("bug", [bug for bug in BUGS if not bug.of_block], ids=lambda bug: bug.key)
def test_which_mistakes_break_which(bug: Bug) -> None:
    found = properties(SCENE, bug.pieces.attention)
    assert {one.name for one in broken(found)} == BREAK.get(bug.key, set())
    for one in found:
        assert one.off is not None
        assert one.holds == (one.off == 0 if one.name in (FORBIDDEN, FUTURE) else one.off < 1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_two_tokens_are_put_in_another_order_too(seed: int) -> None:
    # S01: of two orders of two tokens one is that which they have
    config = AttentionConfig(embed_dim=6, num_heads=2, num_tokens=2, seed=seed)
    assert PERMUTED in {one.name for one in broken(properties(config, BY_KEY["view-merge"].pieces.attention))}


@pytest.mark.parametrize("seed", [0, 3, 6, 7, 12])
def test_the_hull_is_seen_from_aslant(seed: int) -> None:
    # in each dimension alone these contexts lie between the values; the triangles of the values they leave
    config = AttentionConfig(embed_dim=2, num_heads=1, num_tokens=4, seed=seed, causal=False)
    (found,) = broken(properties(config, Pieces(after=far_from_the_mean)))
    assert found.name == HULL
    assert found.off is not None
    assert found.off > 0.01


def far_from_the_mean(weights: Tensor, allowed: Tensor) -> Tensor:
    return 2 * weights - weights.mean(dim=-1, keepdim=True)


def test_the_largest_is_that_of_both_signs() -> None:
    assert _largest(torch.tensor([[-3.0, 1.0]])) == 3
    assert _largest(torch.tensor([-3.0, math.nan])) == math.inf
    assert _largest(torch.zeros(2, 0)) == 0
