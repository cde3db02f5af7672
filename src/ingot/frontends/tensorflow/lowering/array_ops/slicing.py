# SPDX-License-Identifier: Apache-2.0
"""Slices, their gradients and updates, and padding.

A StridedSlice is split into a part for indices known at run time (`dynamic-slice`), a static
`slice` with `reverse` for negative strides, and a reshape for dropped and new dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.frontends.building.arrays import index_type
from ingot.frontends.tensorflow.lowering.context.computed_sizes import elements
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import assert_index, assert_inside
from ingot.frontends.tensorflow.lowering.indexing.strided import Entry, Strides, bounds, numpy_slice
from ingot.frontends.tensorflow.lowering.state_ops.variables import read, write
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def _slice(op: Op) -> Value:
    operand, b = op.tensor(0), op.b
    dims = operand.shape.dims
    wanted = _slice_sizes(op, dims)
    if op.known(1) is not None:
        for axis, (begin, size) in enumerate(zip(op.sizes(1, _BEGIN), wanted, strict=True)):
            operand = b.sliced(operand, axis, begin, begin + size)
        return operand
    starts = elements(op.frame, op.tensor(1))
    for start, whole, size in zip(starts, dims, wanted, strict=True):
        assert_inside(b, start, whole - size + 1)
    return b.emit("dynamic-slice", operand, *starts, dynamic_slice_sizes=wanted)


_BEGIN = "slice begin"
_SIZES = "slice sizes"


def _slice_sizes(op: Op, dims: Sizes) -> Sizes:
    """Return the sizes of a slice of an array of `dims`; -1 stands for the rest of a dimension."""
    if op.known_or_computed(2, _SIZES) is not None:
        found: list[Size | None] = list(op.sizes(2, _SIZES, least=-1))
    else:
        found = [op.known_size(item, _SIZES) for item in elements(op.frame, op.tensor(2))]
    return tuple(
        size if size is not None and size != -1 else _size_behind_begin(op, axis, dims[axis], size)
        for axis, size in enumerate(found)
    )


def _size_behind_begin(op: Op, axis: int, whole: Size, size: Size | None) -> Size:
    """Return the size of a slice that is -1, or None if only run time knows whether it is -1."""
    b = op.b
    if size is not None and op.known(1) is not None:
        return whole - op.sizes(1, _BEGIN)[axis]
    begin = elements(op.frame, op.tensor(1))[axis]
    found = b.subtract(b.scalar(whole, begin.shape.dtype), begin)
    if size is None:
        wanted = elements(op.frame, op.tensor(2))[axis]
        found = b.select(b.compared("EQ", wanted, -1), found, wanted)
    return op.sizes_in(found, _SIZES)[0]


def _axes_of(strides: Strides) -> list[Entry]:
    """Return the entries that stand for operand dimensions, in order."""
    return [entry for entry in strides.entries if entry.kind != "new"]


def _result_dims(strides: Strides, sizes: Sequence[Size]) -> Sizes:
    """Return the final dimensions, given the sliced size of each operand dimension."""
    left = iter(sizes)
    dims: list[Size] = []
    for entry in strides.entries:
        if entry.kind == "new":
            dims.append(1)
            continue
        size = next(left)
        if entry.kind == "slice":
            dims.append(size)
    return tuple(dims)


def _moving_start(op: Op, entry: Entry, size: Size) -> Instruction:
    """Return where an entry that only run time knows lies, counted from the front."""
    b, begin = op.b, entry.begin
    assert isinstance(begin, Instruction)
    whole = b.scalar(size, begin.shape.dtype)
    is_negative = b.compared("LT", begin, 0)
    start = b.select(is_negative, b.add(begin, whole), begin)
    if entry.is_checked:
        return start
    if entry.kind == "index":
        assert_index(b, begin, start, size)
    else:
        # Elsewhere TensorFlow cuts the slice at an end of the dimension: its size would be another.
        end = b.add(begin, b.scalar(entry.span, begin.shape.dtype))
        is_open = b.select(
            is_negative, b.compared("LT", end, 0), b.compare(end, whole, direction="LE")
        )
        inside = b.and_(b.compared("GE", start, 0), is_open)
        emit_assertion(b, inside, _OUTSIDE.format(span=entry.span, size=size))
    return start


_OUTSIDE = (
    "a slice of {span} elements reaches over an end of a dimension of size {size}, where "
    "TensorFlow would cut it; the compiled program has a fixed size there"
)


_BACKWARDS = "size of a dimension that is sliced backwards"


def _start_of(op: Op, entry: Entry, size: Size) -> Size:
    """Return where an index entry lies, counted from the front."""
    begin = entry.begin
    assert not isinstance(begin, Instruction)
    if begin is None:
        return 0
    if isinstance(begin, int) and begin < 0:
        begin = begin + size
    if isinstance(begin, int) and isinstance(size, int) and not 0 <= begin < size:
        raise op.error(f"index {entry.begin} of a dimension of size {size}")
    return begin


def _runtime_part(op: Op, operand: Instruction, entries: list[Entry]) -> Instruction:
    """Apply the indices that are only known at run time."""
    b = op.b
    dims = operand.shape.dims
    if not any(entry.is_moving for entry in entries):
        return operand
    element = index_type(dims)
    zero = b.scalar(0, element)
    starts: list[Instruction] = []
    sizes: list[Size] = []
    for entry, size in zip(entries, dims, strict=True):
        start = b.convert_to(_moving_start(op, entry, size), element) if entry.is_moving else zero
        starts.append(start)
        sizes.append(_moving_span(entry) if entry.is_moving else size)
    return b.emit("dynamic-slice", operand, *starts, dynamic_slice_sizes=tuple(sizes))


def _moving_span(entry: Entry) -> Size:
    return 1 if entry.kind == "index" else entry.span


def _static_axis(op: Op, operand: Instruction, axis: int, entry: Entry) -> Instruction:
    b = op.b
    size = operand.shape.dims[axis]
    if entry.kind == "index":
        if entry.is_moving:
            return operand
        start = _start_of(op, entry, size)
        return b.sliced(operand, axis, start, start + 1)
    if entry.is_moving:
        return b.sliced(operand, axis, 0, size, entry.stride)
    if entry.stride > 0:
        start, limit = _bounds(op, entry, size)
        if isinstance(start, int) and isinstance(limit, int) and limit < start:
            limit = start
        return b.sliced(operand, axis, start, limit, entry.stride)
    if entry.begin is None and entry.end is None:
        flipped = b.reverse(operand, dimensions=(axis,))
        return b.sliced(flipped, axis, 0, size, -entry.stride)
    start, limit, step = _forward(entry, op.fixed(size, _BACKWARDS))
    return b.reverse(b.sliced(operand, axis, start, limit, step), dimensions=(axis,))


def _bounds(op: Op, entry: Entry, size: Size) -> tuple[Size, Size]:
    return bounds(entry, size, is_computed=op.b.program.is_computed((size,)))


def _forward(entry: Entry, size: int) -> tuple[int, int, int]:
    """Return (start, limit, stride) that takes the same elements from front to back."""
    found = numpy_slice(entry, size)
    picked = range(found.start, found.stop, found.step)
    if len(picked) == 0:
        return 0, 0, 1
    return picked[-1], picked[0] + 1, -entry.stride


def strided(op: Op, operand: Instruction, strides: Strides) -> Instruction:
    """Return the strided slice of an operand."""
    entries = _axes_of(strides)
    made = _runtime_part(op, operand, entries)
    for axis, entry in enumerate(entries):
        made = _static_axis(op, made, axis, entry)
    return op.b.reshape_to(made, _result_dims(strides, made.shape.dims))


def _strided_slice(op: Op) -> Value:
    return strided(op, op.tensor(0), Strides.of(op))


def _strided_slice_gradient(op: Op) -> Value:
    """Zeros of the operand's shape with the gradient where the slice was."""
    dims = op.sizes(0, "shape")
    gradient = op.tensor(4)
    strides = Strides.of(op, 1, len(dims), gradient.shape.dims)
    return _placed(op, op.b.zeros(gradient.shape.with_dims(dims)), gradient, strides)


