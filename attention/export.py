"""Tensors as files: CSV, one line a cell, and NPZ. Both keep every bit of every number.

What has no counterpart in a file becomes float32, which holds it exactly: bfloat16 in both (NumPy has none), float16 in
CSV. Views and tensors that share memory are written out, each by itself.
"""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from pyarrow import csv
from torch import Tensor

from attention.tensors import axes

ABOUT: Final = "about"  # the member of an NPZ that says what the others are
# of a CSV, besides its head: what a spreadsheet takes
MOST_ROWS: Final = 2**20 - 1
# rows that are written together: fewer cost a tenth more, and more hold more memory
_ROWS: Final = 2**16


def array(tensor: Tensor) -> NDArray[Any]:
    """The same numbers as an array of its own, bfloat16 as float32."""
    own = tensor.detach().to(torch.float32 if tensor.dtype is torch.bfloat16 else tensor.dtype, copy=True)
    found: NDArray[Any] = own.contiguous().numpy()
    return found


@dataclass(frozen=True)
class Part:
    """From where up to where a tensor is cut along an axis; `stop` is not in it."""

    axis: int
    start: int
    stop: int


def parts(shape: tuple[int, ...], most: int = MOST_ROWS) -> tuple[Part, ...]:
    """How a tensor is cut into CSV files of at most so many rows: along its first axis longer than 1, evenly.

    A slice of that axis is never cut, however large it is.

    Example:
        >>> parts((1, 4, 10, 10), 250)
        (Part(axis=1, start=0, stop=2), Part(axis=1, start=2, stop=4))
    """
    axis = next((place for place, size in enumerate(shape) if size > 1), 0)
    length = shape[axis]
    count = min(length, math.ceil(math.prod(shape) / most))
    while math.ceil(length / count) * math.prod(shape) // length > most and count < length:
        count += 1  # slices are whole
    each = math.ceil(length / count)
    return tuple(Part(axis, start, min(start + each, length)) for start in range(0, length, each))


def as_csv(name: str, tensor: Tensor, part: Part | None = None) -> bytes:
    r"""A tensor as CSV in long form: a column for each axis, from 0, and `value`; or a part of it.

    Numbers have as many digits as tell them from any other of their dtype. Infinities are `inf` and `-inf`, NaN is
    `nan`, which pandas reads.

    Example:
        >>> as_csv("b_q", torch.tensor([0.5, -torch.inf]))
        b'"out","value"\n0,0.5\n1,-inf\n'
    """
    places = [np.arange(size, dtype=np.int32) for size in tensor.shape]
    if part is not None:
        tensor = tensor.narrow(part.axis, part.start, part.stop - part.start)
        places[part.axis] = places[part.axis][part.start : part.stop]
    numbers = array(tensor.float() if tensor.dtype is torch.float16 else tensor)
    grids = np.broadcast_arrays(*np.ix_(*places))
    columns = {axis: _column(grid) for axis, grid in zip(axes(name, numbers.ndim), grids, strict=True)}
    table = pa.table({**columns, "value": _column(numbers)})
    file = io.BytesIO()
    csv.write_csv(table, file, csv.WriteOptions(batch_size=_ROWS))
    return file.getvalue()


def as_npz(tensors: Mapping[str, Tensor], about: Mapping[str, object]) -> bytes:
    """Tensors as NPZ, each under its name in its own dtype, with a member `about`: JSON that says what they are.

    Not compressed: the digits of such numbers leave nothing to press out (7 % at 100 times the time). It loads with
    `np.load` as it is, without pickle; `json.loads(str(file["about"]))` reads what it is about.

    Raises:
        ValueError: a tensor is called `about`.
    """
    if ABOUT in tensors:
        raise ValueError(f"a tensor is called {ABOUT!r}, as what an NPZ says of itself.")
    what = {
        name: {"axes": axes(name, x.ndim), "dtype": str(x.dtype).removeprefix("torch.")} for name, x in tensors.items()
    }
    said = json.dumps({**about, "tensors": what}, ensure_ascii=False, allow_nan=False)
    file = io.BytesIO()
    members: dict[str, Any] = {name: array(x) for name, x in tensors.items()}
    np.savez(file, **members | {ABOUT: np.array(said)})
    return file.getvalue()


def _column(numbers: NDArray[Any]) -> pa.Array:
    """Numbers as one column. `pa.array` would import pandas to ask whether it is pandas' own."""
    flat = np.ascontiguousarray(numbers).reshape(-1)
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])
