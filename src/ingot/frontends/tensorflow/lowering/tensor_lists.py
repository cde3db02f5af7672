"""TensorLists: the buffers behind TensorArray, and what gradients of loops push and pop.

A list is one array of its elements, `[capacity, *element]`. A reserved list has as many elements as
it was reserved for; a list that is pushed to counts its elements at run time. A list without a
bound gets one that depends on the size of its elements, and an assertion that holds it.

A list that leaves its owner (to another function, or into a list of lists) leaves as its buffer
with the elements in the last rows: who pops from the end never sees the rows before them.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.frontends.tensorflow.captured import TypeName
from ingot.frontends.tensorflow.lowering.gather import gather
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Known, Size, Sizes, TensorList, Value
from ingot.hlo.assertions import emit_assertion
from ingot.hlo.dtype import S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_ROOM_BYTES = 4 << 20
_LEAST_ROOM, _MOST_ROOM = 128, 1 << 16
"""Room for a list without a bound: bytes, and elements."""


def _element_dims(op: Op, number: int) -> Sizes | None:
    """Return the element shape that operand `number` says, or None when a size is open (-1)."""
    known = op.known(number)
    if known is None:
        return None
    dims = op.sizes(number, "element shape")
    if known.ndim == 0 or -1 in dims:
        return None
    return dims


def _with_buffer(op: Op, found: TensorList, dims: Sizes) -> TensorList:
    """Return the list with a buffer of zeros if it has none yet."""
    if found.buffer is not None:
        return found
    capacity = _room(found.element, dims) if found.capacity is None else found.capacity
    shape = Shape.array(found.element, (capacity, *dims))
    return replace(found, buffer=op.b.zeros(shape), capacity=capacity, dims=dims)


def _room(element: DType, dims: Sizes) -> int:
    """Return how many elements a list without a bound gets room for."""
    size = Shape.array(element, dims).bytes
    if not isinstance(size, int):
        return _LEAST_ROOM
    return min(max(_ROOM_BYTES // max(size, 1), _LEAST_ROOM), _MOST_ROOM)


def _made(
    op: Op, capacity: Size | None, length: Size | Instruction, dims: Sizes | None
) -> TensorList:
    kind = op.attribute("element_dtype")
    if isinstance(kind, TypeName) and kind.name == "variant":
        # What the inner lists hold is learnt from the first one.
        return TensorList(None, length, capacity, S32, None, capacity is None, of_lists=True)
    made = TensorList(None, length, capacity, op.element("element_dtype"), dims, capacity is None)
    return made if dims is None else _with_buffer(op, made, dims)


def _empty(op: Op) -> Value:
    if op.known(1) is None:
        return _made(op, None, op.b.constant(0, S32), _element_dims(op, 0))
    (capacity,) = op.sizes(1, "bound of the list")
    bound = None if isinstance(capacity, int) and capacity < 0 else capacity
    return _made(op, bound, op.b.constant(0, S32), _element_dims(op, 0))


def _reserve(op: Op) -> Value:
    (size,) = op.sizes(1, "size of the list")
    return _made(op, size, size, _element_dims(op, 0))


def _from_tensor(op: Op) -> Value:
    tensor = op.tensor(0)
    size, *dims = tensor.shape.dims
    return TensorList(tensor, size, size, tensor.shape.dtype, tuple(dims))


def _starts(op: Op, index: Instruction, rank: int) -> list[Instruction]:
    zero = op.b.constant(0, S32)
    return [op.b.convert_to(index, S32), *([zero] * rank)]


def _write(op: Op, found: TensorList, index: Instruction, item: Instruction) -> TensorList:
    filled = _with_buffer(op, found, item.shape.dims)
    assert filled.buffer is not None
    row = op.b.reshape_to(item, (1, *item.shape.dims))
    starts = _starts(op, index, item.shape.rank)
    buffer = op.b.emit("dynamic-update-slice", filled.buffer, row, *starts)
    return replace(filled, buffer=buffer, dims=item.shape.dims)


def filled_at_the_end(builder: TensorBuilder, found: TensorList) -> Instruction | None:
    """Return the list's buffer with its elements in the last rows; None when it has no buffer."""
    if found.buffer is None or not isinstance(found.length, Instruction):
        return found.buffer
    dims = found.buffer.shape.dims
    padded = builder.concatenated([builder.zeros(found.buffer.shape), found.buffer], 0)
    zero = builder.constant(0, S32)
    starts = [builder.convert_to(found.length, S32), *([zero] * (len(dims) - 1))]
    return builder.emit("dynamic-slice", padded, *starts, dynamic_slice_sizes=dims)