def _update(op: Op) -> Value:
    operand = op.tensor(0)
    return _placed(op, operand, op.tensor(4), Strides.of(op))


def _assign(op: Op) -> tuple[Value, ...]:
    old = read(op)
    return write(op, _placed(op, old, op.tensor(4), Strides.of(op, rank=old.shape.rank)))


def _placed(op: Op, into: Instruction, part: Instruction, strides: Strides) -> Instruction:
    """Return `into` with `part` at the indices that the strided slice takes."""
    b = op.b
    entries = _axes_of(strides)
    dims = into.shape.dims
    lengths = _lengths(op, entries, dims)
    wanted = _result_dims(strides, lengths)
    for given, size in zip(reversed(part.shape.dims), reversed(wanted), strict=False):
        if given != 1:
            b.same(given, size)
    part = b.reshape_to(b.spread(part, wanted), lengths)
    mask = b.like(True, part.shape.with_dtype("pred"))
    for axis, entry in enumerate(entries):
        part, mask = _spread_axis(op, part, mask, axis, entry, dims[axis])
    if all(length is size or length == size for length, size in zip(lengths, dims, strict=True)):
        return part
    return b.select(mask, part, into)


def _lengths(op: Op, entries: list[Entry], dims: Sizes) -> Sizes:
    lengths: list[Size] = []
    for entry, size in zip(entries, dims, strict=True):
        if entry.kind == "index":
            lengths.append(1)
        elif entry.is_moving:
            lengths.append(dim_math.ceil_div(entry.span, entry.stride))
        elif entry.stride > 0:
            start, limit = _bounds(op, entry, size)
            length = dim_math.ceil_div(limit - start, entry.stride)
            lengths.append(max(length, 0) if isinstance(length, int) else length)
        elif entry.begin is None and entry.end is None:
            lengths.append(dim_math.floordiv(size - entry.stride - 1, -entry.stride))
        else:
            start, limit, step = _forward(entry, op.fixed(size, _BACKWARDS))
            lengths.append(len(range(start, limit, step)))
    return tuple(lengths)


