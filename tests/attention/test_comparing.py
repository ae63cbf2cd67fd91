"""Two scenes subtracted: against NumPy, by hand, and what holds whichever scenes they are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.comparing import COMPARED, Apart, apart
from attention.config import AttentionConfig
from attention.multi_head import STEPS, attend_as_configured

A = AttentionConfig(embed_dim=12, num_heads=3, num_tokens=7, seed=5, causal=False)
SCENES = st.builds(
    AttentionConfig,
    embed_dim=st.just(12),
    num_heads=st.sampled_from([1, 2, 3]),
    num_tokens=st.integers(1, 6),
    seed=st.integers(0, 9),
    causal=st.booleans(),
    dtype=st.sampled_from(["float32", "float64", "bfloat16"]),
)


def subtracted(step: str, a: AttentionConfig, b: AttentionConfig) -> Apart | None:
    return apart(step, attend_as_configured(a), attend_as_configured(b), (a, b))


def gap(step: str, a: AttentionConfig, b: AttentionConfig) -> Apart:
    found = subtracted(step, a, b)
    assert found is not None
    return found


def test_every_step_can_be_compared_but_the_one_with_infinities() -> None:
    assert set(STEPS) - set(COMPARED) == {"masked"}
    with pytest.raises(ValueError, match="'masked' is no step that can be subtracted; these can: q, k, v, scores"):
        gap("masked", A, A)


@pytest.mark.parametrize("step", COMPARED)
def test_a_scene_is_nowhere_apart_from_itself(step: str) -> None:
    found = gap(step, A, A)
    assert not found.by.any()
    assert found.gap.largest == 0
    assert found.gap.moved == (0 if step == "weights" else None)


@pytest.mark.parametrize("step", COMPARED)
def test_what_numpy_says_of_two_lengths(step: str) -> None:
    """The shorter scene's tokens are the first of the longer: both are cut to them, and B less A is taken."""
    b = replace(A, num_tokens=4, causal=True)
    ours, theirs = (getattr(attend_as_configured(scene), step)[0].double().numpy() for scene in (A, b))
    if step in ("scores", "scaled", "weights"):
        expected = theirs[:, :4, :4] - ours[:, :4, :4]
    elif step in ("merged", "output"):
        expected = (theirs[:4] - ours[:4])[None]
    else:
        expected = theirs[:, :4] - ours[:, :4]
    found = gap(step, A, b)
    assert np.array_equal(found.by.numpy(), expected)
    assert found.gap.matrices == len(expected)
    assert found.gap.largest == np.abs(expected).max()
    assert np.abs(expected)[found.gap.at] == found.gap.largest


def test_weights_of_other_head_counts_are_averaged_over_heads() -> None:
    b = replace(A, num_heads=2)
    found = gap("weights", A, b)
    ours, theirs = (attend_as_configured(scene).weights[0].double().numpy().mean(0) for scene in (A, b))
    np.testing.assert_allclose(found.by[0].numpy(), theirs - ours, rtol=0, atol=1e-15)
    assert found.gap.of_mean
    assert found.gap.matrices == 1
    assert not gap("weights", A, replace(A, seed=6)).gap.of_mean


@pytest.mark.parametrize(("step", "b"), [("q", replace(A, num_heads=2)), ("output", replace(A, embed_dim=24))])
def test_what_has_other_widths_cannot_be_subtracted(step: str, b: AttentionConfig) -> None:
    assert subtracted(step, A, b) is None
    assert subtracted("weights", A, b) is not None, "weights are of the same sizes all the same"


def test_how_much_weight_moves_by_hand() -> None:
    scene = AttentionConfig(embed_dim=2, num_heads=1, num_tokens=2, causal=False)
    trace = attend_as_configured(scene)
    one = replace(trace, weights=torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    other = replace(trace, weights=torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]]))
    found = apart("weights", one, other, (scene, scene))
    assert found is not None
    # row 0 moves 0.75 of its 1, row 1 nothing
    assert found.gap.moved == 0.375
    assert found.gap.largest == 0.75
    assert found.by.tolist() == [[[-0.75, 0.75], [0.0, 0.0]]]


def test_weight_on_keys_that_one_side_has_not_has_moved_too() -> None:
    """A query that gives a new key a third takes a third from the others, and not half of that."""
    short = AttentionConfig(embed_dim=2, num_heads=1, num_tokens=2, causal=False)
    long = replace(short, num_tokens=3)
    two = replace(attend_as_configured(short), weights=torch.tensor([[[[0.5, 0.5], [0.25, 0.75]]]]))
    third = [0.0, 0.25, 0.75]
    three = replace(attend_as_configured(long), weights=torch.tensor([[[[0.25, 0.25, 0.5], [0.25, 0.75, 0.0], third]]]))
    for one, other, scenes in ((two, three, (short, long)), (three, two, (long, short))):
        found = apart("weights", one, other, scenes)
        assert found is not None
        assert found.by.shape == (1, 2, 2)
        # row 0 gives half to the new key, row 1 nothing; the third is not shared
        assert found.gap.moved == 0.25


def test_a_cell_is_hatched_only_where_both_masks_forbid_it() -> None:
    causal = replace(A, causal=True)
    assert gap("weights", A, causal).allowed is None
    both = gap("weights", causal, replace(causal, num_tokens=3)).allowed
    assert both is not None
    assert both.tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert gap("scores", causal, causal).allowed is None, "scores are taken before the mask"


@settings(max_examples=60, deadline=None)
@given(SCENES, SCENES, st.sampled_from(COMPARED))
def test_b_less_a_is_a_less_b_turned_round(a: AttentionConfig, b: AttentionConfig, step: str) -> None:
    there, back = subtracted(step, a, b), subtracted(step, b, a)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert torch.equal(there.by, -back.by)
        assert there.gap.largest == back.gap.largest
        if there.gap.moved is not None:
            assert 0 <= there.gap.moved <= 1 + 1e-2  # rows of half precision need not sum to 1
            assert there.gap.moved == back.gap.moved
