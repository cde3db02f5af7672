# SPDX-License-Identifier: Apache-2.0
"""Upsampling: nearest, linear, cubic, antialiased, in one to three dimensions; and the gradients.

Dimensions are resampled one after the other, from the last; taps and weights are computed here, in
the float type that PyTorch computes them in.
Source: PyTorch's `aten/src/ATen/native/UpSample.h`, `cpu/UpSampleKernel.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.sampling import Array, Taps, sampled, sampled_at, spread_back, taken
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.numbers import RunTimeNumber
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.nn_ops import open_resampling
from ingot.frontends.torch.lowering.nn_ops.open_resampling import OpenAxis
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

RULES = RuleTable("aten")


@record
class _Axis:
    """One dimension: sizes, the caller's factor, whether corners are aligned, the float type."""

    size: int
    target: int
    factor: float | None
    align_corners: bool
    kind: Any

    @property
    def scale(self) -> Any:
        """The distance of target elements, in source elements."""
        if self.align_corners:
            if self.target <= 1:
                return self.kind(0)
            return self.kind(self.size - 1) / self.kind(self.target - 1)
        if self.factor is not None and self.factor > 0:
            return self.kind(1.0 / self.factor)
        return self.kind(self.size) / self.kind(self.target)

    def locations(self, *, cubic: bool = False) -> Array:
        """Return the position of each target element in the source, in source elements."""
        index = np.arange(self.target, dtype=self.kind)
        if self.align_corners:
            return self.scale * index
        found = self.scale * (index + self.kind(0.5)) - self.kind(0.5)
        return found if cubic else np.maximum(found, self.kind(0))


Method = Callable[[_Axis], Taps]


def _one_tap(found: Array, axis: _Axis) -> Taps:
    indices = np.minimum(np.floor(found).astype(np.int64), axis.size - 1)[:, None]
    return Taps(indices, np.ones(indices.shape, axis.kind))


def _nearest(axis: _Axis) -> Taps:
    return _one_tap(np.arange(axis.target, dtype=axis.kind) * axis.scale, axis)


def _nearest_exact(axis: _Axis) -> Taps:
    index = np.arange(axis.target, dtype=axis.kind)
    return _one_tap((index + axis.kind(0.5)) * axis.scale, axis)


def _linear(axis: _Axis) -> Taps:
    found = axis.locations()
    low = np.minimum(np.floor(found).astype(np.int64), axis.size - 1)
    high = np.minimum(low + 1, axis.size - 1)
    share = np.clip(found - low.astype(axis.kind), 0, 1)
    return Taps(np.stack([low, high], 1), np.stack([1 - share, share], 1).astype(axis.kind))


def _cubic(axis: _Axis) -> Taps:
    """Four taps of the kernel with A = -0.75; borders are repeated."""
    a = axis.kind(-0.75)
    found = axis.locations(cubic=True)
    whole = np.floor(found)
    near = np.stack([found - whole, 1 - (found - whole)], 1)
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    far = near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1)
    indices = np.clip(whole.astype(np.int64)[:, None] + np.arange(-1, 3), 0, axis.size - 1)
    return Taps(indices, weights.astype(axis.kind))


def _triangle_filter(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic_filter(x: Array) -> Array:
    """Keys' kernel, with a = -0.5."""
    a, x = -0.5, np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, inner, np.where(x < 2, outer, 0))


def _antialiased(kernel: Callable[[Array], Array], reach: int) -> Method:
    """Return the method of a filter of the width of a target element in the source."""

    def taps(axis: _Axis) -> Taps:
        kind, scale = axis.kind, axis.scale
        widens = scale >= 1
        support = kind(reach * 0.5) * scale if widens else kind(reach * 0.5)
        inverse = kind(1) / scale if widens else kind(1)
        center = scale * (np.arange(axis.target, dtype=kind) + kind(0.5))
        first = np.maximum((center - support + kind(0.5)).astype(np.int64), 0)
        last = np.minimum((center + support + kind(0.5)).astype(np.int64), axis.size)
        counts = np.maximum(last - first, 0)
        number = np.arange(max(1, counts.max(initial=0)))
        used = number < counts[:, None]
        distance = (first[:, None] + number).astype(kind) - center[:, None] + kind(0.5)
        weights = np.where(used, kernel(distance * inverse), 0).astype(kind)
        total = weights.sum(1, keepdims=True)
        weights = np.where(total != 0, weights / np.where(total != 0, total, 1), weights)
        return Taps(np.where(used, first[:, None] + number, -1), weights.astype(kind))

    return taps


_OPEN: dict[Method, open_resampling.Method] = {
    _nearest: open_resampling.nearest,
    _nearest_exact: open_resampling.nearest_exact,
    _linear: open_resampling.linear,
    _cubic: open_resampling.cubic,
}
"""The methods that compute their taps at run time, for symbolic sizes."""

Factor = float | RunTimeNumber | None


def _axes(
    op: Op,
    source: Sequence[Size],
    target: Sequence[Size],
    align_corners: bool,
    factors: Sequence[Factor],
    kind: Any,
) -> list[_Axis | OpenAxis]:
    made: list[_Axis | OpenAxis] = []
    for size, wanted, factor in zip(source, target, factors, strict=True):
        if isinstance(factor, RunTimeNumber) or not (
            isinstance(size, int) and isinstance(wanted, int)
        ):
            element = F64 if kind is np.float64 else F32
            made.append(OpenAxis(op.b, size, wanted, factor, align_corners, element))
        else:
            made.append(_Axis(size, wanted, factor, align_corners, kind))
    return made


