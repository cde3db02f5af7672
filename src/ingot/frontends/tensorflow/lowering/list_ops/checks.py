# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow checks of TensorLists: shapes of elements, indices and lengths.

The shape of an element is given when a list is made, perhaps with open sizes (-1), perhaps by a
tensor that only run time knows. What is wrong for certain is refused in TensorFlow's words, so that
its own kernel says it; what only run time knows is an assertion. Source: `kernels/list_kernels.h`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.tensorflow.lowering.context.op import Op
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    Size,
    Sizes,
    TensorList,
    dims_of,
    plain_size,
)
from ingot.frontends.tensorflow.lowering.indexing.index_checks import are_inside
from ingot.frontends.tensorflow.lowering.list_ops.state import length_of
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion

SAME_SHAPE = "TensorList arguments to AddN must all have the same shape"


def declared_shape(op: Op, number: int) -> Known | Instruction:
    """Return the element shape that operand `number` gives."""
    found = op.known(number)
    if found is not None:
        return Known(found, op.dtype(number))
    return op.tensor(number)


def closed_dims(shape: Known | Instruction | None) -> Sizes | None:
    """Return the sizes of an element shape that is known whole, or None."""
    dims = _open_dims(shape)
    if dims is None:
        return None
    closed = tuple(size for size in dims if size is not None)
    return closed if len(closed) == len(dims) else None


def _open_dims(shape: Known | Instruction | None) -> tuple[Size | None, ...] | None:
    """Return an element shape with None for an open size, or None for a shape of any rank."""
    if shape is None or not dims_of(shape):
        return None
    if isinstance(shape, Instruction):
        return (None,) * shape.shape.static_dims[0]
    sizes = [plain_size(item) for item in shape.array.ravel()]
    return tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)


def _open_dims_of(found: TensorList) -> tuple[Size | None, ...] | None:
    return found.dims if found.dims is not None else _open_dims(found.declared)


def _text(dims: tuple[Size | None, ...]) -> str:
    return f"[{','.join('?' if size is None else str(size) for size in dims)}]"


def element_dims(op: Op, found: TensorList, number: int) -> Sizes | None:
    """Return the shape of elements that nothing was written to, or None if it is open.

    It is what the list's own shape and that of operand `number` say together.
    """
    if found.dims is not None:
        return found.dims
    shapes = [shape for shape in (found.declared, declared_shape(op, number)) if shape is not None]
    dims = [one for shape in shapes if (one := _open_dims(shape)) is not None]
    if not dims or any(len(one) != len(dims[0]) for one in dims):
        return None
    merged = tuple(
        next((s for s in sizes if s is not None), None) for sizes in zip(*dims, strict=True)
    )
    if None not in merged:
        return tuple(size for size in merged if size is not None)
    computed = (item for item in shapes if isinstance(item, Instruction) and item.shape.rank)
    vector = next(computed, None)
    return None if vector is None else op.sizes_in(vector, "element shape")


def check_item(op: Op, found: TensorList, item: Instruction) -> None:
    """Refuse an element that has another shape than the list's elements."""
    dims, own = item.shape.dims, _open_dims(found.declared)
    text = "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
    if op.node.op == "TensorListPushBack":
        text = "Tried to append a tensor with incompatible shape to a list. Op element shape: "
    if own is not None and not _fits(own, dims):
        raise op.error(f"{text}{_text(dims)} list shape: {_text(own)}")
    _assert_fits(op, found.declared, Known.sizes(dims, S64), f"{text}{_text(dims)}")
    if found.buffer is None or found.dims is None:
        return
    if not _fits(found.dims, dims) or not all(map(op.b.same, found.dims, dims)):
        raise op.error(
            f"the elements of a list have different shapes: {_text(found.dims)} and {_text(dims)}",
            "give each element the same shape, or compile the code around the list",
        )


