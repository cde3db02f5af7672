# SPDX-License-Identifier: Apache-2.0
"""bitcast-decomposer: `bitcast` as transposes, a reshape and a bitcast-convert.

A bitcast keeps the bytes in memory, so the layouts of its operand and its result define it: XLA's
dumps after its optimizations write many transposes this way. After this pass, no pass or kernel
looks at a layout. It runs before any pass that may replace an operand by one of another layout.

Source: xla/shape_util.h (DecomposeBitcast).
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.support.records import record


@record
class BitcastDecomposer(Pass):
    """Replaces every `bitcast` by ops whose meaning does not depend on layouts."""

    name = "bitcast-decomposer"
    concerns = frozenset({"bitcast"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite the bitcasts of every reachable computation."""
        changed = False
        for computation in module.post_order():
            # All are read before any is replaced: operands' layouts must be the original ones.
            bitcasts = [i for i in computation.post_order() if i.opcode == "bitcast"]
            orders = [(_order(i.operands[0].shape), _order(i.shape)) for i in bitcasts]
            for bitcast, (before, after) in zip(bitcasts, orders, strict=True):
                computation.replace(bitcast, _decomposed(bitcast, before, after))
                changed = True
        return changed


def _order(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions in memory order, major first."""
    if shape.layout is None:
        return tuple(range(shape.rank))
    return tuple(reversed(shape.layout.minor_to_major))


def _decomposed(
    bitcast: Instruction, before: tuple[int, ...], after: tuple[int, ...]
) -> Instruction:
    build = Builder(bitcast.computation, bitcast.metadata)
    lying = tuple(bitcast.shape.dims[dimension] for dimension in after)
    value = _transposed(build, bitcast.operands[0], before)
    value = _as_type(build, value, bitcast.shape.with_dims(lying))
    inverse = tuple(after.index(dimension) for dimension in range(len(after)))
    return _transposed(build, value, inverse)


def _transposed(build: Builder, value: Instruction, order: tuple[int, ...]) -> Instruction:
    if order == tuple(range(len(order))):
        return value
    return build.transpose(value, dimensions=order)


def _as_type(build: Builder, value: Instruction, shape: Shape) -> Instruction:
    """Return the row-major bits of `value` as `shape`."""
    source, target = value.shape.dtype, shape.dtype
    if source is target:
        return build.reshape_to(value, shape.dims)
    if PRED in (source, target):
        return build.convert_to(build.reshape_to(value, shape.dims), target)
    count = value.shape.size
    flat: tuple[int | Dim, ...]
    if source.bits == target.bits:
        flat = shape.dims
        value = build.reshape_to(value, flat)
    elif source.bits > target.bits:
        flat = (count, source.bits // target.bits)
        value = build.reshape_to(value, (count,))
    else:
        ratio = target.bits // source.bits
        flat = (dim.floordiv(count, ratio),)
        value = build.reshape_to(value, (*flat, ratio))
    made = build.bitcast_convert(value, shape=Shape.array(target, flat))
    return build.reshape_to(made, shape.dims)
