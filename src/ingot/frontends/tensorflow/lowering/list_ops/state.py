# SPDX-License-Identifier: Apache-2.0
"""TensorLists as the state of loops and the results of branches: counted, with room to grow.

A computation's parameters have fixed shapes, so a list that gets longer or shorter in a loop is one
buffer with a count, and branches give lists of one shape. `better_start` says what a loop has to
start with, `common_form` what several lists can be, `fitted` brings one into such a form.

The room of a list without a bound is asserted at each push. Where it was not enough, the launch
compiles the function with more room for such lists and runs it again (`list_rooms`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, TensorList
from ingot.frontends.tensorflow.variants.list_rooms import grown, room_text
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import record

_ROOM_BYTES, _REPEATED_BYTES = 256 << 10, 16 << 10
_LEAST_ROOM, _LEAST_REPEATED, _MOST_ROOM = 128, 16, 1 << 14
"""Room for a list without a bound: bytes, and elements.

A list that is made in a loop is filled with zeros in each iteration, and a list of such lists has
room for each of them.
"""


def _room(builder: TensorBuilder, found: TensorList, dims: Sizes) -> int:
    """Return how many elements a list without a bound may get in a loop."""
    size = Shape.array(found.element, dims).bytes
    times = builder.program.rooms.get(kind_of(found, dims), 0)
    least = _LEAST_REPEATED if builder.is_repeated or found.of_lists else _LEAST_ROOM
    if not isinstance(size, int):
        return grown(least, 1, times)
    space = _REPEATED_BYTES if builder.is_repeated else _ROOM_BYTES
    return grown(min(max(space // max(size, 1), least), _MOST_ROOM), size, times)


def room_of_pieces(builder: TensorBuilder, element: DType, dims: Sizes) -> tuple[str, int]:
    """Return the kind and the room of the lists in a list that the program is given."""
    inner = TensorList(None, 0, element)
    times = builder.program.rooms.get(kind_of(inner, dims), 0)
    return kind_of(inner, dims), grown(_LEAST_REPEATED, 1, times)


def kind_of(found: TensorList, dims: Sizes) -> str:
    """Return what lists are called that get more room together: by what their elements are."""
    if found.of_lists:
        return f"lists of {Shape.array(found.element, dims[1:])}"
    return str(Shape.array(found.element, dims))


def assert_room(builder: TensorBuilder, found: TensorList, fits: Instruction) -> None:
    """Assert that an element fits into a list that grows."""
    assert found.buffer is not None
    kind = kind_of(found, found.buffer.shape.dims[1:])
    emit_assertion(builder, fits, room_text(kind, found.rows))
    builder.program.has_rooms = True


def length_of(builder: TensorBuilder, found: TensorList) -> Instruction:
    """Return how many elements a list has, as `s32[]`."""
    if isinstance(found.length, Instruction):
        return found.length
    return builder.scalar(found.length, S32)


def with_buffer(builder: TensorBuilder, found: TensorList, dims: Sizes) -> TensorList:
    """Return the list with a buffer of zeros if it has none yet."""
    if found.buffer is not None:
        return found
    rows = found.length
    if isinstance(rows, Instruction):
        rows = _room(builder, found, dims) if found.bound is None else found.bound
    return _with_zeros(builder, found, rows, dims)


def _with_zeros(builder: TensorBuilder, found: TensorList, rows: Size, dims: Sizes) -> TensorList:
    buffer = builder.zeros(Shape.array(found.element, (rows, *dims)))
    lengths = builder.zeros(Shape.array(S32, (rows,))) if found.of_lists else None
    return replace(found, buffer=buffer, dims=dims, lengths=lengths)


def counted(builder: TensorBuilder, found: TensorList) -> TensorList:
    """Return a list that has a buffer as one that is counted, with room to grow."""
    if found.is_counted:
        return found
    assert found.buffer is not None
    assert found.dims is not None
    more = _room(builder, found, found.dims)
    rows = found.rows + more if found.bound is None else found.bound
    return replace(
        found, buffer=with_rows(builder, found.buffer, rows, 0), length=length_of(builder, found)
    )


def with_rows(builder: TensorBuilder, buffer: Instruction, rows: Size, axis: int) -> Instruction:
    """Return a buffer with zeros behind, so that there are as many rows along `axis`."""
    zero = builder.scalar(0, buffer.shape.dtype)
    return builder.padded(buffer, axis, 0, rows - buffer.shape.dims[axis], zero)


@record
class ListForm:
    """What a list's place in the state of a loop, or among the results of branches, is like.

    Attributes:
        element: element type of the buffer.
        dims: shape of an element; None for no buffer.
        rows: of the buffer of a counted list.
        is_counted: whether the length is an instruction.
        of_lists: whether the elements are lists.
    """

    element: DType
    dims: Sizes | None
    rows: Size
    is_counted: bool
    of_lists: bool

    @staticmethod
    def of(found: TensorList) -> ListForm:
        """Return the form of a list."""
        dims = None if found.buffer is None else found.buffer.shape.dims[1:]
        rows = found.rows if found.buffer is not None and found.is_counted else 0
        return ListForm(found.element, dims, rows, found.is_counted, found.of_lists)


def fitted(builder: TensorBuilder, found: TensorList, form: ListForm) -> TensorList:
    """Return the list in another form, which must have room for it."""
    if form.dims is not None:
        if found.buffer is None:
            empty = replace(found, element=form.element, of_lists=form.of_lists)
            rows = empty.length if isinstance(empty.length, int | Dim) else form.rows
            found = _with_zeros(builder, empty, rows, form.dims)
        found = _with_dims(builder, found, form)
    return replace(found, length=length_of(builder, found)) if form.is_counted else found


def _with_dims(builder: TensorBuilder, found: TensorList, form: ListForm) -> TensorList:
    assert found.buffer is not None
    assert form.dims is not None
    buffer, lengths = found.buffer, found.lengths
    if found.of_lists:
        buffer = with_rows(builder, buffer, form.dims[0], 1)
    if form.is_counted:
        buffer = with_rows(builder, buffer, form.rows, 0)
        lengths = None if lengths is None else with_rows(builder, lengths, form.rows, 0)
    return replace(found, buffer=buffer, lengths=lengths, dims=buffer.shape.dims[1:])


def common_form(lists: Sequence[TensorList]) -> ListForm:
    """Return a form that all of `lists` can be brought into."""
    first = next((item for item in lists if item.buffer is not None), lists[0])
    form = ListForm.of(first)
    counted = any(item.is_counted or item.length != first.length for item in lists)
    rows, dims = form.rows, form.dims
    for item in lists:
        if item.buffer is not None:
            rows = dim_math.maximum(rows, item.rows)
            dims = _common_dims(dims, item)
    return replace(form, dims=dims, rows=rows if counted else 0, is_counted=counted)


def _common_dims(dims: Sizes | None, item: TensorList) -> Sizes | None:
    """Return element dimensions for both; inner lists are as long as the longest."""
    assert item.buffer is not None
    own = item.buffer.shape.dims[1:]
    if dims is None or not item.of_lists:
        return own if dims is None else dims
    return (dim_math.maximum(dims[0], own[0]), *dims[1:])


def alike(builder: TensorBuilder, lists: Sequence[TensorList]) -> list[TensorList]:
    """Return the lists in their common form, all in one computation."""
    form = common_form(lists)
    return [fitted(builder, item, form) for item in lists]


def better_start(
    builder: TensorBuilder, old: TensorList, new: TensorList, sizes: Collection[str]
) -> TensorList:
    """Return the list that a loop starts with, in a form that can also hold what its body made.

    Args:
        builder: of the computation around the loop.
        old: what the loop was tried with.
        new: what the body made of it; it belongs to the body's computation.
        sizes: the names of the sizes that are known before the loop.
    """
    form = common_form([old, new])
    if not symbols_of((form.rows,)).issubset(sizes):
        # Each iteration computes how long the list is: its room is added to what it begins with.
        form = replace(form, rows=_rows_before(old))
    if form.is_counted and form.dims is not None and not (old.is_counted and old.buffer):
        form = replace(form, rows=_rows_for(builder, old, new, form))
    if new.buffer is not None and old.buffer is None:
        form = replace(form, element=new.element, of_lists=new.of_lists)
    return old if form == ListForm.of(old) else fitted(builder, old, form)


def _rows_before(found: TensorList) -> Size:
    """Return how many rows a list has before a loop, or needs for the elements it has."""
    if found.buffer is not None:
        return found.rows
    return 0 if isinstance(found.length, Instruction) else found.length


def _rows_for(builder: TensorBuilder, old: TensorList, new: TensorList, form: ListForm) -> Size:
    """Return how many rows a list needs that a loop makes longer or shorter."""
    if old.bound is not None:
        return old.bound
    if new.is_counted and new.buffer is not None:
        # What is in the loop has made room.
        return form.rows
    change = 1 if new.is_counted or old.is_counted else _difference(new.length, old.length)
    if isinstance(change, int) and change < 0:
        return form.rows
    assert form.dims is not None
    of_lists = old.of_lists or new.of_lists
    like = replace(old, element=form.element, of_lists=of_lists)
    return form.rows + _room(builder, like, form.dims)


def _difference(new: Size | Instruction, old: Size | Instruction) -> Size:
    assert not isinstance(new, Instruction)
    assert not isinstance(old, Instruction)
    return new - old
