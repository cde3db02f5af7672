# SPDX-License-Identifier: Apache-2.0
"""while-loop-dot-code-motion: products of few rows in each trip become one product of all rows.

Before the loop: `dot(xs[i], w)` with `xs` and `w` that the loop does not change is row `i` of
`dot(xs, w)`. So the inputs of a recurrent layer go through its weights in one product.

After the loop: a sum over trips, `sum = sum + dot(a, b)`, is one product that also
contracts over the trips. The loop stacks the operands that are not rows of arrays already. So the
gradient of a recurrent layer's weights is one product, and not read and written in each trip.

The time of a product with few rows is that of reading its matrix, or of reading and writing its
sum; a product with many rows takes that time once. Products of many rows gain nothing, and stay.

Invariant: the number of trips is known; the arrays kept for all trips are limited in bytes.

Source: ours; Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs"
(arXiv:1604.01946), 3.2 and 3.3, which does so by hand. XLA moves sums over devices out of loops in
the second way (while_loop_all_reduce_code_motion.cc).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.dots.sides import Side, dot_of, sides_of
from ingot.passes.simplify.while_loops.rows import (
    Row,
    Trips,
    empty_stack,
    put,
    row_of,
    taken,
    trips_of,
    whole,
)
from ingot.passes.simplify.while_loops.state import (
    MOVES,
    LoopPass,
    added_to,
    copy_before,
    invariants,
    replace_loop,
    widened,
)
from ingot.passes.simplify.while_loops.trip_count import element_index
from ingot.support.records import record


@record
class WhileLoopDotCodeMotion(LoopPass):
    """Moves products on rows out of loops.

    Attributes:
        most_rows: products of as many rows are no faster together.
        most_rows_of_small: the same for a matrix that fits a core's own caches.
        small_bytes: the size of such a matrix, at most.
        most_bytes: the most that one loop keeps for all trips.
    """

    name = "while-loop-dot-code-motion"
    most_rows: int = 16
    most_rows_of_small: int = 3
    small_bytes: int = 512 << 10
    most_bytes: int = 8 << 20

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Move the products of a loop whose number of trips is known."""
        trips = trips_of(loop)
        if trips is None or trips.count < 2:
            return False
        made = _Loop(loop, trips, self, module)
        changed = made.move_before()
        if context.fp >= Fp.CONTRACT:
            changed = made.move_after() or changed
        return changed


while_loop_dot_code_motion = WhileLoopDotCodeMotion()


@record
class _Product:
    """A product of a row with a matrix that is the same in each trip.

    Attributes:
        dot: the product.
        row: its operand that is a row.
        side: which operand that is, 0 or 1.
    """

    dot: Instruction
    row: Row
    side: int


@record
class _Sum:
    """An element of the state to which each trip adds a product.

    Attributes:
        number: which element it is.
        dot: the product.
        between: the ops from the product to the addition, the first one first.
        index: where the operands stand among those of the other trips.
        rows: per operand the row that it is, or None if the loop has to stack it.
    """

    number: int
    dot: Instruction
    between: tuple[Instruction, ...]
    index: Instruction
    rows: tuple[Row | None, Row | None]


