# SPDX-License-Identifier: Apache-2.0
"""Indices that the kernel knows more about than their types say.

`known_indices`: gathers at positions that the kernel computes from its axes become loads.
`x[jnp.arange(n)[:, None] * hop + jnp.arange(m)]` is a gather whose indices are sums of iotas. Its
bounds are known: the wrap of negative indices and the clamp choose nothing, and the integers do not
overflow. The index that remains, `hop * @0 + @1`, is that of a load of contiguous vectors.

`narrow_indices`: argmin and argmax fold their indices in s32 where all positions fit. Programs with
wide indices fold f32 elements with s64 positions, which take twice the registers. Here lanes fold
s32, and the result is converted once. `argminmax` recognises such folds. Run-time values of indices
are computed in s32, too, where their ranges fit (`narrow_values`).

Invariant: an index is replaced only where the integers that are computed are that number at every
point; positions are the same numbers in either type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np

from ingot.hlo import dim
from ingot.hlo.dim import Dim, never_negative
from ingot.hlo.dtype import PRED, S32, DType, greatest, least
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import Range, comparison_of_range, ends_of, ranges_of
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import LoopKernel, Pass, Reduction, Store
from ingot.kernel.loop.argminmax import arg_fold
from ingot.kernel.passes.narrow_values import narrow_values
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import replace


def as_it_is(position: int | Dim) -> int | Dim:
    """Return a number that has another type."""
    return position


_COMPUTED: dict[str, Callable[..., int | Dim]] = {
    "convert": as_it_is,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
"""Ops that give the same number as arithmetic without bounds, unless they overflow."""

_EXTREMA = {"maximum": "GE", "minimum": "LE"}
"""Ops whose result is the left argument where it compares so with the right one."""


def known_indices(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with positions that its axes determine, where it gathers and scatters."""
    by_value = any(
        node.op == "load" and len(node.args) > node.payload.masked for node in walk(kernel.exprs)
    )
    if not by_value and not any(store.values for store in kernel.stores):
        return kernel
    return _Loads(ranges_of(kernel.axes)).kernel(kernel)


class _Loads(Rewriter):
    """Puts positions in place of the run-time values of loads."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        """Know the positions of axes of known extents."""
        super().__init__()
        self.ranges = ranges
        self.positions: dict[Expr, int | Dim | None] = {}

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are rewritten."""
        found = super().node(item, args)
        if found.op != "load" or len(found.args) == found.payload.masked:
            return found
        access = found.payload
        where, values = self._placed(access.index, found.args[access.masked :])
        mask = found.args[0] if access.masked else None
        return ex.load(access.buffer, where, found.dtype, values, mask)

    def store(self, old: Store) -> Store:
        """Return a store with positions in place of the values of its index."""
        made = super().store(old)
        if not made.values:
            return made
        where, values = self._placed(made.index, made.values)
        mask: Expr | None = None
        for part in () if made.mask is None else ex.conjuncts(made.mask):
            for side in part.args if part.op == "compare" else ():
                self.position_of(side)
            mask = mask if self._is_true(part) else ex.conjunction(mask, part)
        return replace(made, index=where, values=values, mask=mask)

    def _placed(
        self, where: int | Dim, values: tuple[Expr, ...]
    ) -> tuple[int | Dim, tuple[Expr, ...]]:
        """Return an index with positions in place of values, and the values that are left."""
        known = [self.position_of(value) for value in values]
        left = [value for value, position in zip(values, known, strict=True) if position is None]
        if len(left) == len(values):
            return where, values
        names = iter(range(len(left)))
        put = {
            f"${number}": Dim.symbol(f"${next(names)}") if position is None else position
            for number, position in enumerate(known)
        }
        return dim.substitute(where, put), tuple(left)

    # ---- values of integers

    def position_of(self, value: Expr) -> int | Dim | None:
        """Return the number that an integer is, over the axes; None if it is not known."""
        for node in walk((value,)):
            if node not in self.positions:
                self.positions[node] = self._position(node)
        return self.positions[value]

    def _position(self, node: Expr) -> int | Dim | None:
        if not node.dtype.is_integer:
            return None
        made = self._computed(node)
        if made is None or node.op in ex.LEAVES:
            return made
        ends = ends_of(made, self.ranges)
        if ends is None:
            return None
        low, high = least(node.dtype), greatest(node.dtype)
        fits = never_negative(ends[0] - low) and never_negative(high - ends[1])
        return made if fits else None

    def _computed(self, node: Expr) -> int | Dim | None:
        """Return the number that a node is if it does not overflow."""
        if node.op == "index":
            return None if node.args else node.payload
        if node.op == "constant":
            return int(node.payload.value)
        if node.op == "select":
            is_true = self._is_true(node.args[0])
            return None if is_true is None else self.positions[node.args[1 if is_true else 2]]
        args = [self.positions.get(arg) for arg in node.args]
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        if node.op in _EXTREMA:
            ends = ends_of(known[0] - known[1], self.ranges)
            is_left = None if ends is None else comparison_of_range(_EXTREMA[node.op], *ends)
            return None if is_left is None else known[0 if is_left else 1]
        compute = _COMPUTED.get(node.op)
        return None if compute is None else compute(*known)

    def _is_true(self, mask: Expr) -> bool | None:
        """Return whether a comparison of positions holds at every point, None if it is not one."""
        if mask.op != "compare":
            return None
        left, right = (self.positions.get(arg) for arg in mask.args)
        ends = None if left is None or right is None else ends_of(left - right, self.ranges)
        given: CompareAttributes = mask.payload
        return None if ends is None else comparison_of_range(given.direction, *ends)


MOST = np.iinfo(np.int32).max


def narrow_indices(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with folds of wide positions, and indices that are values, in s32."""
    kernel = narrow_values(kernel)
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
        inputs=(value, ex.compute("convert", position, dtype=S32)),
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
            return ex.compute("convert", found, dtype=item.dtype)
        return super().node(item, args)
