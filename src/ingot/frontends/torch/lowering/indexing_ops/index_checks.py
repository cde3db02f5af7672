# SPDX-License-Identifier: Apache-2.0
"""Indices of PyTorch's ops: counted from the front, and checked.

An index out of range ends the program with an error that names the user's line, as PyTorch's
kernels raise one. A check is one pass over the indices, not over the elements that they select; a
backward pass has no checks, since the forward pass has checked its indices.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.op import Op
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion

OUT_OF_BOUNDS = "an index is out of bounds"
"""The beginning of a check's message; see `torch.errors`."""


def checked(op: Op, indices: Instruction, size: Size, *, axis: int | None = None) -> Instruction:
    """Return indices into an axis of `size`, which must be in 0..size, as s64.

    Args:
        op: the op.
        indices: integers.
        size: elements of the axis.
        axis: its number, for the error.
    """
    b, wide = op.b, op.b.convert_to(indices, S64)
    if indices.shape.size != 0:
        inside = b.and_(b.compared("GE", wide, 0), _below(b, wide, size))
        assert_everywhere(b, inside, _message(size, axis))
    return wide


def wrapped(
    op: Op, indices: Instruction, size: Size, *, axis: int | None = None, check: bool = True
) -> Instruction:
    """Return indices in -size..size as s64 indices counted from the front."""
    b, wide = op.b, op.b.convert_to(indices, S64)
    whole = b.like(size, wide.shape)
    if check and indices.shape.size != 0:
        inside = b.and_(b.compare(wide, b.negate(whole), direction="GE"), _below(b, wide, size))
        assert_everywhere(b, inside, _message(size, axis))
    return b.select(b.compared("LT", wide, 0), b.add(wide, whole), wide)


def fitted_mask(op: Op, mask: Instruction, dims: Sizes, begin: int) -> Instruction:
    """Return a mask with the sizes of the tensor that it selects from, which it must have.

    Args:
        op: the op.
        mask: `pred[...]`.
        dims: the sizes of the tensor.
        begin: the dimension of the tensor at which those of the mask begin.

    Raises:
        UnsupportedError: INGOT0372, it has other sizes, which PyTorch's kernel refuses.
    """
    b, have = op.b, mask.shape.dims
    if begin + len(have) > len(dims):
        raise op.error(f"its mask has {len(have)} dimensions from {begin} on, of {len(dims)}")
    for axis, (size, want) in enumerate(zip(have, dims[begin:], strict=False)):
        if size == want:
            continue
        text = mask_message(have, axis, dims, begin + axis)
        if isinstance(size, int) and isinstance(want, int):
            raise op.error(text)
        flag = b.compare(b.size(size), b.size(want), direction="EQ")
        emit_assertion(b, flag, f"{OUT_OF_BOUNDS}: {text}")
        mask = b.sliced(mask, axis, 0, want)
    return mask


def fitted_values(op: Op, values: Instruction, dims: Sizes) -> Instruction:
    """Return values to write, checked to broadcast to the sizes `dims`.

    PyTorch checks this when its kernel runs, and has no guard.
    """
    b, first = op.b, len(dims) - values.shape.rank
    for axis, have in enumerate(values.shape.dims):
        want = dims[first + axis] if first + axis >= 0 else 1
        if have in (want, 1) or (isinstance(have, int) and isinstance(want, int)):
            continue
        flag = b.compare(b.size(have), b.size(want), direction="EQ")
        emit_assertion(b, flag, f"shape mismatch: {have} values cannot be broadcast to {want}")
        values = b.sliced(values, axis, 0, want)
    return values


def mask_message(mask: Sizes, axis: int, sizes: Sizes, of: int) -> str:
    """Return PyTorch's message for a mask whose dimension `axis` is not dimension `of` of a tensor.

    Args:
        mask: the sizes of the mask.
        axis: its dimension.
        sizes: those of the tensor.
        of: its dimension.
    """
    one, other = (f"[{', '.join(map(str, dims))}]" for dims in (mask, sizes))
    return (
        f"The shape of the mask {one} at index {axis} does not match "
        f"the shape of the indexed tensor {other} at index {of}"
    )


def _below(b: ArrayBuilder, indices: Instruction, size: Size) -> Instruction:
    return b.compare(indices, b.like(size, indices.shape), direction="LT")


def _message(size: Size, axis: int | None) -> str:
    of = "" if axis is None else f" dimension {axis} with"
    return f"{OUT_OF_BOUNDS} for{of} size {size}"