class _Loop:
    """One loop, replaced by another one with each move."""

    def __init__(
        self, loop: Instruction, trips: Trips, limits: WhileLoopDotCodeMotion, module: Module
    ) -> None:
        self._loop = loop
        self._trips = trips
        self._limits = limits
        self._module = module

    @property
    def _body(self) -> Computation:
        return self._loop.attributes.body

    # ---- before the loop

    def move_before(self) -> bool:
        """Compute products of rows for all rows before the loop."""
        invariant = invariants(self._body)
        found: list[_Product] = []
        room = self._limits.most_bytes
        for dot in self._dots():
            product = self._product(dot, invariant)
            if product is not None and (size := product.row.count * _bytes(dot)) <= room:
                found.append(product)
                room -= size
        if not found:
            return False
        loop, caller = self._loop, self._loop.computation
        read = [x for p in found for x in (p.row.array, p.dot.operands[1 - p.side])]
        copies = copy_before(loop, read)
        values: list[Instruction] = []
        for product in found:
            build = Builder(caller, product.dot.metadata)
            rows = whole(build, product.row, copies[product.row.array])
            other = copies[product.dot.operands[1 - product.side]]
            values.append(_of_all_rows(product, build, rows, other))
        made = widened(loop, values, self._module)
        for product, stack in zip(found, made.added, strict=True):
            build = Builder(made.body, product.dot.metadata)
            index = made.copies[product.row.index]
            axis, dims = _stack_axis(product), product.dot.shape.static_dims
            row = taken(build, stack, axis, index, dims)
            made.body.replace_all_uses(made.copies[product.dot], row)
        replace_loop(loop, made.loop)
        self._loop = made.loop
        return True

    def _dots(self) -> Iterator[Instruction]:
        for dot in self._body.post_order():
            is_free = dot.opcode == "dot" and not dot.control_predecessors
            if is_free and dot.is_static:
                yield dot

    def _product(self, dot: Instruction, invariant: dict[Instruction, None]) -> _Product | None:
        if dot in invariant:
            return None
        for number, side in enumerate(sides_of(dot)):
            row = row_of(side.value, invariant)
            if row is None or dot.operands[1 - number] not in invariant:
                continue
            rows = prod(side.sizes(side.free))
            if rows < self._most_rows(dot.operands[1 - number]) and row.count <= self._trips.count:
                return _Product(dot, row, number)
        return None

    def _most_rows(self, matrix: Instruction) -> int:
        limits = self._limits
        is_small = _bytes(matrix) <= limits.small_bytes
        return limits.most_rows_of_small if is_small else limits.most_rows

    # ---- after the loop

    def move_after(self) -> bool:
        """Compute sums of products over the trips after the loop."""
        invariant = invariants(self._body)
        room = self._limits.most_bytes
        found: list[_Sum] = []
        stacks: dict[tuple[Instruction, Instruction], int] = {}
        for number in range(len(self._body.root.operands)):
            item = self._sum(number, invariant)
            if item is None:
                continue
            wanted = [key for key in _stacked(item) if key not in stacks]
            size = self._trips.count * sum(_bytes(value) for value, _ in wanted)
            if size <= room:
                room -= size
                found.append(item)
                stacks |= {key: len(stacks) + n for n, key in enumerate(wanted)}
        if not found:
            return False
        self._replace_sums(found, stacks)
        return True

    def _sum(self, number: int, invariant: dict[Instruction, None]) -> _Sum | None:
        """Return the value added to an element of the state, if it is a product of few rows."""
        added = added_to(self._loop, number)
        if added is None:
            return None
        between: list[Instruction] = []
        while added.opcode in MOVES and added.use_count == 1 and not added.control_predecessors:
            between.append(added)
            added = added.operands[0]
        dot = added
        is_free = dot.opcode == "dot" and dot.use_count == 1 and not dot.control_predecessors
        if not is_free or not dot.is_static:
            return None
        rows = tuple(self._row(operand, invariant) for operand in dot.operands)
        index = next((row.index for row in rows if row is not None), None) or self._counter()
        if index is None or any(operand in invariant for operand in dot.operands):
            return None
        left, right = (row if row is not None and row.index is index else None for row in rows)
        item = _Sum(number, dot, tuple(reversed(between)), index, (left, right))
        return item if self._is_worth(item) else None

    def _row(self, operand: Instruction, invariant: dict[Instruction, None]) -> Row | None:
        row = row_of(operand, invariant)
        if row is None or row.count != self._trips.count:
            return None
        if not self._trips.visits_each(row.index):
            return None
        return row

    def _counter(self) -> Instruction | None:
        """Return the number of the trip in the body, if an element of the state is that."""
        state = self._body.parameters[0]
        numbers = {number for number, steps in self._trips.counters.items() if steps == (0, 1)}
        readers = (one for one in state.users if element_index(one, state) in numbers)
        return next(readers, None)

    def _is_worth(self, item: _Sum) -> bool:
        """Whether a sum is larger than the stacks for it, and its products have few rows."""
        lhs, _ = sides_of(item.dot)
        size = item.dot.shape.size
        stacked = sum(prod(value.shape.static_dims) for value, _ in _stacked(item))
        is_large = isinstance(size, int) and size >= 2 * stacked
        return is_large and prod(lhs.sizes(lhs.contracting)) < self._limits.most_rows

    def _replace_sums(
        self, found: list[_Sum], stacks: dict[tuple[Instruction, Instruction], int]
    ) -> None:
        loop, caller = self._loop, self._loop.computation
        build = Builder(caller, loop.metadata)
        arrays = [row.array for item in found for row in item.rows if row is not None]
        copies = copy_before(loop, arrays)
        first = [empty_stack(build, self._trips.count, value.shape) for value, _ in stacks]
        made = widened(loop, first, self._module)
        inside, root = Builder(made.body, loop.metadata), made.body.root
        count = len(loop.shape.elements)
        for (value, index), number in stacks.items():
            row = put(inside, made.added[number], made.copies[value], made.copies[index])
            made.body.replace_operand(root, count + number, row)
        results: dict[int, Instruction] = {}
        for item in found:
            build = Builder(caller, item.dot.metadata)
            sides = [
                whole(build, row, copies[row.array])
                if row is not None
                else build.get_tuple_element(made.loop, index=count + stacks[operand, item.index])
                for operand, row in zip(item.dot.operands, item.rows, strict=True)
            ]
            results[item.number] = _total(
                build, item, sides, loop.operands[0].operands[item.number]
            )
        made.keep_unchanged(results)
        replace_loop(loop, made.loop, results)
        self._loop = made.loop


