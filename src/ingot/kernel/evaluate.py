# SPDX-License-Identifier: Apache-2.0
"""Evaluates loop kernels with NumPy: what a kernel means, for tests of kernel passes.

Elementwise ops are the evaluator's of HLO (`ingot.evaluator`). Folds take one element after the
other, in the order of the pass's axes; stores are made in the order of the grid. An index outside
of its buffer is an error, not a value.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> from ingot.kernel import expr as ex
    >>> from ingot.kernel.ir import Axis, Buffer, Pass, Store
    >>> i = Dim.symbol("@0")
    >>> x, r = Buffer(F32, 4, False), Buffer(F32, 4, True)
    >>> reverse = Pass((), (), (Store(1, i, ex.load(0, 3 - i, F32)),))
    >>> kernel = LoopKernel((Axis("@0", 4),), (reverse,), (x, r))
    >>> evaluate_kernel(kernel, [np.arange(4, dtype=np.float32), np.zeros(4, np.float32)])[0]
    array([3., 2., 1., 0.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ingot.evaluator.registry import Array, Context, rule_of
from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.shape import Shape
from ingot.kernel.expr import Access, Expr, walk
from ingot.kernel.ir import Axis, Combiner, LoopKernel, Pass, Reduction, Store
from ingot.support.diagnostics import InternalError


def evaluate_kernel(
    kernel: LoopKernel, buffers: Sequence[Array], sizes: Mapping[str, int] | None = None
) -> list[Array]:
    """Return what a kernel leaves in its output buffers.

    Args:
        kernel: the kernel that is evaluated.
        buffers: contents of every buffer, flat, in the kernel's order; outputs as they are before.
        sizes: the symbolic sizes' values.

    Returns:
        The output buffers, in the kernel's order.

    Raises:
        InternalError: INGOT0933, something is read or written outside of its buffer.
    """
    memory = [np.array(held) for held in buffers]
    known = dict(sizes or {})
    grid = [dim.evaluate(axis.extent, known) for axis in kernel.grid]
    points = int(np.prod(grid, dtype=np.int64))
    local = [
        np.zeros(points * dim.evaluate(b.size, known), b.dtype.numpy) for b in kernel.local_buffers
    ]
    run = _Run(kernel, [*memory, *local], known)
    for point in np.ndindex(*grid) if kernel.serial else [None] * (points > 0):
        run.at(point)
    return [held for held, b in zip(memory, kernel.buffers, strict=True) if b.is_output]


class _Run:
    """One evaluation: memory, sizes, and what the grid points at hand have computed."""

    def __init__(self, kernel: LoopKernel, memory: list[Array], sizes: Mapping[str, int]) -> None:
        self.kernel = kernel
        self.memory = memory
        self.sizes = sizes
        self.axes: dict[str, Array] = {}
        self.folds: dict[object, Array] = {}

    def at(self, point: tuple[int, ...] | None) -> None:
        """Run the passes at one grid point, or (None) at all of them side by side."""
        self.folds = {}
        self.axes = {}
        rank = len(self.kernel.grid)
        for number, axis in enumerate(self.kernel.grid):
            values = np.arange(self._number(axis.extent)) if point is None else [point[number]]
            self.axes[axis.name] = _along(np.asarray(values), number, rank)
        for item in self.kernel.passes:
            self._pass(item)

    def _number(self, size: int | Dim) -> int:
        return dim.evaluate(size, self.sizes)

    def _pass(self, item: Pass) -> None:
        outer, rank = dict(self.axes), len(self.kernel.grid) + len(item.axes)
        folds = dict(self.folds)
        self._open(item.axes, rank)
        for fold in item.reductions:
            self._fold(fold, item, folds)
        for store in item.stores:
            self._store(store, rank)
        self.axes, self.folds = outer, folds

    def _open(self, axes: tuple[Axis, ...], rank: int) -> None:
        """Give every array a dimension for each of a pass's axes."""
        added = (1,) * len(axes)
        self.axes = {name: held.reshape(held.shape + added) for name, held in self.axes.items()}
        self.folds = {key: held.reshape(held.shape + added) for key, held in self.folds.items()}
        for number, axis in enumerate(axes, rank - len(axes)):
            self.axes[axis.name] = _along(np.arange(self._number(axis.extent)), number, rank)

    def _fold(self, fold: Reduction, item: Pass, folds: dict[object, Array]) -> None:
        """Fold along the axes of a pass; `folds` gets the values without these axes."""
        grid = tuple(self.axes[a.name].shape[n] for n, a in enumerate(self.kernel.grid))
        inner = tuple(self._number(axis.extent) for axis in item.axes)
        count = int(np.prod(inner, dtype=np.int64))
        inputs = [
            np.broadcast_to(value, (*grid, *inner)).reshape(*grid, count)
            for value in self._values(fold.inputs)
        ]
        held = [
            np.array(np.broadcast_to(value.reshape(value.shape[: len(grid)]), grid))
            for value in self._values(fold.inits)
        ]
        steps: list[list[Array]] = []
        for step in range(count):
            held = _combined(fold.combiner, [*held, *(value[..., step] for value in inputs)])
            steps.append(held)
        for output, value in enumerate(held):
            folds[fold.number, output] = value
        for output in range(len(held)) if item.is_running and steps else ():
            so_far = np.stack([step[output] for step in steps], -1)
            self.folds[fold.number, output] = so_far.reshape(*grid, *inner)

    def _store(self, store: Store, rank: int) -> None:
        mask = self._values(() if store.mask is None else (store.mask,))
        values = self._values(store.values)
        (value,) = self._values((store.value,))
        shape = np.broadcast_shapes(*(held.shape for held in self.axes.values()), (1,) * rank)
        index = self._element(store.buffer, store.index, values, shape, mask[0] if mask else None)
        counts = np.broadcast_to(mask[0] if mask else np.True_, shape).ravel()
        indices, written = index.ravel()[counts], np.broadcast_to(value, shape).ravel()[counts]
        target = self.memory[store.buffer]
        if store.combiner is None:
            target[indices] = written
            return
        for index, new in zip(indices, written, strict=True):
            (target[index],) = _combined(store.combiner, [target[index], new])

    def _element(
        self,
        buffer: int,
        where: int | Dim,
        values: Sequence[Array],
        shape: tuple[int, ...],
        mask: Array | None,
    ) -> Array:
        """Return element numbers of a buffer; those that a mask leaves out are 0."""
        named = {f"${number}": value for number, value in enumerate(values)}
        index = np.broadcast_to(self._index(where, named), shape)
        if mask is not None:
            index = np.where(mask, index, 0)
        size = self.memory[buffer].size
        first_local = len(self.kernel.buffers)
        if buffer >= first_local:
            size = self._number(self.kernel.local_buffers[buffer - first_local].size)
        if index.size and not 0 <= index.min() <= index.max() < max(size, mask is not None):
            raise InternalError(
                f"element {where} of buffer {buffer}, which has {size}", code="INGOT0933"
            )
        if buffer < first_local or self.kernel.serial:
            return index
        grid = [axis.extent for axis in self.kernel.grid]
        point: Array = np.zeros((1,) * len(shape), np.int64)
        for axis, extent in zip(self.kernel.grid, grid, strict=True):
            point = point * self._number(extent) + self.axes[axis.name]
        return point * size + index

    def _values(self, roots: Sequence[Expr]) -> list[Array]:
        """Return the values of expressions at every point of the open axes."""
        known: dict[Expr, Array] = {}
        for node in walk(tuple(roots)):
            known[node] = self._value(node, [known[arg] for arg in node.args])
        return [known[root] for root in roots]

    def _value(self, node: Expr, args: list[Array]) -> Array:
        if node.op == "index":
            named = {f"${number}": value for number, value in enumerate(args)}
            return np.asarray(self._index(node.payload, named), np.int64)
        if node.op == "reduced":
            return self.folds[node.payload[:2]]
        if node.op == "load":
            return self._load(node, args)
        return _operated(node, args)

    def _load(self, node: Expr, args: list[Array]) -> Array:
        access: Access = node.payload
        mask = args[0] if access.masked else None
        named = args[1:] if access.masked else args
        held = [self.axes[name] for name in node.axes if name in self.axes]
        shape = np.broadcast_shapes(*(each.shape for each in (*held, *args)), ())
        rank = max((each.ndim for each in self.axes.values()), default=0)
        shape = (1,) * (rank - len(shape)) + shape
        index = self._element(access.buffer, access.index, named, shape, mask)
        source = self.memory[access.buffer]
        if not source.size:
            return np.zeros(index.shape, source.dtype)
        found = source[index]
        return found if mask is None else np.where(mask, found, np.zeros((), source.dtype))

    def _index(self, value: int | Dim, named: Mapping[str, Array]) -> Any:
        if isinstance(value, int):
            return np.int64(value)
        total: Any = np.int64(0)
        for key, factor in value.terms:
            term: Any = np.int64(factor)
            for atom in key:
                term = term * self._atom(atom, named)
            total = total + term
        return total

    def _atom(self, atom: Atom, named: Mapping[str, Array]) -> Any:
        if not atom.function:
            if atom.text in self.axes:
                return self.axes[atom.text]
            found = named.get(atom.text)
            return np.int64(self.sizes[atom.text]) if found is None else found.astype(np.int64)
        left, right = self._index(atom.left, named), self._index(atom.right, named)
        if atom.function in ("floordiv", "mod"):
            # As in code: where there is nothing, nothing is divided by 0.
            right = np.maximum(right, 1)
        return _FUNCTIONS[atom.function](left, right)


