"""Answers of a reader, right and wrong: by hand."""

import math

import pytest
import torch

from attention.predicting import check_mask, check_row

RIGHT = [0.5, 0.25, 0.25, 0.0]


def test_a_row_within_its_tolerance_is_right() -> None:
    answer = check_row(RIGHT, [0.5, 0.25, 0.25, 0.0], 0.0)
    assert answer.right
    assert answer.total == 1
    assert check_row(RIGHT, [0.53, 0.22, 0.25, 0.03], 0.05).right


def test_the_tolerance_is_of_each_cell_and_its_end_belongs_to_it() -> None:
    assert check_row([0.5], [0.75], 0.25).right
    assert not check_row([0.5], [0.7500001], 0.25).right
    assert [cell.close for cell in check_row(RIGHT, [0.5, 0.5, 0.2, 0.0], 0.05).cells] == [True, False, True, True]


def test_an_empty_field_is_never_right() -> None:
    answer = check_row([0.0, 1.0], [None, 1.0], 0.2)
    assert not answer.right
    assert [cell.close for cell in answer.cells] == [False, True]
    assert answer.total == 1


def test_nan_is_never_right() -> None:
    assert not check_row([0.5], [math.nan], 0.2).right


@pytest.mark.parametrize(("said", "within", "words"), [([0.5], 0.1, "4 keys, not 1"), (RIGHT, -0.1, "within is -0.1")])
def test_what_cannot_be_checked_is_refused(said: list[float | None], within: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_row(RIGHT, said, within)


def test_a_mask_is_right_in_every_cell_or_not_at_all() -> None:
    allowed = torch.tensor([[True, False], [True, True], [False, True]])
    assert check_mask(allowed, allowed.clone()).right
    answer = check_mask(allowed, torch.tensor([[True, True], [True, False], [False, True]]))
    assert not answer.right
    assert answer.too_many == ((0, 1),)
    assert answer.missing == ((1, 1),)
    assert answer.wrong_rows() == (0, 1)
    assert answer.cells == 6


def test_a_mask_of_other_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the mask is \(3, 2\), not \(2, 2\)"):
        check_mask(torch.ones(3, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool))
