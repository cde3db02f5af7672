# SPDX-License-Identifier: Apache-2.0
"""`segment_reduce` and its gradient as plain ops: each row searches for its segment.

Rows that are in no segment, before the first offset or behind the last, are put into a segment of
their own, which is dropped. Source: PyTorch's `aten/src/ATen/native/SegmentReduce.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ingot.support.records import record

_TORCH: Any = torch  # its functions are typed by what they are called with
_ATEN: Any = torch.ops.aten

_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""What the rows of a segment are folded with, unless the caller gives it."""

_FOLDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
"""The names that `scatter_reduce` has for the reductions."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return a function for each op."""
    return {
        _ATEN.segment_reduce.default: _reduced,
        _ATEN._segment_reduce_backward.default: _gradient,
    }


@record
class _Segments:
    """The segments of data along an axis.

    Attributes:
        axis: the axis.
        numbers: the segment of each element, with the sizes of the data.
        lengths: rows of each segment, with a size of 1 for each dimension of the data behind.
    """

    axis: int
    numbers: Any
    lengths: Any

    @classmethod
    def of(cls, data: Any, lengths: Any, offsets: Any, axis: int) -> _Segments:
        """Return the segments that lengths or offsets say."""
        if offsets is None:
            ends = lengths.cumsum(-1)
            starts = ends - lengths
        else:
            starts, ends = offsets[..., :-1].contiguous(), offsets[..., 1:].contiguous()
        sizes = (*data.shape[:axis], data.shape[axis])
        rows = _TORCH.arange(data.shape[axis], device=data.device, dtype=ends.dtype)
        rows = rows.expand(sizes).contiguous()
        numbers = _TORCH.searchsorted(ends, rows, right=True)
        outside = rows < starts[..., :1]
        numbers = _TORCH.where(outside, ends.shape[-1], numbers)
        behind = (1,) * (data.dim() - axis - 1)
        return cls(
            axis,
            numbers.reshape(*sizes, *behind).expand(data.shape),
            (ends - starts).reshape(*ends.shape, *behind),
        )

    def folded(self, data: Any, start: float, how: str) -> Any:
        """Return the fold of each segment, which begins with `start`."""
        axis, count = self.axis, self.lengths.shape[self.axis]
        sizes = (*data.shape[:axis], count + 1, *data.shape[axis + 1 :])
        made = data.new_full(sizes, start).scatter_reduce(axis, self.numbers, data, how)
        return made.narrow(axis, 0, count).contiguous()

    def spread(self, values: Any) -> Any:
        """Return the value of its segment for each element, 0 where it has none."""
        sizes = list(values.shape)
        sizes[self.axis] = 1
        padded = _TORCH.cat([values, values.new_zeros(sizes)], self.axis)
        return padded.gather(self.axis, self.numbers)


def _reduced(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    del unsafe
    if indices is not None:
        return NotImplemented
    segments = _Segments.of(data, lengths, offsets, axis)
    start = _EMPTY[reduce] if initial is None else initial
    made = segments.folded(data, start, _FOLDS[reduce])
    if reduce != "mean":
        return made
    empty = made if initial is not None else math.nan
    counts = segments.lengths.clamp(min=1).to(made.dtype)
    return _TORCH.where(segments.lengths == 0, empty, made / counts)


def _gradient(
    grad: Any,
    output: Any,
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    offsets: Any = None,
    axis: int = 0,
    initial: float | None = None,
) -> Any:
    segments = _Segments.of(data, lengths, offsets, axis)
    wanted = segments.spread(grad)
    if reduce == "sum":
        return wanted
    if reduce == "mean":
        counts = segments.lengths.clamp(min=1).to(data.dtype).expand(grad.shape)
        return segments.spread(grad / counts)
    if reduce == "prod":
        return wanted * _others(segments, data, 1.0 if initial is None else initial)
    # PyTorch divides the gradient by the number of extremes where it is positive.
    chosen = (data == segments.spread(output)) | data.isnan()
    counts = segments.spread(segments.folded(chosen.to(data.dtype), 0.0, "sum"))
    shared = _TORCH.where(wanted > 0, wanted / counts.clamp(min=1), wanted)
    return _TORCH.where(chosen, shared, 0.0)


def _others(segments: _Segments, data: Any, start: float) -> Any:
    """Return for each element the product of all others of its segment, and of `start`."""
    is_zero, is_nan = data == 0, data.isnan()
    plain = _TORCH.where(is_zero | is_nan, 1.0, data)
    product = segments.spread(segments.folded(plain, start, "prod")) / plain

    def more(flags: Any) -> Any:
        numbers = flags.to(data.dtype)
        return segments.spread(segments.folded(numbers, 0.0, "sum")) - numbers

    made = _TORCH.where(more(is_zero) > 0, 0.0, product)
    return _TORCH.where(more(is_nan) > 0, math.nan, made)
