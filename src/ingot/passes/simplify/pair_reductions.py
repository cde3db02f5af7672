# SPDX-License-Identifier: Apache-2.0
"""Reductions in another order: over pairs of rows, and of windows with several dimensions.

The rows of one side of a pair become columns, for lanes to run along. Distances between all pairs
of points are an example: `reduce(f(broadcast(x), broadcast(y)))`, where each result reads a row of
x and a row of y. Lanes along the rows must be added up for each result, and a row of a few
coordinates does not fill them. With y transposed, lanes are neighbouring results, which read a
column of y in one piece.

    reduce(f(x[i,k], y[j,k]), dimensions={2})
        => reduce(f(x[i,k], transpose(y)[k,j]), dimensions={1})

This is a pass and not a rule, because all the ops of f are rebuilt.

Windows are folded one dimension after the other. A pool of 13x13 elements reads 169 of them for
each result. A pool along the rows, and one of what it gives along the columns, read 26.

    reduce-window(x), window={size=13x13}
        => reduce-window(reduce-window(x), window={size=1x13}), window={size=13x1}

The array between them is written and read once more, so windows of few elements, or that hardly
overlap, stay whole.

Invariant: the same elements are folded for each result, and no other value is computed twice; the
transposed array is much smaller than the reduced one. Sums of floats over a window are added up in
another order; sums of 16-bit floats stay whole, as they are rounded once.
"""

from __future__ import annotations

from math import prod

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.operand_order import operands_behind
from ingot.hlo.opset.reduction import ReduceAttributes, ReduceWindowAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.op_pass import expander, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.window import Window, WindowDimension
from ingot.semantics.identities import has_identity
from ingot.semantics.reducers import is_identity, reducer_opcode

LEAST_ROWS = 16
"""Rows of the side that is transposed, at least: lanes of one register."""

LONGEST_ROW = 256
"""Elements of a row at most. L1 distances of 512 by 512 rows of 3 took 0.55 of the time, of 8 0.3,
of 16 0.4; 4000 by 16 of 8 0.37; 256 by 256 of 64 0.67, 128 by 128 of 256 0.75 (AVX-512, one thread,
2026-11-27)."""

LEAST_READS = 8
"""Least number of times that each element of the transposed array is read."""

MOST_OPS = 64
"""Ops between the rows and the reduction at most: they are made anew."""


