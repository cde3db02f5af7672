# SPDX-License-Identifier: Apache-2.0
"""The rewriter of kernel IR: one map over passes, reductions, stores and expressions.

Whoever changes a kernel changes what its passes hold: indices and expressions. `Rewriter` walks
them; a subclass says only what becomes of an index (`index`, `position`) or of a node (`node`).
Two of them serve many users: `AxisSubstitution` puts indices in place of axes, `ExprSubstitution`
expressions in place of expressions.

Combiners are left alone: they have neither axes nor indices. `Rewriter.combiner` rewrites one.

Invariant: an expression in which nothing changes stays the same object. Each is rewritten once by
one rewriter, arguments first, with a stack instead of recursion.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> row = Dim.symbol("@row")
    >>> element = ex.load(0, 4 * row + 1, F32)
    >>> AxisSubstitution({"@row": 2}).expr(element)
    load[Access(buffer=0, index=9, masked=False)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr, walk
from ingot.kernel.ir import Axis, Combiner, LoopKernel, Pass, Reduction, Store
from ingot.support.graphs import needs_first
from ingot.support.records import replace


class Rewriter:
    """Rewrites what kernels hold; this one changes nothing."""

    def __init__(self) -> None:
        """Know no expression yet."""
        self._memo: dict[Expr, Expr] = {}

    def axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Return the axes of a grid or of a pass."""
        return axes

    def index(self, where: int | Dim) -> int | Dim:
        """Return the index of a load or of a store."""
        return where

    def position(self, value: int | Dim) -> int | Dim:
        """Return an index that is used as a value."""
        return value

    def varying(self, axes: frozenset[str]) -> frozenset[str]:
        """Return the names of the axes that a finished reduction varies with."""
        return axes

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are rewritten."""
        op = item.op
        payload = old = item.payload
        if op == "load":
            where = self.index(old.index)
            if where is not old.index:
                payload = Access(old.buffer, where, old.masked)
        elif op == "index":
            payload = self.position(old)
        elif op == "reduced":
            payload = (old[0], old[1], self.varying(old[2]))
        if payload is old and args == item.args:
            return item
        return ex.make(op, item.dtype, args, payload)

    def kernel(self, old: LoopKernel) -> LoopKernel:
        """Return a loop kernel with its axes and its passes rewritten."""
        passes = tuple([self.sweep(item) for item in old.passes])
        return replace(old, grid=self.axes(old.grid), passes=passes)

    def sweep(self, old: Pass) -> Pass:
        """Return a pass with its axes, reductions and stores rewritten."""
        reductions = tuple([self.reduction(fold) for fold in old.reductions])
        return Pass(self.axes(old.axes), reductions, self.stores(old.stores), old.is_running)

    def reduction(self, old: Reduction) -> Reduction:
        """Return a reduction with its initial values and its inputs rewritten."""
        inits, inputs = self.exprs(old.inits), self.exprs(old.inputs)
        return Reduction(old.number, old.combiner, inits, inputs)

    def stores(self, old: tuple[Store, ...]) -> tuple[Store, ...]:
        """Return the stores of a pass rewritten."""
        return tuple([self.store(store) for store in old])

    def store(self, old: Store) -> Store:
        """Return a store with its index and its expressions rewritten."""
        index, value, values = self.index(old.index), self.expr(old.value), self.exprs(old.values)
        mask = None if old.mask is None else self.expr(old.mask)
        return Store(old.buffer, index, value, values, mask, old.combiner)

    def combiner(self, old: Combiner) -> Combiner:
        """Return a combiner with its results rewritten."""
        return Combiner(self.exprs(old.results))

    def exprs(self, roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return expressions rewritten."""
        return tuple([self.expr(root) for root in roots])

    def expr(self, root: Expr) -> Expr:
        """Return an expression rewritten."""
        memo = self._memo
        found = memo.get(root)
        if found is not None:
            return found
        for item in needs_first([root], attrgetter("args"), memo):
            memo[item] = self.node(item, tuple([memo[arg] for arg in item.args]))
        return memo[root]


class AxisSubstitution(Rewriter):
    """Puts indices in place of axes, by their names.

    What a finished reduction varies with is renamed by `names`: there a name stands for a name.
    """

    def __init__(
        self, values: Mapping[str, int | Dim], names: Mapping[str, str] | None = None
    ) -> None:
        """Know what stands for which axis."""
        super().__init__()
        self.values = values
        self.names = names or {}

    def index(self, where: int | Dim) -> int | Dim:
        """Return the index of a load or of a store with axes substituted."""
        return dim.substitute(where, self.values)

    def position(self, value: int | Dim) -> int | Dim:
        """Return an index that is used as a value with axes substituted."""
        return dim.substitute(value, self.values)

    def varying(self, axes: frozenset[str]) -> frozenset[str]:
        """Return the names of the axes that a finished reduction varies with."""
        names = self.names
        return frozenset([names.get(name, name) for name in axes]) if names else axes


def at_positions(item: Pass, axes: Sequence[Axis]) -> Iterator[Pass]:
    """Yield a pass as it is at each position of axes of known extents, the last axis fastest."""
    names = [axis.name for axis in axes]
    for position in product(*[range(axis.known_extent) for axis in axes]):
        yield AxisSubstitution(dict(zip(names, position, strict=True))).sweep(item)


class ExprSubstitution(Rewriter):
    """Puts expressions in place of expressions, which are taken as they are."""

    def __init__(self, replacements: Mapping[Expr, Expr]) -> None:
        """Know what stands for which expression."""
        super().__init__()
        self._memo.update(replacements)

    def add(self, old: Expr, new: Expr) -> None:
        """Put another expression in place of one that nothing rewritten so far has used."""
        self._memo[old] = new


def substitute(root: Expr, replacements: Mapping[Expr, Expr]) -> Expr:
    """Return an expression with expressions replaced."""
    return ExprSubstitution(replacements).expr(root)


def applied(combiner: Combiner, arguments: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the results of a combiner for arguments: accumulators, then inputs."""
    results = combiner.results
    given: dict[Expr, Expr] = {
        leaf: arguments[leaf.payload] for leaf in walk(results) if leaf.op == "argument"
    }
    return ExprSubstitution(given).exprs(results)
