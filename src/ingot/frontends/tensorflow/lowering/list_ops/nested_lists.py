# SPDX-License-Identifier: Apache-2.0
"""Lists of lists between programs: the elements of all lists end to end, and how many each has.

A forward function gives its backward function such lists where a loop is in a loop. In a program a
list of lists is one buffer `[lists, room, *element]` with a vector of lengths (`state`).

Invariant: what crosses has only the elements that there are, however much room the buffer has.
"""

from __future__ import annotations

from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, TensorList
from ingot.frontends.tensorflow.lowering.list_ops.state import room_of_pieces
from ingot.frontends.tensorflow.variants.list_rooms import room_text
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def of_pieces(b: TensorBuilder, elements: Instruction, lengths: Instruction) -> TensorList:
    """Return the list of lists whose elements lie end to end, each with some room.

    Args:
        b: of the entry.
        elements: `[total, *element]`.
        lengths: of the lists, `s64[n]`, whose sum is the total.
    """
    dims, (count,) = elements.shape.dims[1:], lengths.shape.dims
    kind, room = room_of_pieces(b, elements.shape.dtype, dims)
    fits = b.reduced("and", b.compared("LE", lengths, room), (0,))
    emit_assertion(b, fits, room_text(kind, room))
    b.program.has_rooms = True
    # Row 0 is what stands behind the elements of a list.
    rows = b.concatenated([b.zeros(elements.shape.with_dims((1, *dims))), elements], 0)
    indices = b.binary("add", _targets(b, lengths, room), 1)
    indices = b.select(_are_elements(b, lengths, room), indices, b.zeros(indices.shape))
    return TensorList(
        take(b, rows, indices),
        count,
        elements.shape.dtype,
        (room, *dims),
        lengths=b.convert_to(lengths, S32),
        of_lists=True,
    )


def pieces_of(frame: Frame, found: TensorList) -> tuple[Instruction, Instruction]:
    """Return the elements of all lists of a list end to end, and the lists' lengths: `s64[n]`."""
    b, buffer = frame.builder, found.buffer
    assert buffer is not None
    assert found.lengths is not None
    count = found.length
    count = computed_size(frame, count) if isinstance(count, Instruction) else count
    lengths = b.convert_to(_first(b, found.lengths, (count,)), S64)
    longest = b.binary("maximum", b.reduced("maximum", lengths, (0,)), 0)
    width = computed_size(frame, longest)
    total = computed_size(frame, b.reduced("add", lengths, (0,)))
    block = _first(b, buffer, (count, width, *buffer.shape.dims[2:]))
    # A target behind the end is none: the scatter drops it.
    targets = _targets(b, lengths, width)
    targets = b.select(_are_elements(b, lengths, width), targets, b.like(total, targets.shape))
    whole = count * width
    nowhere = b.zeros(lengths.shape.with_dims((total,)))
    numbers = b.iota_of(S64, (whole,), 0)
    sources = scatter_slices(b, "update", nowhere, b.reshape_to(targets, (whole,)), numbers)
    flat = b.reshape_to(block, (whole, *block.shape.dims[2:]))
    return take(b, flat, sources), lengths


def _first(b: TensorBuilder, value: Instruction, sizes: Sizes) -> Instruction:
    """Return the first elements of each axis; the program knows how many when it runs."""
    zeros = [b.constant(0, S64)] * len(sizes)
    return b.emit("dynamic-slice", value, *zeros, dynamic_slice_sizes=sizes)


def _targets(b: TensorBuilder, lengths: Instruction, width: Size) -> Instruction:
    """Return where the elements of lists lie end to end, `s64[lists, width]`."""
    ends = scan(b, lengths, 0, lambda inner, x, y: inner.add(x, y), 0)
    dims = (*lengths.shape.dims, width)
    starts = b.spread(b.subtract(ends, lengths), dims, (0,))
    return b.add(starts, b.iota_of(S64, dims, 1))


def _are_elements(b: TensorBuilder, lengths: Instruction, width: Size) -> Instruction:
    """Return which rows of lists of `width` rows are elements."""
    dims = (*lengths.shape.dims, width)
    return b.compared("LT", b.iota_of(S64, dims, 1), b.spread(lengths, dims, (0,)))
