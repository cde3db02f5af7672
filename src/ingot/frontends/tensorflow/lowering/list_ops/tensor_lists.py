# SPDX-License-Identifier: Apache-2.0
"""TensorLists: the buffers behind TensorArray, and what gradients of loops push and pop.

A list is one array of its elements. Outside of loops and branches its length is a size, and a push
or pop gives an array of another size. A list that a loop pushes to or pops from is counted at run
time (`state` says how); where the program gives it no bound, it has room that depends on the
size of its elements, and an assertion that holds it.

Invariant: the length of a list is exact, also where it leaves the function or enters another list.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import row_at, with_row
from ingot.frontends.tensorflow.graphs.captured import TypeName
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    Size,
    TensorList,
    Value,
    plain_size,
)
from ingot.frontends.tensorflow.lowering.indexing.gather import gather
from ingot.frontends.tensorflow.lowering.indexing.index_checks import are_below
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.list_ops.checks import (
    SAME_SHAPE,
    assert_same_elements,
    check_index,
    check_item,
    check_length,
    check_rows,
    closed_dims,
    declared_shape,
    element_dims,
    merged_shape,
)
from ingot.frontends.tensorflow.lowering.list_ops.state import (
    alike,
    assert_room,
    counted,
    length_of,
    with_buffer,
    with_rows,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion


def _made(op: Op, length: Size | Instruction, bound: Size | None = None) -> TensorList:
    """Return a list without elements, or of zeros; operand 0 is the shape of an element."""
    kind, declared = op.attribute("element_dtype"), declared_shape(op, 0)
    if isinstance(kind, TypeName) and kind.name == "variant":
        # What the inner lists hold is learnt from the first one.
        return TensorList(None, length, S32, None, bound, of_lists=True, declared=declared)
    element = op.element("element_dtype")
    dims = closed_dims(declared)
    made = TensorList(None, length, element, dims, bound, declared=declared)
    return made if dims is None else with_buffer(op.b, made, dims)


def _empty(op: Op) -> Value:
    if op.known(1) is None:
        return _made(op, 0)
    most = op.size(1, "bound of the list", least=-1)
    bound = None if isinstance(most, int) and most < 0 else most
    return _made(op, 0, bound)


def _reserve(op: Op) -> Value:
    op.let_be_scalar(1)
    size = op.size(1, "num_elements to reserve")
    return _made(op, size)


def _from_tensor(op: Op) -> Value:
    tensor, declared = op.tensor(0), declared_shape(op, 1)
    size, *rest = tensor.shape.dims
    dims, element = tuple(rest), tensor.shape.dtype
    if isinstance(declared, Instruction):
        # Only run time knows it. That of the rows says as much.
        return TensorList(tensor, size, element, dims)
    check_rows(op, declared, dims)
    return TensorList(tensor, size, element, dims, declared=declared)


def _resize(op: Op) -> Value:
    """The first elements, or all with zeros behind."""
    found, known = op.list(0), op.known(1)
    if found.buffer is None and isinstance(found.length, Instruction):
        raise op.error("a list gets another length whose element shape is not known")
    if known is not None and not found.is_counted:
        size = plain_size(known.item())
        if isinstance(size, int) and size < 0:
            raise op.mistake(f"TensorListSlice expects size to be non-negative. Got: {size}")
        if found.buffer is None:
            return replace(found, length=size)
        if isinstance(size, int) and isinstance(found.length, int) and size < found.length:
            return replace(found, buffer=op.b.sliced(found.buffer, 0, 0, size), length=size)
        return replace(found, buffer=with_rows(op.b, found.buffer, size, 0), length=size)
    if found.buffer is None:
        raise op.error("a list gets another length whose element shape is not known")
    found, size = counted(op.b, found), op.b.convert_to(op.tensor(1), S32)
    assert found.buffer is not None
    text = "TensorListSlice expects size to be non-negative"
    emit_assertion(op.b, op.b.compared("GE", size, 0), text)
    limit = op.b.compared("LE", size, op.b.scalar(found.rows, S32))
    assert_room(op.b, found, limit)
    inside = op.b.compared("LT", op.b.iota_of(S32, (found.rows,), 0), size)
    shape = found.buffer.shape
    buffer = op.b.select(op.b.spread(inside, shape.dims, (0,)), found.buffer, op.b.zeros(shape))
    return replace(found, buffer=buffer, length=size)


def _with_row(op: Op, buffer: Instruction, index: Instruction, row: Instruction) -> Instruction:
    return with_row(op.b, buffer, op.b.convert_to(index, S32), row)


def _row(op: Op, buffer: Instruction, index: Instruction) -> Instruction:
    return row_at(op.b, buffer, op.b.convert_to(index, S32))


def _read(op: Op, found: TensorList, index: Instruction, number: int) -> Instruction:
    """Return an element; operand `number` is its shape, for one that was not written."""
    if found.buffer is not None:
        return _row(op, found.buffer, index)
    dims = element_dims(op, found, number)
    if dims is None:
        raise op.error("an element is read from a list whose element shape is not known")
    return op.b.zeros(Shape.array(found.element, dims))


def _set_item(op: Op) -> Value:
    item = op.tensor(2)
    found = op.list(0)
    check_item(op, found, item)
    found = with_buffer(op.b, found, item.shape.dims)
    if op.attribute("resize_if_index_out_of_bounds", False):
        found = _with_index(op, found)
    else:
        check_index(op, found, "modify")
    assert found.buffer is not None
    return replace(found, buffer=_with_row(op, found.buffer, op.tensor(1), item))


def _with_index(op: Op, found: TensorList) -> TensorList:
    """Return the list, grown to have the element that operand 1 numbers."""
    known = op.known(1)
    if known is not None and not found.is_counted and isinstance(found.length, int):
        length = max(found.length, op.fixed(plain_size(known.item()), "index") + 1)
        assert found.buffer is not None
        return replace(found, buffer=with_rows(op.b, found.buffer, length, 0), length=length)
    found = counted(op.b, found)
    index = op.b.convert_to(op.tensor(1), S32)
    limit = op.b.compared("LT", index, op.b.scalar(found.rows, S32))
    assert_room(op.b, found, limit)
    length = op.b.maximum(length_of(op.b, found), op.b.binary("add", index, 1))
    return replace(found, length=length)


def _get_item(op: Op) -> Value:
    found = op.list(0)
    check_index(op, found, "access")
    return _read(op, found, op.tensor(1), 2)


def _push_back(op: Op) -> Value:
    found = op.list(0)
    inner = op.values[1]
    if not isinstance(inner, TensorList):
        check_item(op, found, op.tensor(1))
        return _pushed(op, found, op.tensor(1), None)
    if inner.buffer is None:
        # An earlier pass over the loop's body: the inner list has not shown its elements yet.
        return found
    if (
        found.buffer is not None
        and found.dims is not None
        and found.dims != inner.buffer.shape.dims
    ):
        rows = dim_math.maximum(found.dims[0], inner.rows)
        inner = replace(inner, buffer=with_rows(op.b, inner.buffer, rows, 0))
        assert inner.buffer is not None
        buffer = with_rows(op.b, found.buffer, rows, 1)
        found = replace(found, buffer=buffer, dims=inner.buffer.shape.dims)
    assert inner.buffer is not None
    found = replace(found, element=inner.buffer.shape.dtype)
    return _pushed(op, found, inner.buffer, length_of(op.b, inner))


def _pushed(op: Op, found: TensorList, item: Instruction, length: Instruction | None) -> TensorList:
    """Return the list with one more element; `length`: that of the element, if it is a list."""
    filled = with_buffer(op.b, found, item.shape.dims)
    buffer, lengths, count = filled.buffer, filled.lengths, filled.length
    assert buffer is not None
    if not isinstance(count, Instruction):
        if filled.bound is not None and count == filled.bound:
            raise op.error(
                f"Tried to push item into a full list list size: {count} max_num_elements: {count}"
            )
        row = op.b.reshape_to(item, (1, *item.shape.dims))
        buffer = row if count == 0 else op.b.concatenated([buffer, row], 0)
        if lengths is not None and length is not None:
            last = op.b.reshape_to(length, (1,))
            lengths = last if count == 0 else op.b.concatenated([lengths, last], 0)
        return replace(filled, buffer=buffer, lengths=lengths, length=count + 1)
    if filled.bound is None:
        limit = op.b.compared("LT", count, op.b.scalar(filled.rows, S32))
        assert_room(op.b, filled, limit)
    buffer = _with_row(op, buffer, count, item)
    if lengths is not None and length is not None:
        lengths = _with_row(op, lengths, count, length)
    return replace(filled, buffer=buffer, lengths=lengths, length=op.b.binary("add", count, 1))


def _pop_back(op: Op) -> tuple[Value, ...]:
    found = op.list(0)
    if found.length == 0:
        raise op.error("Trying to pop from an empty list.")
    last = op.b.binary("add", length_of(op.b, found), -1)
    shorter = _shorter(op, found, last)
    if not found.of_lists:
        return shorter, _read(op, found, last, 1)
    if found.buffer is None or found.lengths is None:
        return shorter, TensorList(None, 0, found.element)
    inner, length = _row(op, found.buffer, last), _row(op, found.lengths, last)
    return shorter, TensorList(inner, length, inner.shape.dtype, inner.shape.dims[1:])


def _shorter(op: Op, found: TensorList, last: Instruction) -> TensorList:
    if isinstance(found.length, Instruction):
        return replace(found, length=last)
    size = found.length - 1
    parts = [
        None if part is None else op.b.sliced(part, 0, 0, size)
        for part in (found.buffer, found.lengths)
    ]
    return replace(found, buffer=parts[0], lengths=parts[1], length=size)


def _stack(op: Op) -> Value:
    found = op.list(0)
    check_length(op, found)
    if found.buffer is None:
        dims = element_dims(op, found, 1)
        if dims is None:
            raise op.error("a list is stacked whose element shape is not known")
        found = with_buffer(op.b, found, dims)
    return elements_of(op, found)


def elements_of(op: Op, found: TensorList) -> Instruction:
    """Return the elements of a list that has a buffer, stacked: as many as there are."""
    assert found.buffer is not None
    if not isinstance(found.length, Instruction):
        return found.buffer
    sizes = (computed_size(op.frame, found.length), *found.buffer.shape.dims[1:])
    starts = [op.b.constant(0, S32)] * len(sizes)
    return op.b.emit("dynamic-slice", found.buffer, *starts, dynamic_slice_sizes=sizes)


def add_lists(op: Op) -> Value:
    """AddN of lists: element by element."""
    total = op.list(0)
    for number in range(1, len(op)):
        total = _added(op, total, op.list(number))
    return total


def _added(op: Op, one: TensorList, other: TensorList) -> TensorList:
    if not assert_same_elements(op, one, other):
        return one
    rows = _rows_of_sum(op, one, other)
    one, other = alike(op.b, [one, other])
    if one.is_counted:
        equal = op.b.compared("EQ", length_of(op.b, one), length_of(op.b, other))
        text = "Trying to add two lists of tensors with different lengths"
        emit_assertion(op.b, equal, f"{text}. {SAME_SHAPE}")
    if one.buffer is None or other.buffer is None:
        return replace(one, declared=merged_shape(one, other))
    total = op.b.add(one.buffer, other.buffer)
    if rows is not None and rows != one.rows:
        total = op.b.sliced(total, 0, 0, rows)
    return replace(one, buffer=total)


def _rows_of_sum(op: Op, one: TensorList, other: TensorList) -> Size | None:
    """Return how many rows the sum of two lists needs; None if a buffer is missing.

    Both have as many elements, so either's rows do. A loop that adds to a list goes on with a
    buffer of the size that it began with, which is the older one; what an iteration computes would
    be another size in each.
    """
    if one.buffer is None or other.buffer is None:
        return None
    return min((one.rows, other.rows), key=op.b.program.age_of)


def _length(op: Op) -> Value:
    length = op.list(0).length
    return length if isinstance(length, Instruction) else Known.of(length, S32)


def _element_shape(op: Op) -> Value:
    """What is known of the shape: that of the elements, or else what the program gave."""
    found, element = op.list(0), op.result()
    if found.dims is not None and not found.of_lists:
        return Known.sizes(found.dims, element)
    if isinstance(found.declared, Instruction):
        return op.b.convert_to(found.declared, element)
    return Known.of(-1 if found.declared is None else found.declared.array, element)


def _gather(op: Op) -> Value:
    found = op.list(0)
    if found.buffer is None:
        raise op.error("elements are read from a list whose element shape is not known")
    return gather(op, found.buffer, op.tensor(1), 0, 0)


def _scatter(op: Op) -> Value:
    """tensor, indices, element_shape, num_elements."""
    tensor, indices = op.tensor(0), op.tensor(1)
    size = op.size(3, "number of elements", least=-1)
    if size == -1:
        size = _size_to_hold(op, 1)
    dims = tensor.shape.dims[1:]
    zeros = op.b.zeros(Shape.array(tensor.shape.dtype, (size, *dims)))
    _check_indices(op, 1, size)
    buffer = scatter_rows(op, "update", zeros, indices, tensor)
    return TensorList(buffer, size, tensor.shape.dtype, dims)


def _check_indices(op: Op, number: int, size: Size) -> None:
    """Let the program fail unless operand `number` has indices of elements of a list only."""
    b, indices = op.b, op.tensor(number)
    text = "Indices in TensorListScatter must all be non-negative."
    assert_everywhere(b, b.compared("GE", indices, 0), text)
    index, known = "an index that is not", op.known(number)
    if known is not None and known.dtype != object and isinstance(size, int):
        index = next((f"index {item}" for item in known.ravel() if item >= size), index)
    text = f"TensorListScatter: Trying to scatter at {index} in list with size {size}"
    assert_everywhere(b, are_below(b, indices, size), text)


def _size_to_hold(op: Op, number: int) -> Size:
    """Return how long a list is whose last element is at the greatest index of operand `number`."""
    known = op.known_or_computed(number, "indices")
    if known is not None and known.dtype != object:
        return int(known.max(initial=-1)) + 1
    return computed_size(op.frame, _greatest(op, op.tensor(number), 1))


def _greatest(op: Op, indices: Instruction, more: int) -> Instruction:
    """Return the greatest of the indices, -1 if there are none, and `more`."""
    least = op.b.constant(-1, indices.shape.dtype)
    whole = op.b.concatenated([op.b.reshape_to(least, (1,)), indices], 0)
    return op.b.binary("add", op.b.reduced("maximum", whole, (0,)), more)


def _scatter_into(op: Op) -> Value:
    """List, tensor, indices: the list grows to have an element at each of them."""
    tensor, indices = op.tensor(1), op.tensor(2)
    found = with_buffer(op.b, op.list(0), tensor.shape.dims[1:])
    assert found.buffer is not None
    if isinstance(found.length, Instruction):
        length = op.b.maximum(found.length, op.b.convert_to(_greatest(op, indices, 1), S32))
        assert_room(op.b, found, op.b.compared("LE", length, op.b.scalar(found.rows, S32)))
        found = replace(found, length=length)
    else:
        size = dim_math.maximum(found.length, _size_to_hold(op, 2))
        found = replace(found, buffer=with_rows(op.b, found.buffer, size, 0), length=size)
    assert found.buffer is not None
    _check_indices(op, 2, found.rows)
    return replace(found, buffer=scatter_rows(op, "update", found.buffer, indices, tensor))


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
    "TensorListResize": _resize,
    "TensorListScatterIntoExistingList": _scatter_into,
    "TensorListScatterV2": _scatter,
    "TensorListSetItem": _set_item,
    "TensorListStack": _stack,
}
