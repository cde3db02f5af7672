# SPDX-License-Identifier: Apache-2.0
"""Stacks and TensorArrays that are resources: what TensorFlow 1 has in place of TensorLists.

Their elements are held one by one while a function is lowered (`Frame.arrays`), so their number
and indices are known at compile time, and elements may differ in shape. The flow that orders
TensorFlow's ops carries no number: the walk is in program order. Source: TensorFlow's
`kernels/stack.cc`, `kernels/tensor_array_ops.cc`, `kernels/tensor_array.h`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import ElementArray, Known, Value, Variable
from ingot.hlo.dtype import F32, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _array(op: Op) -> ElementArray:
    """Return what the handle that is operand 0 stands for."""
    found = op.frame.arrays.get(op.variable(0))
    if found is None:
        raise op.error(
            "a stack or TensorArray of TensorFlow 1 is used in another loop or branch than it "
            "was made in",
            "use tf.TensorArray of TensorFlow 2, or unroll the loop",
        )
    return found


def _handle(op: Op, array: ElementArray) -> Variable:
    """Return a handle for an array; its index is below those of the function's inputs."""
    made = Variable(-1 - len(op.frame.arrays), array.element, ())
    op.frame.arrays[made] = array
    return made


# ---- stacks


def _stack(op: Op) -> Value:
    most = op.integer(0, "max_size")
    return _handle(op, ElementArray(op.element("elem_type"), [], most=most if most >= 0 else None))


def _push(op: Op) -> Value:
    array, item = _array(op), op.tensor(1)
    if array.most is not None and len(array.elements) >= array.most:
        raise op.error(f"Stack overflowed its max_size ({array.most})")
    array.elements.append(item)
    return item


def _pop(op: Op) -> Value:
    array = _array(op)
    if not array.elements:
        raise op.error("Stack is empty when calling Pop().")
    item = array.elements.pop()
    assert item is not None
    return item


# ---- TensorArrays


def _tensor_array(op: Op) -> tuple[Value, ...]:
    size = op.integer(0, "size of the TensorArray")
    shape = op.attribute("element_shape").shape
    dims = None if shape is None or None in shape else tuple(shape)
    array = ElementArray(
        op.element("dtype"),
        [None] * size,
        dims,
        grows=bool(op.attribute("dynamic_size", False)),
        clears=bool(op.attribute("clear_after_read", True)),
    )
    return _handle(op, array), Known.of(0.0, F32)


def _write_at(op: Op, index: int, item: Instruction) -> None:
    array = _array(op)
    if array.grows and index >= len(array.elements):
        array.elements.extend([None] * (index + 1 - len(array.elements)))
    if not 0 <= index < len(array.elements):
        raise op.error(
            f"Tried to write to index {index} but array is not resizeable and size is: "
            f"{len(array.elements)}"
        )
    old = array.elements[index]
    if old is not None and not array.adds:
        raise op.error(
            f"Could not write to TensorArray index {index} because it has already been written to."
        )
    array.elements[index] = item if old is None else op.b.add(old, item)


def _read_at(op: Op, index: int) -> Instruction:
    array = _array(op)
    if not 0 <= index < len(array.elements):
        raise op.error(f"Tried to read from index {index} but array size is: {len(array.elements)}")
    found = array.elements[index]
    if found is None:
        if array.dims is None:
            raise op.error(
                f"Could not read from TensorArray index {index}: nothing was written there, or it "
                "was read before (clear_after_read)"
            )
        return op.b.zeros(Shape.array(array.element, array.dims))
    if array.clears and not array.adds:
        array.elements[index] = None
    return found


def _joined(op: Op, items: Sequence[Instruction]) -> Instruction:
    """Return elements stacked; of none, the shape must be known."""
    b, array = op.b, _array(op)
    if not items:
        if array.dims is None:
            raise op.error("the shape of the elements of an empty TensorArray is not known")
        return b.zeros(Shape.array(array.element, (0, *array.dims)))
    return b.concatenated([b.reshape_to(item, (1, *item.shape.dims)) for item in items], 0)


def _write(op: Op) -> Value:
    """handle, index, value, flow."""
    index = op.integer(1, "index")
    _write_at(op, index, op.tensor(2))
    return op.values[3]


def _read(op: Op) -> Value:
    index = op.integer(1, "index")
    return _read_at(op, index)


def _gather(op: Op) -> Value:
    return _joined(op, [_read_at(op, index) for index in op.integers(1, "indices")])


def _scatter(op: Op) -> Value:
    """handle, indices, value, flow."""
    b, value = op.b, op.tensor(2)
    for row, index in enumerate(op.integers(1, "indices")):
        part = b.sliced(value, 0, row, row + 1)
        _write_at(op, index, b.reshape_to(part, value.shape.dims[1:]))
    return op.values[3]


def _concat(op: Op) -> tuple[Value, ...]:
    items = [_read_at(op, index) for index in range(len(_array(op).elements))]
    if not items:
        raise op.error("TensorArray has size zero, but elements are concatenated")
    if any(item.shape.rank == 0 for item in items):
        raise op.error("Concat saw a scalar shape, but requires at least vectors.")
    lengths = Known.sizes([item.shape.dims[0] for item in items], S64)
    return op.b.concatenated(items, 0), lengths


def _split(op: Op) -> Value:
    """handle, value, lengths, flow."""
    value, start = op.tensor(1), 0
    for index, length in enumerate(op.integers(2, "lengths")):
        _write_at(op, index, op.b.sliced(value, 0, start, start + length))
        start += length
    return op.values[3]


def _gradient(op: Op) -> tuple[Value, ...]:
    """The array that holds gradients: as long as the other, and what is written is added up."""
    array, source = _array(op), str(op.attribute("source"))
    if source not in array.gradients:
        empty: list[Instruction | None] = [None] * len(array.elements)
        made = ElementArray(array.element, empty, array.dims, adds=True)
        array.gradients[source] = _handle(op, made)
    return array.gradients[source], op.values[1]


RULES: dict[str, Rule] = {
    "StackCloseV2": lambda op: (),
    "StackPopV2": _pop,
    "StackPushV2": _push,
    "StackV2": _stack,
    "TensorArrayCloseV3": lambda op: (),
    "TensorArrayConcatV3": _concat,
    "TensorArrayGatherV3": _gather,
    "TensorArrayGradV3": _gradient,
    "TensorArrayReadV3": _read,
    "TensorArrayScatterV3": _scatter,
    "TensorArraySizeV3": lambda op: Known.of(len(_array(op).elements), S32),
    "TensorArraySplitV3": _split,
    "TensorArrayV3": _tensor_array,
    "TensorArrayWriteV3": _write,
}