@expander("pair-reductions", "reduce")
def pair_reductions(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Makes the innermost dimension of a reduction over pairs of rows the last but one."""
    ops = _ops_of_pairs(op)
    return _with_columns(op, ops) if ops else op


def _ops_of_pairs(reduce: Instruction) -> list[Instruction]:
    """Return the ops that a reduction over pairs of rows reduces, operands first; or []."""
    value = reduce.operands[0]
    dims, last = value.shape.dims, value.shape.rank - 1
    if len(reduce.operands) != 2 or last < 2 or reduce.control_predecessors:
        return []
    rows, length = dims[-2:]
    if reduce.as_(ReduceAttributes).dimensions != (last,) or not isinstance(rows, int):
        return []
    if rows < LEAST_ROWS or not isinstance(length, int) or not 1 < length <= LONGEST_ROW:
        return []
    inside: dict[Instruction, None] = {}
    found: dict[Instruction, None] = {}
    stack = [value]
    while stack:
        item = stack.pop()
        found[item] = None
        if item.opcode == "broadcast":
            if not _is_read_often(item):
                return []
            continue
        is_op = item.has(Trait.ELEMENTWISE) and item.shape.dims == dims
        if not is_op or item.control_predecessors or len(found) > MOST_OPS:
            return []
        inside[item] = None
        stack += [operand for operand in item.operands if operand not in found]
    is_own = all(user in inside or user is reduce for item in inside for user in item.users)
    has_pairs = any(_rows_of(item, last) for item in found if item.opcode == "broadcast")
    given = {operand for item in found if item.opcode == "broadcast" for operand in item.operands}
    return operands_behind([value], given) if is_own and has_pairs else []


def _is_read_often(repeated: Instruction) -> bool:
    sizes = repeated.shape.size, repeated.operands[0].shape.size
    if not isinstance(sizes[0], int) or not isinstance(sizes[1], int):
        return False
    return sizes[0] >= LEAST_READS * sizes[1]


def _rows_of(repeated: Instruction, last: int) -> bool:
    """Whether a broadcast is of rows that vary along the last dimension but one."""
    return {last - 1, last} <= set(repeated.as_(DimensionsAttributes).dimensions)


def _with_columns(reduce: Instruction, ops: list[Instruction]) -> Instruction:
    """Return the reduction over the last dimension but one."""
    build = Builder(reduce.computation, reduce.metadata)
    last = ops[-1].shape.rank - 1
    *outer, rows, length = ops[-1].shape.dims
    dims = (*outer, length, rows)
    swapped = {last: last - 1, last - 1: last}
    made: dict[Instruction, Instruction] = {}
    for item in ops:
        if item.opcode == "broadcast":
            (operand,) = item.operands
            given = item.as_(DimensionsAttributes).dimensions
            if _rows_of(item, last):
                order = (*range(len(given) - 2), len(given) - 1, len(given) - 2)
                operand = build.transpose(operand, dimensions=order)
            dimensions = tuple(sorted(swapped.get(dim, dim) for dim in given))
            made[item] = build.broadcast_to(operand, dims, dimensions)
        else:
            made[item] = reduce.computation.add(
                item.opcode,
                tuple(made[operand] for operand in item.operands),
                item.attributes,
                shape=item.shape.with_dims(dims),
                name=item.name,
                metadata=item.metadata,
            )
    return build.reduce(
        made[ops[-1]],
        reduce.operands[1],
        dimensions=(last - 1,),
        to_apply=reduce.called_computations[0],
    )


BETWEEN = 4
"""Cost of writing and reading an element between the two folds, in elements of a window: 4x4 is
parted, 3x3 stays whole. Parted windows took 0.2 to 0.3 of the time for 3x3x3, 0.03 to 0.08 for 7x7
(1 and 3 channels, f32, AVX-512, 2026-11-28)."""

_WHOLE = WindowDimension(1)


@op_pass("separable-windows", "reduce-window")
def separable_windows(op: Instruction, module: Module, context: PassContext) -> bool:
    """Folds the last dimension of a large window first, and the others after it."""
    if not _is_worthwhile(op) or not _may_be_parted(op, context.fp):
        return False
    op.computation.replace(op, _parted(op))
    return True


def _is_worthwhile(fold: Instruction) -> bool:
    """Whether two folds read less than one: counted for each result, without padding."""
    moving = [one for one in fold.as_(ReduceWindowAttributes).window if one != _WHOLE]
    if len(moving) < 2 or any(one.base_dilation != 1 for one in moving):
        return False
    *others, last = moving
    between = prod(one.stride for one in others)
    rest = prod(one.size for one in others)
    return rest * last.size > rest + between * (last.size + BETWEEN)


def _may_be_parted(fold: Instruction, fp: Fp) -> bool:
    """Whether any order of folding is allowed, and folding the initial value twice is harmless."""
    if len(fold.operands) != 2 or fold.control_predecessors:
        return False
    opcode, element = reducer_opcode(fold.called_computations[0]), fold.shape.dtype
    if not opcode or not has_identity(opcode, element) or not is_identity(fold.operands[1], opcode):
        return False
    is_exact = element.is_integer or fold.called_computations[0].root.has(Trait.IDEMPOTENT)
    return is_exact or (fp >= Fp.CONTRACT and element.bits >= 32)


def _parted(fold: Instruction) -> Instruction:
    """Return the fold of the last moving dimension, folded along the others."""
    window = fold.as_(ReduceWindowAttributes).window
    last = max(dim for dim, one in enumerate(window) if one != _WHOLE)
    value = fold.operands[0]
    for is_first in (True, False):
        value = _folded(fold, value, _kept(window, last, is_first))
    return value


def _kept(window: Window, dim: int, is_kept: bool) -> Window:
    """Return a window that moves along one dimension only, or along all others."""
    return tuple(one if (n == dim) is is_kept else _WHOLE for n, one in enumerate(window))


def _folded(fold: Instruction, value: Instruction, window: Window) -> Instruction:
    return Builder(fold.computation, fold.metadata).reduce_window(
        value, fold.operands[1], window=window, to_apply=fold.called_computations[0]
    )
