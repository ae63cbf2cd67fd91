"""What PyTorch does differently: two calls that look alike, run on one scene, and how their answers differ.

The calls are those of `differing_calls`. Nothing of the whole process is switched: gradients go by context managers,
and which kernels ran is heard by a dispatch mode, which is the thread's own.
"""

import inspect
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attention import sample
from attention.compare import Tolerance, compare, largest_distance
from attention.config import AttentionConfig
from attention.differing_calls import PAIRS, Call, Pair
from attention.differing_scene import Scene, scene_of
from attention.multi_head import matrix

_KERNELS = ("attention", "baddbmm", "softmax", "encoder_layer")


@dataclass(frozen=True)
class Facts:
    """What can be counted of one answer, all heads together.

    `nans` of `size` numbers; `empty_rows` are rows of zeros and nothing else, `nan_rows` rows with a NaN, of `rows`;
    `row_sums` the least and the largest sum of a row (weights only; NaN left out); `future` the largest weight on a
    key after its query (None where the answer is no square of weights). `from_ours` is the largest difference from
    ours where both are numbers, and `equals_ours` the verdict of `compare` with `reason`. An answer without heads is
    held against our mean over the heads, and never equals ours. `empty_row` says what came out for the query that may
    attend to nothing, where there is one.
    """

    shape: tuple[int, ...]
    size: int
    nans: int
    rows: int
    empty_rows: int
    nan_rows: int
    row_sums: tuple[float, float] | None
    future: float | None
    from_ours: float
    equals_ours: bool
    reason: str
    empty_row: str = ""


@dataclass(frozen=True)
class Side:
    """One call: its name, the source that ran, the kernels it ran on, and its facts or the message it raised."""

    title: str
    source: str
    kernels: tuple[str, ...]
    refused: str = ""
    facts: Facts | None = None


@dataclass(frozen=True)
class Difference:
    """Two calls and how far apart their answers are.

    `differing` of `cells` numbers are not the same to the last bit (NaN equals NaN; None where a call raised). All
    heads count; where one side has them averaged, it is held against the head of the other that is shown. `largest`
    is the largest difference where both are numbers, and `spacings` the same counted in distances between
    neighbouring numbers of the dtype, at the largest number of the right answer.
    """

    topic: str
    pair: str
    step: str
    ours: str
    left: Side
    right: Side
    cells: int
    differing: int | None
    largest: float
    spacings: float


@dataclass(frozen=True)
class Shown:
    """A difference, and what there is to draw of it: (rows, columns) of one head or of the output; None if refused."""

    difference: Difference
    left: Tensor | None
    right: Tensor | None


def pair_of(topic: str, name: str) -> Pair:
    """A pair of a topic; its first one, where there is none of that name.

    Raises:
        KeyError: there is no such topic.
    """
    pairs = PAIRS[topic]
    return next((pair for pair in pairs if pair.name == name), pairs[0])


def differ(config: AttentionConfig, topic: str, name: str, head: int, tolerance: Tolerance) -> Shown:
    """Run both calls of a pair on a scene.

    Args:
        config: the scene.
        topic: a key of `PAIRS`.
        name: of one of its pairs; of the first, where it has none of that name.
        head: the one to draw, where the answer has heads.
        tolerance: within it an answer equals ours.

    Raises:
        KeyError: there is no such topic.
    """
    pair, scene = pair_of(topic, name), scene_of(config)
    with torch.no_grad():
        ours = pair.ours.find(scene)
    left, left_found = _side(pair.left, pair.titles[0], scene, ours, pair, tolerance)
    right, right_found = _side(pair.right, pair.titles[1], scene, ours, pair, tolerance)
    # the average of the heads has no head to choose
    drawn_left, drawn_right = (None if found is None else matrix(found, head) for found in (left_found, right_found))
    has_heads = [found is not None and found.ndim == 4 for found in (left_found, right_found)]
    compared = (
        (left_found, right_found) if has_heads[0] == has_heads[1] else (drawn_left, drawn_right)
    )  # an average against one head
    differing, largest, spacings = _apart(*compared)
    cells = 0 if compared[1] is None else compared[1].numel()
    difference = Difference(
        topic, pair.name, pair.step, pair.ours.what, left, right, cells, differing, largest, spacings
    )
    return Shown(difference, drawn_left, drawn_right)


