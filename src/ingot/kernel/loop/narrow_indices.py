# SPDX-License-Identifier: Apache-2.0
"""Argmin and argmax fold their indices in s32 where all positions fit.

Programs with wide indices fold f32 elements with s64 positions, which take twice the registers.
Here lanes fold s32, and the result is converted once. `argminmax` recognises such folds.

Invariant: positions are the same numbers in either type.
"""

from __future__ import annotations

import numpy as np

from ingot.hlo import dim
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.ir import LoopKernel, Pass, Reduction
from ingot.kernel.loop.argminmax import arg_fold
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import replace

MOST = np.iinfo(np.int32).max


def narrow_indices(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with folds of wide positions in s32."""
    wide = {
        fold.number: fold.inputs[1].dtype
        for item in kernel.passes
        for fold in item.reductions
        if _is_wide(item, fold)
    }
    if not wide:
        return kernel
    made = _Users(wide).kernel(kernel)
    return replace(made, passes=tuple(_with_narrow(item, wide) for item in made.passes))


def _is_wide(item: Pass, fold: Reduction) -> bool:
    """Whether a fold finds an index of a wide type that s32 holds."""
    extent = dim.product(axis.extent for axis in item.axes)
    if len(fold.inputs) != 2 or not isinstance(extent, int) or extent > MOST:
        return False
    if fold.inputs[1].dtype.bits <= S32.bits or arg_fold(item, fold) is None:
        return False
    return int(fold.inits[1].payload.value) >= -MOST


def _with_narrow(item: Pass, wide: dict[int, DType]) -> Pass:
    folds = tuple(_narrow(fold) if fold.number in wide else fold for fold in item.reductions)
    return replace(item, reductions=folds)


def _narrow(fold: Reduction) -> Reduction:
    (value, index), (start, first) = fold.inputs, fold.inits
    position = index.args[0] if index.op == "convert" else index
    return replace(
        fold,
        combiner=_Arguments().combiner(fold.combiner),
        inits=(start, ex.constant(np.int32(first.payload.value))),
        inputs=(value, ex.make("convert", S32, (position,), NO_ATTRIBUTES)),
    )


class _Arguments(Rewriter):
    """Has both indices of a combiner in s32; it compares and chooses alone."""

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an argument, or a compared or chosen value, with the type that it has now."""
        element = item.dtype
        if item.op == "argument":
            element = S32 if item.payload % 2 else element
        elif args and element is not PRED:
            element = args[-1].dtype
        return ex.make(item.op, element, args, item.payload)


class _Users(Rewriter):
    """Converts the indices that were found to the type that they are wanted in."""

    def __init__(self, wide: dict[int, DType]) -> None:
        super().__init__()
        self.wide = wide

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression that takes found indices converted."""
        if item.op == "reduced" and item.payload[1] == 1 and item.payload[0] in self.wide:
            found = ex.make("reduced", S32, (), item.payload)
            return ex.make("convert", item.dtype, (found,), NO_ATTRIBUTES)
        return super().node(item, args)
