# SPDX-License-Identifier: Apache-2.0
"""Ops that move elements: shapes, joins, splits, fills, tiles, ranges.

Sizes come as known arrays, so every result shape is known at compile time, symbolic or not.
`Shape`, `Size` and `Rank` give known values and no instruction.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ingot.frontends.building.indexing import rolled, rolled_by
from ingot.frontends.tensorflow.graphs.captured import TensorRef
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    Size,
    Sizes,
    TensorList,
    Text,
    Value,
    plain_size,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F64, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def _identity(op: Op) -> Value:
    return op.values[0]


def _identity_n(op: Op) -> tuple[Value, ...]:
    return tuple(op.values)


def _shape(op: Op) -> Value:
    return Known.sizes(op.dims(0), op.result())


def _shape_n(op: Op) -> tuple[Value, ...]:
    return tuple(Known.sizes(op.dims(n), op.result(n)) for n in range(len(op)))


def _size(op: Op) -> Value:
    return Known.of(dim_math.product(op.dims(0)), op.result())


def _rank(op: Op) -> Value:
    return Known.of(op.rank(0), op.result())


def _const(op: Op) -> Value:
    value = np.asarray(op.attribute("value"))
    if op.node.outputs[0].dtype == "string":
        return Text(value)
    return Known(value, op.result())


def resolve_reshape(op: Op, total: Size, wanted: Sizes) -> Sizes:
    """Return `wanted` with its -1 replaced so that there are `total` elements."""
    open_axes = [axis for axis, size in enumerate(wanted) if size == -1]
    if not open_axes:
        if not op.b.same(total, dim_math.product(wanted)):
            raise op.mistake(f"a tensor of {total} elements cannot take shape {list(wanted)}")
        return wanted
    rest = dim_math.product(size for size in wanted if size != -1)
    if rest == 0:
        missing: Size | None = _missing_of_nothing(op.dims(0), wanted)
    else:
        missing = dim_math.exact_quotient(total, rest)
    if missing is None:
        raise op.mistake(f"a tensor of {total} elements cannot take shape {list(wanted)}")
    return tuple(missing if size == -1 else size for size in wanted)


def _missing_of_nothing(dims: Sizes, wanted: Sizes) -> Size | None:
    """Return what -1 stands for beside a 0: as in TensorFlow, sizes of 0 count on neither side."""
    return dim_math.exact_quotient(
        dim_math.product(dim_math.maximum(size, 1) for size in dims),
        dim_math.product(size for size in wanted if size not in (0, -1)),
    )


def _reshape(op: Op) -> Value:
    wanted = op.sizes(1, "new shape", least=-1)
    total = dim_math.product(op.dims(0))
    if op.b.program.is_computed((*wanted, total)):
        return _computed_reshape(op, total, wanted)
    return op.b.reshape_to(op.tensor(0), resolve_reshape(op, total, wanted))


def _computed_reshape(op: Op, total: Size, wanted: Sizes) -> Value:
    """Reshape to or from sizes that only run time knows to fit."""
    b = op.b
    if -1 in wanted:
        rest = dim_math.product(size for size in wanted if size != -1)
        given = op.dims(0)
        missing = (
            dim_math.exact_quotient(total, rest)
            if rest != 0
            else _missing_of_nothing(given, wanted)
        )
        if missing is None:
            divisor = b.maximum(b.size(rest), b.constant(1, S64))
            missing = computed_size(op.frame, b.divide(b.size(total), divisor))
        wanted = tuple(missing if size == -1 else size for size in wanted)
    count = dim_math.product(wanted)
    flat = b.reshape_to(op.tensor(0), (total,))
    if count != total:
        fits = b.compare(b.size(count), b.size(total), direction="EQ")
        shape = f"[{', '.join(map(str, wanted))}]"
        emit_assertion(b, fits, f"a tensor of {total} elements cannot take shape {shape}")
        flat = b.emit("dynamic-slice", flat, b.constant(0, S64), dynamic_slice_sizes=(count,))
    return b.reshape_to(flat, wanted)


def _expand_dims(op: Op) -> Value:
    dims = op.dims(0)
    op.let_be_scalar(1)
    axis = op.axis(1, len(dims) + 1)
    return op.b.reshape_to(op.tensor(0), (*dims[:axis], 1, *dims[axis:]))


def _is_one(op: Op, size: Size) -> bool:
    """Whether a dimension has one index; one of a computed size is taken to have not."""
    if not op.b.program.is_computed((size,)):
        return op.fixed(size, "size, whether it is 1") == 1
    text = f"Squeeze would drop a dimension that the data decides: the size {size} is 1"
    emit_assertion(op.b, op.b.compared("NE", op.b.size(size), 1), text)
    return False


def _squeeze(op: Op) -> Value:
    dims = op.dims(0)
    given = op.attribute("squeeze_dims") or op.attribute("axis") or ()
    axes = {op.axis_of(int(axis), len(dims)) for axis in given}
    for axis in axes:
        if not op.b.same(dims[axis], 1):
            raise op.error(f"cannot squeeze dimension {axis} of size {dims[axis]}")
    dropped = axes or {dimension for dimension, size in enumerate(dims) if _is_one(op, size)}
    kept = tuple(size for dimension, size in enumerate(dims) if dimension not in dropped)
    return op.b.reshape_to(op.tensor(0), kept)


def _transpose(op: Op) -> Value:
    return op.b.transposed(op.tensor(0), op.axes(1, op.rank(0), "permutation"))


def _concat(op: Op, parts: list[Instruction], axis: int) -> Value:
    whole = [part for part in parts if part.shape.dims[axis] != 0] or parts[:1]
    first = whole[0].shape.dims
    for part in whole[1:]:
        for dimension, (left, right) in enumerate(zip(first, part.shape.dims, strict=True)):
            if dimension != axis and not op.b.same(left, right):
                raise op.mistake(
                    f"shapes {whole[0].shape.to_string(with_layout=False)} and "
                    f"{part.shape.to_string(with_layout=False)} cannot be joined along axis {axis}"
                )
    return op.b.concatenated(whole, axis)


def _concat_v2(op: Op) -> Value:
    axis = op.axis(len(op) - 1, op.rank(0))
    return _concat(op, op.tensors(0, -1), axis)


def _concat_v1(op: Op) -> Value:
    axis = op.axis(0, op.rank(1))
    return _concat(op, op.tensors(1), axis)


def _pack(op: Op) -> Value:
    op.scope.packed[TensorRef(op.node.name)] = op.values
    rank = op.rank(0)
    axis = op.axis_of(int(op.attribute("axis", 0)), rank + 1)
    parts = [
        op.b.reshape_to(part, (*part.shape.dims[:axis], 1, *part.shape.dims[axis:]))
        for part in op.tensors()
    ]
    return _concat(op, parts, axis)


def _unpack(op: Op) -> tuple[Value, ...]:
    operand = op.tensor(0)
    dims = operand.shape.dims
    axis = op.axis_of(int(op.attribute("axis", 0)), len(dims))
    count = int(op.attribute("num"))
    if not op.b.same(dims[axis], count):
        raise op.error(f"cannot unpack {count} parts from a dimension of size {dims[axis]}")
    rest = (*dims[:axis], *dims[axis + 1 :])
    return tuple(op.b.reshape_to(op.b.sliced(operand, axis, n, n + 1), rest) for n in range(count))


def _split(op: Op) -> tuple[Value, ...]:
    operand = op.tensor(1)
    axis = op.axis(0, operand.shape.rank)
    count = int(op.attribute("num_split"))
    whole = operand.shape.dims[axis]
    part = dim_math.exact_quotient(whole, count)
    if part is None and op.b.program.is_computed((whole,)):
        part = computed_size(op.frame, op.b.binary("divide", op.b.size(whole), count))
    if part is None or not op.b.same(part * count, whole):
        raise op.mistake(f"a dimension of size {whole} cannot be split into {count} equal parts")
    return tuple(op.b.sliced(operand, axis, part * n, part * (n + 1)) for n in range(count))


def _split_v(op: Op) -> tuple[Value, ...]:
    operand = op.tensor(0)
    op.let_be_scalar(2)
    axis = op.axis(2, operand.shape.rank)
    sizes = list(op.sizes(1, "split sizes", least=-1))
    count = int(op.attribute("num_split"))
    if len(sizes) != count:
        raise op.mistake(f"{len(sizes)} split sizes {sizes} for {count} parts")
    whole = operand.shape.dims[axis]
    if -1 in sizes:
        rest: Size = whole
        for size in sizes:
            rest = rest - size if size != -1 else rest
        sizes[sizes.index(-1)] = rest
    parts: list[Value] = []
    start: Size = 0
    for size in sizes:
        parts.append(op.b.sliced(operand, axis, start, start + size))
        start = start + size
    if not op.b.same(start, whole):
        raise op.error(f"split sizes {sizes} do not add up to {whole}")
    return tuple(parts)


def _tile(op: Op) -> Value:
    operand = op.tensor(0)
    dims, repeats = operand.shape.dims, op.sizes(1, "multiples")
    middle: list[Size] = []
    axes: list[int] = []
    for size, repeat in zip(dims, repeats, strict=True):
        middle.append(repeat)
        axes.append(len(middle))
        middle.append(size)
    spread = op.b.broadcast_to(operand, tuple(middle), tuple(axes))
    return op.b.reshape_to(
        spread, tuple(size * repeat for size, repeat in zip(dims, repeats, strict=True))
    )


def _broadcast_to(op: Op) -> Value:
    wanted = op.sizes(1, "new shape")
    dims = op.b.broadcast_dims(op.dims(0), wanted)
    if dims is None or len(dims) != len(wanted):
        raise op.mistake(f"a tensor of shape {list(op.dims(0))} cannot take shape {list(wanted)}")
    return op.b.spread(op.tensor(0), dims)


def _fill(op: Op) -> Value:
    return op.b.spread(op.tensor(1), op.sizes(0, "shape"))


def _like(value: int) -> Rule:
    def rule(op: Op) -> Value:
        held = op.values[0]
        if isinstance(held, TensorList):
            buffer = None if held.buffer is None else op.b.like(value, held.buffer.shape)
            return replace(held, buffer=buffer)
        found = op.tensor(0)
        return op.b.like(value, found.shape)

    return rule


def _empty(op: Op) -> Value:
    return op.b.spread(op.b.scalar(0, op.result()), op.sizes(0, "shape"))


_RANGE_ORDER = "Requires start <= limit when delta > 0, and start >= limit when delta < 0"


def _range(op: Op) -> Value:
    """start, start + delta, …; the length is symbolic where bounds of integers are.

    It is computed at run time where the step is symbolic, or any of three floats.
    """
    element = op.result()
    bounds = [op.known_or_computed(n, "range's bounds") for n in range(3)]
    if any(bound is None for bound in bounds):
        return _computed_range(op)
    start, limit, delta = (bound.ravel()[0] for bound in bounds if bound is not None)
    exact = (start, limit, delta) if element.is_float else (delta,)
    if any(isinstance(bound, Dim) for bound in exact):
        return _computed_range(op)
    if delta == 0:
        raise op.error("Requires delta != 0")
    gap: Size = plain_size(limit) - plain_size(start) if delta > 0 else start - limit
    if not isinstance(gap, Dim) and not gap >= 0:
        raise op.error(f"{_RANGE_ORDER}: {start}/{limit}")
    if element.is_float:
        count: Size = int(np.ceil((float(limit) - float(start)) / float(delta)))
    else:
        step = abs(int(delta))
        count = dim_math.ceil_div(gap, step)
    index = op.b.iota_of(element, (count,), 0)
    return op.b.binary("add", op.b.binary("multiply", index, op.tensor(2)), op.tensor(0))


def _computed_range(op: Op) -> Value:
    """A range whose length only run time knows."""
    b, element = op.b, op.result()
    start, limit, delta = (b.reshape_to(op.tensor(n), ()) for n in range(3))
    exact = F64 if element.is_float else S64
    low, high, step = (b.convert_to(value, exact) for value in (start, limit, delta))
    emit_assertion(b, b.compared("NE", step, 0), "Requires delta != 0")
    gap, goes_up = b.subtract(high, low), b.compared("GT", step, 0)
    gap, step = (b.select(goes_up, value, b.negate(value)) for value in (gap, step))
    emit_assertion(b, b.compared("GE", gap, 0), _RANGE_ORDER)
    if element.is_float:
        count = b.convert_to(b.ceil(b.divide(gap, step)), S64)
    else:
        one = b.constant(1, S64)
        count = b.divide(b.subtract(b.add(gap, step), one), b.maximum(step, one))
    size = computed_size(op.frame, b.maximum(count, b.constant(0, S64)))
    index = b.iota_of(element, (size,), 0)
    return b.binary("add", b.binary("multiply", index, delta), start)


def _lin_space(op: Op) -> Value:
    count = op.integer(2, "number of points")
    element = op.result()
    start, stop = op.tensor(0), op.tensor(1)
    if count == 1:
        return op.b.reshape_to(start, (1,))
    step = op.b.divide(op.b.subtract(stop, start), op.b.scalar(count - 1, element))
    index = op.b.iota_of(element, (count,), 0)
    line = op.b.binary("add", op.b.binary("multiply", index, step), start)
    last = op.b.compared("EQ", index, count - 1)
    return op.b.select(last, op.b.spread(stop, (count,)), line)


def _reverse(op: Op) -> Value:
    flags = op.array(1, "dimensions").ravel()
    return _reversed(op, tuple(axis for axis, flag in enumerate(flags) if flag))


def _reverse_v2(op: Op) -> Value:
    return _reversed(op, op.axes(1, op.rank(0)))


def _reversed(op: Op, axes: tuple[int, ...]) -> Value:
    return op.b.reverse(op.tensor(0), dimensions=axes) if axes else op.tensor(0)


def _check_roll(op: Op) -> None:
    """Refuse what TensorFlow's kernel refuses, in its words."""
    if not op.rank(0):
        raise op.mistake("input must be 1-D or higher")
    for number, name in ((1, "shift"), (2, "axis")):
        if op.rank(number) > 1:
            found = ",".join(map(str, op.dims(number)))
            raise op.mistake(f"{name} must be a scalar or a 1-D vector. Found: [{found}]")
    shifts, axes = (dim_math.product(op.dims(number)) for number in (1, 2))
    if isinstance(shifts, int) and isinstance(axes, int) and shifts != axes:
        raise op.mistake("shift and axis must have the same size")