class _Kernels(TorchDispatchMode):
    """Hears which operators run in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.heard.append(func._overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _side(
    call: Call, title: str, scene: Scene, ours: Tensor, pair: Pair, tolerance: Tolerance
) -> tuple[Side, Tensor | None]:
    source = inspect.getsource(call)
    try:
        with torch.enable_grad():
            found = call(scene).detach()
    except RuntimeError as refusal:
        return Side(title, source, (), refused=str(refusal)), None
    heard, facts = _heard(call, scene), _facts(found, ours, pair.step, tolerance)
    if pair.ours.has_empty_row:
        facts = replace(facts, empty_row=_empty_row(found, scene, pair.step))
    return Side(title, source, heard, facts=facts), found


def _heard(call: Call, scene: Scene) -> tuple[str, ...]:
    """The kernels of attention that a call runs on, in their order; none where the call cannot be listened to.

    A run of its own, so that listening cannot touch the answer. `causal_lower_right` makes a subclass of Tensor,
    which PyTorch refuses to do under a dispatch mode.
    """
    kernels = _Kernels()
    try:
        with torch.enable_grad(), kernels:
            call(scene)
    except RuntimeError:
        return ()
    return tuple(dict.fromkeys(name for name in kernels.heard if any(part in name for part in _KERNELS)))


def _facts(found: Tensor, ours: Tensor, step: str, tolerance: Tolerance) -> Facts:
    found = found if type(found) is Tensor else found.as_subclass(Tensor)
    rows = found.double().flatten(0, -2)  # (rows, columns), of all heads
    has_nan = rows.isnan().any(-1)
    sums = rows.sum(-1)[~has_nan]
    is_weights = step == "weights"
    averaged = found.ndim < ours.ndim  # no head axis: all that can be held against it is our mean over the heads
    ours = ours.mean(dim=1) if averaged else ours
    check = compare(step, ours, found, tolerance)
    reason = f"no head axis; the mean of ours over the heads: {check.reason}" if averaged else check.reason
    future = found.double().nan_to_num().triu(1).max().item() if is_weights and _is_square(found) else None
    return Facts(
        shape=tuple(found.shape),
        size=found.numel(),
        nans=int(found.isnan().sum()),
        rows=len(rows),
        empty_rows=int((rows == 0).all(-1).sum()),
        nan_rows=int(has_nan.sum()),
        row_sums=(sums.min().item(), sums.max().item()) if is_weights and len(sums) else None,
        future=future,
        from_ours=largest_distance(ours, found.double()),
        equals_ours=check.equal and not averaged,
        reason=reason,
    )


def _empty_row(found: Tensor, scene: Scene, step: str) -> str:
    """What the middle query, which may attend to nothing, got."""
    row = found[..., scene.config.num_tokens // 2, :].double()
    near = 8 * torch.finfo(found.dtype).eps  # of numbers about 1; rounding is below it
    if row.isnan().all():
        return "NaN"
    if not row.any():
        return "zeros"
    if step == "context" and torch.allclose(row, scene.v.double().mean(-2), rtol=near, atol=near):
        return "the mean of all v"
    bias = sample.draw_parameters(scene.config).b_o.double()
    if step == "output" and torch.allclose(row, bias.expand_as(row), rtol=near, atol=near):
        return "zeros, and so the output's bias"
    return "other numbers"


def _is_square(found: Tensor) -> bool:
    return found.shape[-1] == found.shape[-2]


def _apart(left: Tensor | None, right: Tensor | None) -> tuple[int | None, float, float]:
    """How many numbers are not the same, the largest difference, and that in spacings of the dtype."""
    if left is None or right is None or left.shape != right.shape:
        return None, math.nan, math.nan
    same = (left == right) | (left.isnan() & right.isnan())
    largest = largest_distance(left, right.double())
    biggest = right.double().nan_to_num().abs().max().item()
    spacing = 2.0 ** math.floor(math.log2(biggest)) * torch.finfo(right.dtype).eps if biggest else math.inf
    return int((~same).sum()), largest, largest / spacing