def _spread_axis(
    op: Op, part: Instruction, mask: Instruction, axis: int, entry: Entry, size: Size
) -> tuple[Instruction, Instruction]:
    """Put `part` and `mask` at their indices along one axis of `size`."""
    b = op.b
    if entry.is_moving and entry.kind == "slice":
        return _moved(op, part, axis, entry, size), _moved(op, mask, axis, entry, size)
    if entry.is_moving:
        start = _moving_start(op, entry, size)
        dims = (*part.shape.dims[:axis], size, *part.shape.dims[axis + 1 :])
        index = b.iota_of(start.shape.dtype, dims, axis)
        here = b.compare(index, b.spread(start, dims), direction="EQ")
        return b.spread(part, dims), b.and_(b.spread(mask, dims), here)
    if entry.kind == "slice" and entry.stride < 0:
        part, mask = (b.reverse(x, dimensions=(axis,)) for x in (part, mask))
        entry = _reversed_entry(entry, size)
    if entry.kind == "index":
        begin = _start_of(op, entry, size)
        entry = Entry("slice", begin, begin + 1)
    start, _ = _bounds(op, entry, size)
    zero = b.constant(0, part.shape.dtype)
    false = b.constant(False, mask.shape.dtype)
    return (
        _strided_pad(b, part, axis, start, entry.stride, size, zero),
        _strided_pad(b, mask, axis, start, entry.stride, size, false),
    )


def _moved(op: Op, part: Instruction, axis: int, entry: Entry, size: Size) -> Instruction:
    """Put `part` where a slice lies that only run time knows, and zeros around it."""
    b = op.b
    zero = b.constant(0, part.shape.dtype)
    # Of a slice of nothing with a stride the span is negative.
    span = dim_math.maximum(entry.span, 0)
    part = _strided_pad(b, part, axis, 0, entry.stride, span, zero)
    shape = part.shape.with_dim(axis, size)
    start = b.convert_to(_moving_start(op, entry, size), index_type(shape.dims))
    return b.update_at(b.zeros(shape), part, axis, start)


def _reversed_entry(entry: Entry, size: Size) -> Entry:
    if isinstance(size, int):
        start, limit, step = _forward(entry, size)
        return Entry("slice", start, limit, step)
    # The whole dimension backwards: the last element taken lies at (size - 1) % stride.
    first = dim_math.mod(size - 1, -entry.stride)
    return replace(entry, begin=first, end=None, stride=-entry.stride)


def _strided_pad(
    b: TensorBuilder,
    part: Instruction,
    axis: int,
    start: Size,
    stride: int,
    size: Size,
    value: Instruction,
) -> Instruction:
    length = part.shape.dims[axis]
    if stride > 1:
        # Gaps after every element, the last one too, so that the size stays a simple product.
        dims = part.shape.dims
        gaps = b.reshape_to(part, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
        gaps = b.padded(gaps, axis + 1, 0, stride - 1, value)
        part = b.reshape_to(gaps, (*dims[:axis], length * stride, *dims[axis + 1 :]))
        length = length * stride
    over = start + length - size
    if isinstance(over, int) and over > 0:
        part = b.sliced(part, axis, 0, length - over)
        over = 0
    elif stride > 1 and b.program.is_computed((length, size)):
        kept = dim_math.minimum(length, size - start)
        part, over = b.sliced(part, axis, 0, kept), start + kept - size
    return b.padded(part, axis, start, -over, value)


def _pairs(op: Op) -> list[tuple[Size, Size]]:
    flat = op.sizes(1, "paddings")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _pad(op: Op) -> Value:
    operand = op.tensor(0)
    value = op.tensor(2) if len(op) > 2 else op.b.constant(0, operand.shape.dtype)
    pairs = _pairs(op)
    if all(isinstance(size, int) for pair in pairs for size in pair):
        padding = tuple((low, high, 0) for low, high in pairs)
        return op.b.emit("pad", operand, value, padding=padding) if padding else operand
    for axis, (low, high) in enumerate(pairs):
        operand = op.b.padded(operand, axis, low, high, value)
    return operand


def _mirror_pad(op: Op) -> Value:
    """REFLECT leaves the border element out, SYMMETRIC repeats it."""
    operand, b = op.tensor(0), op.b
    skip = 1 if op.attribute("mode") == "REFLECT" else 0
    for axis, (low, high) in enumerate(_pairs(op)):
        size = operand.shape.dims[axis]
        front = b.sliced(operand, axis, skip, low + skip)
        back = b.sliced(operand, axis, size - high - skip, size - skip)
        sides = [b.reverse(side, dimensions=(axis,)) for side in (front, back)]
        operand = b.concatenated([sides[0], operand, sides[1]], axis)
    return operand


RULES: dict[str, Rule] = {
    "MirrorPad": _mirror_pad,
    "Pad": _pad,
    "PadV2": _pad,
    "ResourceStridedSliceAssign": _assign,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice_gradient,
    "TensorStridedSliceUpdate": _update,
}