_FUNCTIONS: dict[str, Any] = {
    "floordiv": np.floor_divide, "mod": np.mod, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _along(values: Array, number: int, rank: int) -> Array:
    """Return values as dimension `number` of `rank`."""
    return values.reshape((1,) * number + (-1,) + (1,) * (rank - number - 1))


def _combined(combiner: Combiner, arguments: Sequence[Array]) -> list[Array]:
    known: dict[Expr, Array] = {}
    for node in walk(combiner.results):
        if node.op == "argument":
            number: int = node.payload
            known[node] = np.asarray(arguments[number])
        else:
            known[node] = _operated(node, [known[arg] for arg in node.args])
    return [known[result] for result in combiner.results]


def _operated(node: Expr, args: list[Array]) -> Array:
    """Return the result of a constant or an elementwise op."""
    if node.op == "constant":
        constant: Any = node.payload.value
        return np.asarray(constant)
    args = [np.array(each, order="C") for each in np.broadcast_arrays(*args)]
    dims = args[0].shape
    operands = tuple(
        Instruction(f"x{n}", find("parameter"), (), Shape.array(arg.dtype, dims), None)
        for n, arg in enumerate(node.args)
    )
    shape = Shape.array(node.dtype, dims)
    op = Instruction("op", find(node.op), operands, shape, node.payload)
    with np.errstate(all="ignore"):
        found: Any = rule_of(op)(op, args, Context(_no_calls))
    return np.asarray(found)


def _no_calls(*_: object) -> Any:
    raise AssertionError("elementwise ops call nothing")