def _read(op: Op, found: TensorList, index: Instruction, dims: Sizes | None) -> Instruction:
    if found.buffer is None:
        if dims is None:
            raise op.error("an element is read from a list whose element shape is not known")
        return op.b.zeros(Shape.array(found.element, dims))
    sizes = (1, *found.buffer.shape.dims[1:])
    starts = _starts(op, index, len(sizes) - 1)
    row = op.b.emit("dynamic-slice", found.buffer, *starts, dynamic_slice_sizes=sizes)
    return op.b.reshape_to(row, sizes[1:])


def _set_item(op: Op) -> Value:
    if op.attribute("resize_if_index_out_of_bounds", False):
        raise op.error("the TensorArray grows (dynamic_size=True)", "give it its full size")
    found, item = op.list(0), op.tensor(2)
    return _write(op, found, op.tensor(1), item)


def _get_item(op: Op) -> Value:
    return _read(op, op.list(0), op.tensor(1), _element_dims(op, 2))


def _count(op: Op, found: TensorList) -> Instruction:
    if isinstance(found.length, Instruction):
        return found.length
    return op.b.scalar(found.length, S32)


def _push_back(op: Op) -> Value:
    found = op.list(0)
    item = op.values[1]
    if isinstance(item, TensorList):
        inner = filled_at_the_end(op.b, item)
        if inner is None:
            # An earlier pass over the loop's body: the inner list has not shown its elements yet.
            return found
        found = replace(found, element=inner.shape.dtype)
    else:
        inner = op.tensor(1)
    count = _count(op, found)
    written = _write(op, found, count, inner)
    if found.is_open and written.capacity is not None:
        limit = op.b.compared("LT", count, op.b.scalar(written.capacity, S32))
        emit_assertion(op.b, limit, _too_long(written.capacity))
    return replace(written, length=op.b.binary("add", count, 1))


def _too_long(capacity: Size) -> str:
    return (
        f"a loop that is differentiated ran more than {capacity} times; give tf.while_loop "
        "maximum_iterations to make room for more"
    )


def _pop_back(op: Op) -> tuple[Value, ...]:
    found = op.list(0)
    last = op.b.binary("add", _count(op, found), -1)
    shorter = replace(found, length=last)
    if not found.of_lists:
        return shorter, _read(op, found, last, _element_dims(op, 1))
    if found.buffer is None:
        return shorter, TensorList(None, 0, 0, found.element)
    inner = _read(op, found, last, None)
    size, *dims = inner.shape.dims
    return shorter, TensorList(inner, size, size, inner.shape.dtype, tuple(dims))


def _stack(op: Op) -> Value:
    found = op.list(0)
    if isinstance(found.length, Instruction):
        raise op.error("a list that was pushed to is stacked: its size depends on the data")
    dims = _element_dims(op, 1)
    if found.buffer is None and dims is not None:
        found = _with_buffer(op, found, dims)
    if found.buffer is None:
        raise op.error("a list is stacked whose element shape is not known")
    return found.buffer


def _length(op: Op) -> Value:
    length = op.list(0).length
    return length if isinstance(length, Instruction) else Known.of(length, S32)


def _element_shape(op: Op) -> Value:
    dims = op.list(0).dims
    if dims is None:
        raise op.error("the element shape of the list is not known")
    return Known.sizes(dims, op.result())


def _gather(op: Op) -> Value:
    found = op.list(0)
    if found.buffer is None:
        raise op.error("elements are read from a list whose element shape is not known")
    return gather(op, found.buffer, op.tensor(1), 0, 0)


def _scatter(op: Op) -> Value:
    """tensor, indices, element_shape, num_elements."""
    tensor, indices = op.tensor(0), op.tensor(1)
    (size,) = op.sizes(3, "size of the list") if len(op) > 3 else (-1,)
    if size == -1:
        raise op.error("a list of open size is made from scattered elements")
    dims = tensor.shape.dims[1:]
    zeros = op.b.zeros(Shape.array(tensor.shape.dtype, (size, *dims)))
    buffer = scatter_rows(op, "update", zeros, indices, tensor)
    return TensorList(buffer, size, size, tensor.shape.dtype, dims)


RULES: dict[str, Rule] = {
    "EmptyTensorList": _empty,
    "TensorListElementShape": _element_shape,
    "TensorListFromTensor": _from_tensor,
    "TensorListGather": _gather,
    "TensorListGetItem": _get_item,
    "TensorListLength": _length,
    "TensorListPopBack": _pop_back,
    "TensorListPushBack": _push_back,
    "TensorListReserve": _reserve,
    "TensorListScatterV2": _scatter,
    "TensorListSetItem": _set_item,
    "TensorListStack": _stack,
}