def _stacked(item: _Sum) -> list[tuple[Instruction, Instruction]]:
    """Return the operands that the loop has to stack, with the index at which they stand."""
    pairs = zip(item.dot.operands, item.rows, strict=True)
    return list(dict.fromkeys((operand, item.index) for operand, row in pairs if row is None))


def _bytes(value: Instruction) -> int:
    size = value.shape.bytes
    return size if isinstance(size, int) else 1 << 62


def _shifted(side: Side, value: Instruction, *, contract: bool) -> Side:
    """Return a side of a product for all rows, which lie along a new dimension 0 of its value."""
    contracting = tuple(n + 1 for n in side.contracting)
    return Side(
        value,
        tuple(n + 1 for n in side.batch),
        (0, *contracting) if contract else contracting,
    )


def _of_all_rows(
    product: _Product, build: Builder, rows: Instruction, other: Instruction
) -> Instruction:
    """Return the product of all rows with the matrix."""
    sides = list(sides_of(product.dot))
    sides[product.side] = _shifted(sides[product.side], rows, contract=False)
    sides[1 - product.side] = replace(sides[1 - product.side], value=other)
    return dot_of(product.dot, build, (sides[0], sides[1]))


def _stack_axis(product: _Product) -> int:
    """Return the dimension of the product of all rows along which they lie."""
    lhs, _ = sides_of(product.dot)
    return len(lhs.batch) + (len(lhs.free) if product.side else 0)


def _total(
    build: Builder, item: _Sum, values: list[Instruction], first: Instruction
) -> Instruction:
    """Return the sum of the products of all trips, added to the first value."""
    left, right = (
        _shifted(side, value, contract=True)
        for side, value in zip(sides_of(item.dot), values, strict=True)
    )
    made = dot_of(item.dot, build, (left, right))
    for step in item.between:
        made = build.computation.copy_of(step, [made])
    return build.add(first, made)