def _open(op: Op, method: Method) -> open_resampling.Method:
    if method not in _OPEN:
        raise op.error("an antialiasing filter of a symbolic size", "mark the dimension as static")
    return _OPEN[method]


def _resampled(
    op: Op,
    x: Instruction,
    axes: Sequence[_Axis | OpenAxis],
    method: Method,
    *,
    back: bool = False,
) -> Instruction:
    """Resample the last dimensions of `x`; `back`: the gradient, from targets to sources."""
    b, first = op.b, x.shape.rank - len(axes)
    made = b.convert_to(x, wider(x.shape.dtype))
    for number in reversed(range(len(axes))):
        axis = axes[number]
        if isinstance(axis, OpenAxis):
            open_taps = _open(op, method)(axis)
            if back:
                made = spread_back(b, made, first + number, axis.size, open_taps)
            else:
                made = sampled_at(b, made, first + number, open_taps)
            continue
        taps = method(axis)
        if back:
            taps = taps.transposed(axis.size)
        made = sampled(b, made, first + number, taps)
    return b.convert_to(made, op.dtype)


def _float_of(op: Op) -> Any:
    if not op.dtype.is_float:
        raise op.error(f"of {op.dtype.name}")
    return np.float64 if op.dtype.bits == 64 else np.float32


def _forward(method: Method, rank: int, *, has_corners: bool) -> Callable[..., Instruction]:
    def rule(op: Op, x: Instruction, size: Sequence[Size], *given: Any) -> Instruction:
        align, factors = _corners(given, has_corners)
        kind = _float_of(op)
        axes = _axes(op, x.shape.dims[-rank:], size, align, factors, kind)
        return op.b.zeros(op.shape) if 0 in op.dims else _resampled(op, x, axes, method)

    return rule


def _backward(method: Method, rank: int, *, has_corners: bool) -> Callable[..., Instruction]:
    def rule(
        op: Op,
        gradient: Instruction,
        size: Sequence[Size],
        input_size: Sequence[Size],
        *given: Any,
    ) -> Instruction:
        align, factors = _corners(given, has_corners)
        axes = _axes(op, input_size[-rank:], size, align, factors, _float_of(op))
        if 0 in gradient.shape.dims:
            return op.b.zeros(op.shape)
        return _resampled(op, gradient, axes, method, back=True)

    return rule


def _corners(given: Sequence[Any], has_corners: bool) -> tuple[bool, Sequence[Factor]]:
    """Return whether corners are aligned, and the factors of the dimensions."""
    return (bool(given[0]), given[1:]) if has_corners else (False, given)


def _copied(method: Method, rank: int) -> Callable[..., Instruction]:
    """Return the rule of a method with one tap: elements are copied, of any type."""

    def rule(op: Op, x: Instruction, size: Sequence[Size], *factors: Any) -> Instruction:
        if 0 in op.dims:
            return op.b.zeros(op.shape)
        kind = np.float64 if op.dtype.is_float and op.dtype.bits == 64 else np.float32
        axes = _axes(op, x.shape.dims[-rank:], size, False, factors, kind)
        for number, axis in enumerate(axes, x.shape.rank - rank):
            if isinstance(axis, _Axis):
                x = _repeated(op, x, number, method(axis).indices[:, 0], axis)
            elif _times(axis):
                x = _each_repeated(op, x, number, _times(axis))
            else:
                x = sampled_at(op.b, x, number, _open(op, method)(axis))
        return x

    return rule


def _times(axis: OpenAxis) -> int:
    """Return the number of repetitions of each element, if it is the same for all; else 0.

    A power of two is exact in every float type.
    """
    if isinstance(axis.factor, RunTimeNumber):
        return 0
    for times in (2, 4, 8, 16, 32):
        if axis.target == axis.size * times and axis.factor in (None, times):
            return times
    return 0


def _each_repeated(op: Op, x: Instruction, axis: int, times: int) -> Instruction:
    b, dims = op.b, x.shape.dims
    wide = (*dims[: axis + 1], times, *dims[axis + 1 :])
    own_dims = tuple(other for other in range(len(wide)) if other != axis + 1)
    joined = (*dims[:axis], dims[axis] * times, *dims[axis + 1 :])
    return b.reshape_to(b.spread(x, wide, own_dims), joined)


def _repeated(op: Op, x: Instruction, axis: int, indices: Array, sizes: _Axis) -> Instruction:
    """Return elements along an axis; whole repetitions are a broadcast."""
    times, rest = divmod(sizes.target, sizes.size)
    if rest == 0 and np.array_equal(indices, np.repeat(np.arange(sizes.size), times)):
        return _each_repeated(op, x, axis, times)
    return taken(op.b, x, axis, indices)


for _rank in (1, 2, 3):
    for _name, _method in (
        ("upsample_nearest", _nearest),
        ("_upsample_nearest_exact", _nearest_exact),
    ):
        RULES.add(_copied(_method, _rank), f"{_name}{_rank}d")
        RULES.add(_backward(_method, _rank, has_corners=False), f"{_name}{_rank}d_backward")
for _name, _method, _rank in (
    ("upsample_linear1d", _linear, 1),
    ("upsample_bilinear2d", _linear, 2),
    ("upsample_trilinear3d", _linear, 3),
    ("upsample_bicubic2d", _cubic, 2),
    ("_upsample_bilinear2d_aa", _antialiased(_triangle_filter, 2), 2),
    ("_upsample_bicubic2d_aa", _antialiased(_cubic_filter, 4), 2),
):
    RULES.add(_forward(_method, _rank, has_corners=True), _name)
    RULES.add(_backward(_method, _rank, has_corners=True), f"{_name}_backward")
