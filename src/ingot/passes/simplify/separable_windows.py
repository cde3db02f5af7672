# SPDX-License-Identifier: Apache-2.0
"""Windowed folds of several dimensions, one dimension after the other.

A pool of 13x13 elements reads 169 of them for each result. A pool along the rows, and one of what
it gives along the columns, read 26.

    reduce-window(x), window={size=13x13}
        => reduce-window(reduce-window(x), window={size=1x13}), window={size=13x1}

The array between them is written and read once more, so windows of few elements, or that hardly
overlap, stay whole.

Invariant: the same elements are folded for each result. Sums of floats are added up in another
order; sums of 16-bit floats stay whole, as they are rounded once.
"""

from __future__ import annotations

from math import prod

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.opset.reduction import ReduceWindowAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.op_pass import OpPass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.window import Window, WindowDimension
from ingot.semantics.identities import has_identity
from ingot.semantics.reducers import is_identity, reducer_opcode
from ingot.support.records import record

BETWEEN = 4
"""Cost of writing and reading an element between the two folds, in elements of a window: 4x4 is
parted, 3x3 stays whole. Parted windows took 0.2 to 0.3 of the time for 3x3x3, 0.03 to 0.08 for 7x7
(1 and 3 channels, f32, AVX-512, 2026-11-28)."""

_WHOLE = WindowDimension(1)


@record
class SeparableWindows(OpPass):
    """Folds the last dimension of a large window first, and the others after it."""

    name = "separable-windows"
    concerns = frozenset({"reduce-window"})

    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Part a window where two folds read less."""
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
