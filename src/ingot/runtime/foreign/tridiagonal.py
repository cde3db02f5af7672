# SPDX-License-Identifier: Apache-2.0
"""`tridiagonal_solve_perturbed_ffi`: tridiagonal systems that may be singular, as emitted code.

Gaussian elimination with row pivoting; a pivot that is so small that the solution would overflow is
moved away from zero, which inverse iteration for eigenvectors relies on. Matrices of right-hand
sides are column-major.

Source: jaxlib/tridiagonal_solve_perturbed.h, which follows LAPACK's xLAGTF and xLAGTS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import F32, I8, I32, I64, PTR, VOID
from ingot.llvm.values import Value
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.frames import read_frame
from ingot.runtime.foreign.scalars import Number, Scalars
from ingot.runtime.foreign.site import NO_MEMORY, SYMBOL, linked_code, refused
from ingot.runtime.records import RUNTIME
from ingot.runtime.threading.sync import discard
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target
from ingot.support.records import mutable, record

TARGET = "tridiagonal_solve_perturbed_ffi"
_ELEMENTS = ("f32", "f64", "c64", "c128")


def register_tridiagonal() -> None:
    """Register the target."""
    custom_calls.register(Target(TARGET, evaluator_of(_link), _link))


def _link(call: CallSite) -> LinkedCall:
    kinds = {shape.dtype.name for shape in (*call.operands, *call.results)}
    counts = (len(call.operands), len(call.results))
    if counts != (4, 1) or len(kinds) != 1 or not kinds <= set(_ELEMENTS):
        types = ", ".join(_ELEMENTS)
        raise refused(
            call, f"it takes four operands and gives one result, all of one type of {types}"
        )
    return linked_code(_emit(call))


def _emit(call: CallSite) -> str:
    module = ModuleBuilder("tridiagonal.adapter")
    f = module.function(SYMBOL, I32, [("frame", PTR)])
    runtime, operands, (result,) = read_frame(f, f.params[0], call)
    right = operands[3]
    n, columns = right.dims[-2:]
    numbers = Scalars.of(f, right.shape.dtype)
    element = right.shape.dtype.bytes
    batch: Index = 1
    for size in right.dims[:-2]:
        batch = f.imul(batch, size)
    # The three diagonals of U, and one row of the right-hand sides.
    bytes_needed = f.imul(f.iadd(f.iadd(f.imul(n, 3), columns), 1), element)
    allocate = RUNTIME.load(f, runtime, "allocate")
    block = f.call_indirect(allocate, PTR, [I64], [f.as_value(bytes_needed)])
    f.if_(f.icmp("eq", block, f.zero(PTR)), lambda: f.ret(f.const(I32, NO_MEMORY)), likely=False)

    def one(number: Value) -> None:
        step, whole = f.imul(number, n), f.imul(number, f.imul(n, columns))
        below, main, above = (numbers.at(o.data, step) for o in operands[:3])
        solver = _Solver(
            f, numbers, n, columns, below, main, above, numbers.at(right.data, whole),
            numbers.at(result.data, whole), block, numbers.at(block, f.imul(n, 3)),
        )  # fmt: skip
        solver.solve()

    f.for_range(f.iselect(f.igt(n, 0), batch, 0), one)
    f.call_indirect(RUNTIME.load(f, runtime, "free"), VOID, [PTR], [block])
    f.ret(f.const(I32, 0))
    return module.text()


@record
class _Rows:
    """Two rows of a step of the elimination.

    Attributes:
        k, following: their indices.
        inner: whether another row follows them.
        pivot, beside: the first two numbers of row k of U so far.
        sub, main, above: the diagonals of the matrix in the following row.
    """

    k: Value
    following: Value
    inner: Value
    pivot: Number
    beside: Number
    sub: Number
    main: Number
    above: Number


@mutable
class _Solver:
    """One system, in emitted code."""

    f: FunctionBuilder
    numbers: Scalars
    n: Index
    columns: Index
    below: Value
    main: Value
    above: Value
    right: Value
    x: Value
    u: Value
    row: Value

    def solve(self) -> None:
        """Emit elimination and back substitution."""
        f, numbers = self.f, self.numbers
        real = numbers.part
        scale, greatest = f.alloca(real), f.alloca(real)
        first, second = numbers.load(self.main, 0), numbers.load(self.above, 0)
        self.set_u(0, first, second)
        sizes = numbers.magnitude(first), numbers.magnitude(second)
        alone = f.as_condition(f.ieq(self.n, 1))
        both = f.select(f.fcmp("ogt", sizes[1], sizes[0]), sizes[1], sizes[0])
        f.store(f.select(alone, sizes[0], both), greatest)
        f.store(f.add(*sizes), scale)
        self.each_column(lambda j: self.put(0, j, self.given(0, j)))
        last = f.isub(self.n, 1)
        f.for_range(last, lambda k: self.eliminate(k, scale, greatest))
        self.note(greatest, numbers.load(self.u, f.imul(last, 3)))
        epsilon = f.const(real, float(np.finfo(np.float32 if real is F32 else np.float64).eps))
        perturbation = f.mul(epsilon, f.load(real, greatest))
        f.for_range(self.n, lambda k: self.substitute(f.isub(last, k), perturbation))

    # ---- elements

    def set_u(self, row: Index, *values: Number) -> None:
        """Emit U's row: the given diagonals, and zeros."""
        values = (*values, *[self.numbers.constant(0)] * (3 - len(values)))
        for diagonal, value in enumerate(values):
            self.put_u(row, diagonal, value)

    def put_u(self, row: Index, diagonal: int, value: Number) -> None:
        self.numbers.store(value, self.u, self.f.iadd(self.f.imul(row, 3), diagonal))

    def get_u(self, row: Index, diagonal: int) -> Number:
        return self.numbers.load(self.u, self.f.iadd(self.f.imul(row, 3), diagonal))

    def offset(self, row: Index, column: Index) -> Index:
        return self.f.iadd(self.f.imul(column, self.n), row)

    def given(self, row: Index, column: Index) -> Number:
        return self.numbers.load(self.right, self.offset(row, column))

    def get(self, row: Index, column: Index) -> Number:
        return self.numbers.load(self.x, self.offset(row, column))

    def put(self, row: Index, column: Index, value: Number) -> None:
        self.numbers.store(value, self.x, self.offset(row, column))

    def each_column(self, body: Callable[[Value], None]) -> None:
        self.f.for_range(self.columns, body)

    def note(self, greatest: Value, value: Number) -> None:
        """Emit the maximum of what `greatest` holds and |value|."""
        f, real = self.f, self.numbers.part
        held, size = f.load(real, greatest), self.numbers.magnitude(value)
        f.store(f.select(f.fcmp("ogt", size, held), size, held), greatest)

    # ---- elimination

    def eliminate(self, k: Value, scale: Value, greatest: Value) -> None:
        """Emit one step: row k of U is final, row k + 1 and its right-hand sides follow."""
        f, numbers = self.f, self.numbers
        real = numbers.part
        following = f.add(k, f.const(I64, 1))
        inner = f.as_condition(f.ilt(k, f.isub(self.n, 2)))
        sub, main, above = (
            numbers.load(base, following) for base in (self.below, self.main, self.above)
        )
        above_size = f.select(inner, numbers.magnitude(above), f.zero(real))
        size = f.add(f.add(numbers.magnitude(sub), numbers.magnitude(main)), above_size)
        pivot, beside = self.get_u(k, 0), self.get_u(k, 1)
        self.set_u(following, main, above)
        rows = _Rows(k, following, inner, pivot, beside, sub, main, above)

        def skip() -> None:
            f.store(size, scale)
            self.put_u(k, 2, numbers.constant(0))
            self.each_column(lambda j: self.put(following, j, self.given(following, j)))

        def keep_rows() -> None:
            f.store(size, scale)
            self.subtract_row(rows)

        def choose() -> None:
            here = f.div(numbers.magnitude(pivot), f.load(real, scale))
            here = f.select(numbers.is_zero(pivot), f.zero(real), here)
            there = f.div(numbers.magnitude(sub), size)
            is_kept = f.fcmp("ole", there, here)
            f.if_(is_kept, keep_rows, lambda: self.swap_rows(rows, scale))

        f.if_(numbers.is_zero(sub), skip, choose)

        def note_all() -> None:
            for diagonal in range(3):
                self.note(greatest, self.get_u(k, diagonal))

        f.if_(inner, note_all)

    def subtract_row(self, rows: _Rows) -> None:
        """Emit: row k stays the pivot's, and a multiple of it is taken from the next."""
        numbers, k, following = self.numbers, rows.k, rows.following
        factor = numbers.divide(rows.sub, rows.pivot)
        product = numbers.multiply(factor, rows.beside)
        self.put_u(following, 0, numbers.subtract(rows.main, product))
        self.put_u(k, 2, numbers.constant(0))

        def column(j: Value) -> None:
            taken = numbers.multiply(factor, self.get(k, j))
            self.put(following, j, numbers.subtract(self.given(following, j), taken))

        self.each_column(column)

    def swap_rows(self, rows: _Rows, scale: Value) -> None:
        """Emit: the next row becomes row k, and a multiple of it is taken from the old one."""
        f, numbers, k, following = self.f, self.numbers, rows.k, rows.following
        factor = numbers.divide(rows.pivot, rows.sub)
        left = numbers.subtract(rows.beside, numbers.multiply(factor, rows.main))
        zero = numbers.constant(0)
        fill = numbers.subtract(zero, numbers.multiply(factor, rows.above))
        self.put_u(k, 0, rows.sub)
        self.put_u(k, 1, rows.main)
        self.put_u(k, 2, self.where_inner(rows, rows.above))
        fill = self.where_inner(rows, fill)
        self.set_u(following, left, fill)

        def column(j: Value) -> None:
            mine, next_row = self.get(k, j), self.given(following, j)
            taken = numbers.multiply(factor, next_row)
            self.put(following, j, numbers.subtract(mine, taken))
            self.put(k, j, next_row)

        self.each_column(column)
        f.store(f.add(numbers.magnitude(left), numbers.magnitude(fill)), scale)

    def where_inner(self, rows: _Rows, value: Number) -> Number:
        """Return a number of the second diagonal above the main one: 0 behind the matrix."""
        pairs = zip(value, self.numbers.constant(0), strict=True)
        return tuple(self.f.select(rows.inner, part, zero) for part, zero in pairs)

    # ---- back substitution

    def substitute(self, k: Index, perturbation: Value) -> None:
        """Emit row k of the solution from the rows after it."""
        f, numbers = self.f, self.numbers

        def column(j: Value) -> None:
            numbers.store(self.get(k, j), self.row, j)
            for distance in (1, 2):

                def take(distance: int = distance) -> None:
                    known = self.get(f.iadd(k, distance), j)
                    product = numbers.multiply(self.get_u(k, distance), known)
                    left = numbers.subtract(numbers.load(self.row, j), product)
                    numbers.store(left, self.row, j)

                f.if_(f.ilt(f.iadd(k, distance), self.n), take)

        self.each_column(column)
        pivot = f.alloca(numbers.part, 2)
        numbers.store(self.get_u(k, 0), pivot, 0)
        self.perturb(pivot, perturbation)
        inverse = numbers.divide(numbers.constant(1), numbers.load(pivot, 0))

        def finish(j: Value) -> None:
            self.put(k, j, numbers.multiply(numbers.load(self.row, j), inverse))

        self.each_column(finish)

    def perturb(self, pivot: Value, perturbation: Value) -> None:
        """Emit: move a pivot away from zero, or scale it and its row, until both are safe."""
        f, numbers = self.f, self.numbers
        real = numbers.part
        tiny = float(np.finfo(np.float32 if real is F32 else np.float64).tiny)
        safe, big, one = (f.const(real, value) for value in (tiny, 1 / tiny, 1.0))
        greatest = f.alloca(real)
        f.store(f.zero(real), greatest)
        self.each_column(lambda j: self.note(greatest, numbers.load(self.row, j)))
        factor = f.load(real, greatest)
        least = f.select(f.fcmp("ogt", perturbation, safe), perturbation, safe)
        first = f.intrinsic("llvm.copysign", real, [least, numbers.load(pivot, 0)[0]])
        added, stop = f.alloca(real), f.alloca(I8)
        f.store(first, added)
        f.store(f.const(I8, 0), stop)

        def again(_: list[Value]) -> Value:
            small = f.fcmp("olt", numbers.magnitude(numbers.load(pivot, 0)), one)
            return f.and_(small, f.icmp("eq", f.load(I8, stop), f.const(I8, 0)))

        def add() -> None:
            held = numbers.load(pivot, 0)
            amount = f.load(real, added)
            numbers.store((f.add(held[0], amount), *held[1:]), pivot, 0)
            f.store(f.mul(amount, f.const(real, 2.0)), added)

        def end() -> None:
            f.store(f.const(I8, 1), stop)

        def scale() -> None:
            self._scale_row(pivot, big)
            end()

        def step(_: list[Value]) -> list[Value]:
            size = numbers.magnitude(numbers.load(pivot, 0))
            nothing = f.fcmp("oeq", size, f.zero(real))
            lost = f.or_(nothing, f.fcmp("ogt", f.mul(factor, safe), size))
            overflows = f.fcmp("ogt", factor, f.mul(size, big))
            f.if_(
                f.fcmp("olt", size, safe),
                lambda: discard(f.if_(lost, add, scale)),
                lambda: discard(f.if_(overflows, add, end)),
            )
            return []

        f.while_([], again, step)

    def _scale_row(self, pivot: Value, factor: Value) -> None:
        """Emit: multiply a pivot and its row."""
        numbers = self.numbers
        numbers.store(numbers.scale(numbers.load(pivot, 0), factor), pivot, 0)

        def column(j: Value) -> None:
            numbers.store(numbers.scale(numbers.load(self.row, j), factor), self.row, j)

        self.each_column(column)