def check_rows(op: Op, declared: Known, dims: Sizes) -> None:
    """Refuse a tensor whose rows, of shape `dims`, have not the shape that a list is given."""
    own = _open_dims(declared)
    if own is None:
        return
    is_fit = _fits(own, dims) and all(
        size is None or op.b.same(size, dim) for size, dim in zip(own, dims, strict=True)
    )
    if not is_fit:
        raise op.mistake(
            f"Specified a list with shape {_text(own)} from a tensor with shape {_text(dims)}"
        )


def _fits(dims: tuple[Size | None, ...], others: tuple[Size | None, ...]) -> bool:
    """Whether two element shapes may be one."""
    return len(dims) == len(others) and not any(
        isinstance(one, int) and isinstance(other, int) and one != other
        for one, other in zip(dims, others, strict=True)
    )


def check_index(op: Op, found: TensorList, verb: str) -> None:
    """Let the program fail unless operand 1 is the index of an element."""
    known, length = op.known(1), found.length
    if known is not None and known.dtype != object and isinstance(length, int):
        index = int(known.item())
        if not 0 <= index < length:
            raise op.error(f"Trying to {verb} element {index} in a list with {length} elements.")
        return
    index = op.tensor(1)
    if isinstance(length, Instruction):
        below = op.b.compared("LT", op.b.convert_to(index, S32), length)
        inside = op.b.and_(below, op.b.compared("GE", index, 0))
        text = "its own number of elements"
    else:
        inside, text = are_inside(op.b, index, length), f"{length} elements"
    assert_everywhere(
        op.b, inside, f"Trying to {verb} an element that is not in a list with {text}"
    )


def check_length(op: Op, found: TensorList) -> None:
    """Let the program fail unless a list is as long as the attribute `num_elements` says."""
    wanted = int(op.attribute("num_elements", -1))
    if wanted == -1 or found.length == wanted:
        return
    text = f"Operation expected a list with {wanted} elements but got a list with "
    if isinstance(found.length, int):
        raise op.error(f"{text}{found.length} elements.")
    equal = op.b.compared("EQ", length_of(op.b, found), op.b.scalar(wanted, S32))
    emit_assertion(op.b, equal, f"{text}another number of elements.")


def assert_same_elements(op: Op, one: TensorList, other: TensorList) -> bool:
    """Let the program fail unless two lists have elements of one shape; return whether they can."""
    left, right = _open_dims_of(one), _open_dims_of(other)
    if left is None or right is None or one.of_lists or other.of_lists:
        return True
    text = "Trying to add two lists of tensors with incompatible element shapes"
    if not _fits(left, right):
        said = f"{text}. One is {_text(left)} and the other is {_text(right)}. {SAME_SHAPE}"
        emit_assertion(op.b, op.b.constant(False), said)
        return False
    _assert_fits(op, one.declared, _shape_of(other), f"{text}. {SAME_SHAPE}")
    if not isinstance(one.declared, Instruction):
        _assert_fits(op, other.declared, _shape_of(one), f"{text}. {SAME_SHAPE}")
    return True


def merged_shape(one: TensorList, other: TensorList) -> Known | Instruction | None:
    """Return the element shape of a sum of two lists: the more specific one of theirs."""
    shapes = (one.declared, other.declared)
    closed = [shape for shape in shapes if closed_dims(shape) is not None]
    computed = [shape for shape in shapes if isinstance(shape, Instruction) and shape.shape.rank]
    return (*closed, *computed, *shapes)[0]


def _shape_of(found: TensorList) -> Known | Instruction | None:
    return found.declared if found.dims is None else Known.sizes(found.dims, S64)


def _assert_fits(
    op: Op, shape: Known | Instruction | None, other: Known | Instruction | None, text: str
) -> None:
    """Let the program fail unless an element shape that only run time knows fits another one."""
    if not isinstance(shape, Instruction) or other is None or not shape.shape.rank:
        return
    left, right = (op.b.convert_to(op.frame.tensor(value), S64) for value in (shape, other))
    is_open = op.b.or_(op.b.compared("LT", left, 0), op.b.compared("LT", right, 0))
    assert_everywhere(op.b, op.b.or_(is_open, op.b.compared("EQ", left, right)), text)
