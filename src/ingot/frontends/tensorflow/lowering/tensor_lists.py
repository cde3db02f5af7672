"""TensorLists: the buffers behind TensorArray, and what gradients of loops push and pop.

A list is one array of its elements, `[capacity, *element]`. A reserved list has as many elements as
it was reserved for; a list that is pushed to counts its elements at run time and needs a bound.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.gather import gather
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.values import Known, Size, Sizes, TensorList, Value
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


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
    shape = Shape.array(found.element, (found.capacity, *dims))
    return TensorList(op.b.zeros(shape), found.length, found.capacity, found.element, dims)


def _made(op: Op, capacity: Size, length: Size | Instruction, dims: Sizes | None) -> TensorList:
    made = TensorList(None, length, capacity, op.element("element_dtype"), dims)
    return made if dims is None else _with_buffer(op, made, dims)


def _empty(op: Op) -> Value:
    (capacity,) = op.sizes(1, "bound of the list")
    if isinstance(capacity, int) and capacity < 0:
        raise op.error(
            "the list grows without a bound",
            "give tf.while_loop maximum_iterations, or the TensorArray a size",
        )
    return _made(op, capacity, op.b.constant(0, S32), _element_dims(op, 0))


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


def _write(op: Op, found: TensorList, index: Instruction, item: Instruction) -> Instruction:
    filled = _with_buffer(op, found, item.shape.dims)
    assert filled.buffer is not None
    row = op.b.reshape_to(item, (1, *item.shape.dims))
    return op.b.emit(
        "dynamic-update-slice", filled.buffer, row, *_starts(op, index, item.shape.rank)
    )


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
    buffer = _write(op, found, op.tensor(1), item)
    return TensorList(buffer, found.length, found.capacity, found.element, item.shape.dims)


def _get_item(op: Op) -> Value:
    return _read(op, op.list(0), op.tensor(1), _element_dims(op, 2))


def _count(op: Op, found: TensorList) -> Instruction:
    if isinstance(found.length, Instruction):
        return found.length
    return op.b.scalar(found.length, S32)


def _push_back(op: Op) -> Value:
    found, item = op.list(0), op.tensor(1)
    count = _count(op, found)
    buffer = _write(op, found, count, item)
    length = op.b.binary("add", count, 1)
    return TensorList(buffer, length, found.capacity, found.element, item.shape.dims)


def _pop_back(op: Op) -> tuple[Value, ...]:
    found = op.list(0)
    last = op.b.binary("add", _count(op, found), -1)
    item = _read(op, found, last, _element_dims(op, 1))
    return TensorList(found.buffer, last, found.capacity, found.element, found.dims), item


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
