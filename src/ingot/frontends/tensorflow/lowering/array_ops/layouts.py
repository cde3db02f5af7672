# SPDX-License-Identifier: Apache-2.0
"""Smaller ops that rearrange: sequences, data formats, gradients of mirrored padding."""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.products import conjugate
from ingot.frontends.tensorflow.graphs.captured import TypeName
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Known, TensorList, Value
from ingot.frontends.tensorflow.lowering.indexing.scatter import segments
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _conjugate_transpose(op: Op) -> Value:
    x = conjugate(op.b, op.tensor(0))
    return op.b.transposed(x, op.axes(1, op.rank(0), "permutation"))


def _axis_from_front(op: Op, name: str, rank: int) -> int:
    axis = int(op.attribute(name, 0))
    if axis < 0:
        raise op.mistake(f"{name} must be >=0, got {axis}")
    return op.axis_of(axis, rank)


def _reverse_sequence(op: Op) -> Value:
    """Reverse the first `lengths[i]` elements of each row i, by a gather along the row."""
    b = op.b
    x, lengths = op.tensor(0), op.tensor(1)
    dims, rank = x.shape.dims, x.shape.rank
    along, batch = (_axis_from_front(op, name, rank) for name in ("seq_dim", "batch_dim"))
    order = [batch, along, *(n for n in range(rank) if n not in (batch, along))]
    moved = b.transposed(x, order)
    size = (dims[batch], dims[along])
    index = b.iota_of(S64, size, 1)
    lengths = b.convert_to(lengths, S64)
    assert_everywhere(b, b.compared("GE", lengths, 0), "seq_lens < 0")
    fits = b.compared("LE", lengths, b.scalar(size[1], S64))
    assert_everywhere(b, fits, f"seq_lens > input.dims({along})")
    length = b.spread(lengths, size, (0,))
    mirrored = b.subtract(b.binary("add", length, -1), index)
    source = b.select(b.compare(index, length, direction="LT"), mirrored, index)
    made = b.emit(
        "gather",
        moved,
        source,
        offset_dims=tuple(range(2, rank)),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
        index_vector_dim=2,
        slice_sizes=(1, 1, *moved.shape.dims[2:]),
    )
    return b.transposed(made, [order.index(axis) for axis in range(rank)])


def _mirror_pad_gradient(op: Op) -> Value:
    """Add what lies on the mirrored borders to the elements that they repeat."""
    gradient, b = op.tensor(0), op.b
    skip = 1 if op.attribute("mode") == "REFLECT" else 0
    flat = op.integers(1, "paddings")
    for axis, (low, high) in enumerate(zip(flat[::2], flat[1::2], strict=True)):
        whole = gradient.shape.dims[axis]
        size = whole - low - high
        middle = b.sliced(gradient, axis, low, whole - high)
        zero = b.constant(0, gradient.shape.dtype)
        front = b.reverse(b.sliced(gradient, axis, 0, low), dimensions=(axis,))
        back = b.reverse(b.sliced(gradient, axis, whole - high, whole), dimensions=(axis,))
        front = b.padded(front, axis, skip, size - low - skip, zero)
        back = b.padded(back, axis, size - high - skip, skip, zero)
        gradient = b.add(middle, b.add(front, back))
    return gradient


def _formats(op: Op) -> tuple[str, str]:
    """Return the source format and the target format."""
    source = str(op.attribute("src_format", "NHWC"))
    target = str(op.attribute("dst_format", "NCHW"))
    if sorted(source) != sorted(target):
        raise op.mistake(
            f"Destination and source format must determine a permutation, got {source} and {target}"
        )
    return source, target


def _format_dimensions(op: Op) -> list[int]:
    """Return, for each dimension of the source format, where it is in the target format."""
    source, target = _formats(op)
    return [target.index(letter) for letter in source]


def _dim_map(op: Op) -> Value:
    """Translate dimension numbers from one data format to the other."""
    b = op.b
    dimensions = _format_dimensions(op)
    x = op.tensor(0)
    rank = len(dimensions)
    counted = b.select(b.compared("LT", x, 0), b.binary("add", x, rank), x)
    made = b.zeros(x.shape)
    for source, target in enumerate(dimensions):
        made = b.select(b.compared("EQ", counted, source), b.like(target, x.shape), made)
    return made


def _vec_permute(op: Op) -> Value:
    """Permute the rows of a vector (or of pairs) from one data format to the other."""
    source, target = _formats(op)
    x = op.tensor(0)
    if x.shape.dims[0] == len(source) - 2:
        source = "".join(letter for letter in source if letter not in "NC")
        target = "".join(letter for letter in target if letter not in "NC")
    rows = [source.index(letter) for letter in target]
    return op.b.concatenated([op.b.sliced(x, 0, row, row + 1) for row in rows], 0)


def _segments_of_known_count(opcode: str) -> Rule:
    def rule(op: Op) -> Value:
        count = op.size(2, "number of segments")
        return segments(op, opcode, count)

    return rule


def _to_bool(op: Op) -> Value:
    """A scalar is compared with 0; any other tensor is true unless it is empty."""
    x = op.tensor(0)
    if x.shape.rank:
        return Known(np.asarray(x.shape.size != 0), op.result())
    return _nonzero(op.b, x)


def _nonzero(b: TensorBuilder, x: Instruction) -> Instruction:
    return x if x.shape.dtype.name == "pred" else b.compared("NE", x, 0)


def _placeholder(op: Op) -> Value:
    """FakeParam: a value that is never read; a variant is a list. An open size is any, here 0.

    So is a rank: the conditional gives it the shape that another branch's value has.
    """
    kind = op.attribute("dtype")
    if isinstance(kind, TypeName) and kind.name == "variant":
        return TensorList(None, 0, S32)
    dims = op.attribute("shape").shape or ()
    return op.b.zeros(Shape.array(op.result(), tuple(size or 0 for size in dims)))


RULES: dict[str, Rule] = {
    "ConjugateTranspose": _conjugate_transpose,
    "ControlTrigger": lambda op: (),
    "DataFormatDimMap": _dim_map,
    "DataFormatVecPermute": _vec_permute,
    "FakeParam": _placeholder,
    "MirrorPadGrad": _mirror_pad_gradient,
    "ReverseSequence": _reverse_sequence,
    "SegmentMaxV2": _segments_of_known_count("maximum"),
    "SegmentMinV2": _segments_of_known_count("minimum"),
    "SegmentProdV2": _segments_of_known_count("multiply"),
    "SegmentSumV2": _segments_of_known_count("add"),
    "ToBool": _to_bool,
}