def _roll(op: Op) -> Value:
    _check_roll(op)
    operand, axes = op.tensor(0), op.axes(2, op.rank(0))
    known = op.known(1)
    if known is None or known.dtype == object:
        shifts = op.b.reshape_to(op.tensor(1), (len(axes),))
        for number, axis in enumerate(axes):
            shift = op.b.reshape_to(op.b.sliced(shifts, 0, number, number + 1), ())
            operand = rolled(op.b, operand, shift, axis)
        return operand
    for shift, axis in zip(op.integers(1, "shift"), axes, strict=True):
        if isinstance(operand.shape.dims[axis], int):
            operand = rolled_by(op.b, operand, shift, axis)
        else:
            operand = rolled(op.b, operand, op.b.constant(shift, S64), axis)
    return operand


def _ensure_shape(op: Op) -> Value:
    wanted = op.attribute("shape").shape
    dims = op.dims(0)
    if wanted is None:
        return op.values[0]
    if len(wanted) != len(dims) or not all(
        size is None or op.b.same(have, size) for have, size in zip(dims, wanted, strict=True)
    ):
        raise op.error(
            f"Shape of tensor {op.node.name} {list(dims)} is not compatible with expected shape "
            f"{list(wanted)}"
        )
    return op.values[0]


def _must_be_known(op: Op) -> Value:
    raise op.error(
        f"{op.node.op} is computed from data, and shapes follow from its result",
        "compute shapes from shapes, attributes and Python numbers only",
    )


