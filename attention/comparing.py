"""Two scenes side by side: how far a step of one is from the same step of the other.

Tokens are drawn so that a longer scene begins with those of a shorter one. So two scenes with different numbers of
tokens share the first of them, and are compared there.
"""

from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from attention import masks
from attention.config import AttentionConfig
from attention.multi_head import STEPS, AttentionTrace

# −∞ less −∞ is no number
COMPARED: Final = tuple(step for step in STEPS if step != "masked")
# axes that count tokens, of a step within heads (B, H, …) and of one that is not (B, …)
_TOKEN_AXES: Final = {"scores": (2, 3), "scaled": (2, 3), "weights": (2, 3), "merged": (1,), "output": (1,)}
_OF_TOKENS: Final = (2,)


@dataclass(frozen=True)
class Gap:
    """B less A, in numbers.

    Attributes:
        matrices: how many there are: one a head, or one alone.
        of_mean: whether heads were averaged first, since there are not as many on both sides.
        largest: the largest size of a difference.
        at: where that is: (matrix, row, column).
        moved: of weights the share of a row's weight that lies elsewhere in B, mean over rows: Σ|b − a| / 2 over all
            keys, those that only one side has included; else None.
    """

    matrices: int
    of_mean: bool
    largest: float
    at: tuple[int, int, int]
    moved: float | None


@dataclass(frozen=True)
class Apart:
    """B less A, of one step, over the tokens that both have.

    Attributes:
        by: the differences, one matrix a head; or one alone, of the mean over heads or where there is no axis of heads.
        allowed: the cells that either side allows; None where either allows all, or the step has no such cells.
        gap: the same in numbers.
    """

    by: Float[Tensor, "H R C"]
    allowed: Bool[Tensor, "R C"] | None
    gap: Gap


@torch.no_grad()
def apart(
    step: str, a: AttentionTrace, b: AttentionTrace, scenes: tuple[AttentionConfig, AttentionConfig]
) -> Apart | None:
    """How far apart the two are; None where they are of other widths, and nothing can be subtracted.

    Differences are taken in float64, so that two dtypes can be compared. Weights of different numbers of heads
    are averaged over heads, as `nn.MultiheadAttention` gives them by default.

    Args:
        step: one of `COMPARED`.
        a: the trace of A.
        b: the trace of B.
        scenes: what they are of.

    Raises:
        ValueError: there is no such step to compare.
    """
    if step not in COMPARED:
        raise ValueError(f"{step!r} is no step that can be subtracted; these can: {', '.join(COMPARED)}.")
    ours, theirs = (getattr(trace, step).double() for trace in (a, b))
    moved = _moved(ours, theirs) if step == "weights" else None
    for axis in _TOKEN_AXES.get(step, _OF_TOKENS):
        shared = min(ours.shape[axis], theirs.shape[axis])
        ours, theirs = ours.narrow(axis, 0, shared), theirs.narrow(axis, 0, shared)
    of_mean = step == "weights" and ours.shape[1] != theirs.shape[1]
    if of_mean:
        ours, theirs = (x.mean(1, keepdim=True) for x in (ours, theirs))  # (B, H, T, S) -> (B, 1, T, S)
    if ours.shape != theirs.shape:
        return None
    by = (theirs - ours)[0]
    by = by if by.ndim == 3 else by[None]  # (R, C) -> (1, R, C)
    sizes = by.abs()
    matrix, row, column = (int(i) for i in torch.unravel_index(sizes.argmax(), sizes.shape))
    gap = Gap(len(by), of_mean, sizes.max().item(), (matrix, row, column), moved)
    return Apart(by, _allowed_by_either(scenes, by.shape[-1]) if step == "weights" else None, gap)


def _moved(ours: Float[Tensor, "B H T S"], theirs: Float[Tensor, "B G U R"]) -> float:
    """The share of a row's weight that lies elsewhere, mean over the rows that both have: see `Gap`."""
    if ours.shape[1] != theirs.shape[1]:
        ours, theirs = (x.mean(1, keepdim=True) for x in (ours, theirs))
    rows, keys = min(ours.shape[2], theirs.shape[2]), max(ours.shape[3], theirs.shape[3])
    # a key that one side has not gets nothing there
    ours, theirs = (F.pad(x[:, :, :rows], (0, keys - x.shape[3])) for x in (ours, theirs))
    return (theirs - ours).abs().sum(-1).mean().item() / 2


def _allowed_by_either(scenes: tuple[AttentionConfig, AttentionConfig], tokens: int) -> Bool[Tensor, "R C"] | None:
    """The cells that one of the two allows: all, unless both are causal."""
    return masks.grid(masks.causal, tokens) if all(scene.causal for scene in scenes) else None
