# SPDX-License-Identifier: Apache-2.0
"""Evaluates the custom calls that XLA itself defines: no target is registered for them.

Sizes of dynamic arrays (`PadToStatic`, `SliceToDynamic`) are those that the arrays have; top-k is
the opcode's; `ApproxTopK` is exact, as XLA:CPU's is; factorizations are in `factors`.

Source: xla/service/cpu/ir_emitter.cc (EmitSliceToDynamic), xla/hlo/builder/lib/approx_topk.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator import factors
from ingot.evaluator.indexing import first_in_order, merge_sorted
from ingot.evaluator.registry import Array, Context, Rule, Value
from ingot.evaluator.stored import stored
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.library_calls import SIZE
from ingot.semantics import custom_calls
from ingot.semantics.run_errors import negative_size_text
from ingot.support.diagnostics import ExecutionError
from ingot.support.trampoline import Recursion


def _topk(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    count = context.dims(op.shape.elements[0])[-1]
    return first_in_order(operands[0], count, custom_calls.wants_largest(op))


def _approximate_topk(
    op: Instruction, operands: Sequence[Any], context: Context
) -> Recursion[Value]:
    """The first elements in the comparator's order along one dimension."""
    values = operands[: len(operands) // 2]
    axis = custom_calls.reduced_dimension(op)
    (comparator,) = op.called_computations
    last = [np.moveaxis(value, axis, -1) for value in values]
    rows = [value.reshape(-1, value.shape[-1]) for value in last]
    order = yield from merge_sorted(comparator, rows, context)
    count = context.dims(op.shape.elements[0])[axis]
    first = order.reshape(last[0].shape)[..., :count]
    return tuple(np.moveaxis(np.take_along_axis(value, first, axis=-1), -1, axis) for value in last)


def _pad_to_static(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The array at its bound, zeros beyond its sizes, and the sizes."""
    (value,) = operands
    whole: Array = np.zeros(context.dims(op.shape.elements[0]), value.dtype)
    whole[tuple(map(slice, value.shape))] = value
    sizes: list[Array] = [np.array(size, np.int32) for size in value.shape]
    return (whole, *sizes)


def _slice_to_dynamic(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first elements of each dynamic dimension."""
    value, *sizes = operands
    flags = op.shape.bounded or (False,) * op.shape.rank
    rows = zip(flags, sizes, value.shape, strict=True)
    return stored(
        value, [min(max(0, int(size)), have) if flag else have for flag, size, have in rows]
    )


def _size(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """An array of that many elements, which take no memory."""
    count = int(operands[0])
    if count < 0:
        raise ExecutionError(negative_size_text(op, count), code="INGOT0516")
    return np.broadcast_to(np.False_, (count,))


OWN_TARGETS: dict[str, Rule] = {
    "ApproxTopK": _approximate_topk,
    "Eigh": factors.eigh,
    "LuDecomposition": factors.lu,
    "PadToStatic": _pad_to_static,
    "ProductOfElementaryHouseholderReflectors": factors.householder_product,
    "Qr": factors.qr,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _topk,
    SIZE: _size,
}
"""Target -> its meaning."""