def _device(op: Op) -> Value:
    """The index of the CPU among device names; their number when it is not there."""
    names = [str(name) for name in op.attribute("device_names")]
    return Known.of(names.index("CPU") if "CPU" in names else len(names), S32)


RULES: dict[str, Rule] = {
    "DeviceIndex": _device,
    **dict.fromkeys(
        (
            "Identity",
            "StopGradient",
            "PreventGradient",
            "Snapshot",
            "PlaceholderWithDefault",
            "DebugIdentityV2",
            "DebugIdentityV3",
        ),
        _identity,
    ),
    **dict.fromkeys(("BroadcastArgs", "BroadcastGradientArgs", "ConcatOffset"), _must_be_known),
    "BroadcastTo": _broadcast_to,
    "Concat": _concat_v1,
    "ConcatV2": _concat_v2,
    "Const": _const,
    "Empty": _empty,
    "EnsureShape": _ensure_shape,
    "ExpandDims": _expand_dims,
    "Fill": _fill,
    "IdentityN": _identity_n,
    "LinSpace": _lin_space,
    "NoOp": lambda op: (),
    "OnesLike": _like(1),
    "Pack": _pack,
    "ParallelConcat": lambda op: _concat(op, op.tensors(), 0),
    "Range": _range,
    "Rank": _rank,
    "Reshape": _reshape,
    "Reverse": _reverse,
    "ReverseV2": _reverse_v2,
    "Roll": _roll,
    "Shape": _shape,
    "ShapeN": _shape_n,
    "Size": _size,
    "Split": _split,
    "SplitV": _split_v,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unpack": _unpack,
    "ZerosLike": _like(0),
}
