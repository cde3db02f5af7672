"""Evaluates the custom calls that XLA has the meaning of: no target is registered for them.

Sizes of dynamic arrays (`PadToStatic`, `SliceToDynamic`) are those that the arrays have; top-k is
the opcode's.

Source: xla/service/cpu/ir_emitter.cc (EmitSliceToDynamic), xla/hlo/builder/lib/approx_topk.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.indexing import first_in_order
from ingot.evaluator.registry import Array, Context, Value
from ingot.evaluator.stored import stored
from ingot.hlo import custom_calls
from ingot.hlo.instruction import Instruction

Evaluate = Callable[[Instruction, Sequence[Any], Context], Value]


def _topk(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    count = context.dims(op.shape.elements[0])[-1]
    return first_in_order(operands[0], count, custom_calls.wants_largest(op))


def _pad_to_static(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The array at its bound, zeros behind its sizes, and the sizes."""
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


OWN_TARGETS: dict[str, Evaluate] = {
    "PadToStatic": _pad_to_static,
    "SliceToDynamic": _slice_to_dynamic,
    "TopK": _topk,
}
"""Target -> its meaning."""
