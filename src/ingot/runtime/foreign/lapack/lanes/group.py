# SPDX-License-Identifier: Apache-2.0
"""A group of small matrices, each in a lane of every vector: how they come there, and go back.

Element (row, column) of all matrices of a group is one vector, so that an algorithm is written as
for one matrix, and vectors are full whatever the size of a matrix is. Lanes without a matrix of
their own hold the last matrix, and compute the same again. What decides the path of an algorithm
(pivots, angles that are small enough) is a mask of lanes.

Invariant: what a lane computes does not depend on the other lanes, so that results do not depend on
how a batch is cut into groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Condition, Index
from ingot.llvm.types import F32, I32, I64, Type, vector
from ingot.llvm.values import Value
from ingot.runtime.foreign.frames import Argument
from ingot.support.records import mutable, record

VECTOR_BYTES = 64
"""Of each vector: lanes are as many on every machine, so results are the same bits."""

CROWDED_BYTES = 4096
"""From one matrix to the next: 16 lines are then of one set of an L1 cache, which has 8 or 12 ways.
Cholesky of 64x32x32 took 4 times as long."""

_EXPONENT = {4: (23, 253), 8: (52, 2045)}
"""Bytes of a float: bits of its fraction; the greatest biased exponent that has an inverse."""


@record
class Matrix:
    """A matrix in each lane: element (row, column) is a vector.

    Attributes:
        f: the function that works on it.
        type: of a vector.
        data: address of the vectors.
        rows: how many there are.
        columns: how many there are.
        row_step: vectors from one row to the next.
        column_step: vectors from one column to the next.
    """

    f: FunctionBuilder
    type: Type
    data: Value
    rows: Index
    columns: Index
    row_step: Index
    column_step: Index

    @property
    def transposed(self) -> Matrix:
        """The transposes, in the same memory."""
        steps = self.column_step, self.row_step
        return Matrix(self.f, self.type, self.data, self.columns, self.rows, *steps)

    def position(self, row: Index, column: Index) -> Index:
        """Emit the number of an element's vector."""
        f = self.f
        return f.iadd(f.imul(column, self.column_step), f.imul(row, self.row_step))

    def address(self, row: Index, column: Index) -> Value:
        """Emit the address of an element's vector."""
        return self.f.gep(self.data, self.f.as_value(self.position(row, column)), self.type)

    def get(self, row: Index, column: Index = 0) -> Value:
        """Emit the load of an element."""
        return self.f.load(self.type, self.address(row, column))

    def put(self, value: Value, row: Index, column: Index = 0) -> None:
        """Emit the store of an element."""
        self.f.store(value, self.address(row, column))


def odd(f: FunctionBuilder, number: Index) -> Index:
    """Emit the number, or the next one if it is even."""
    return f.iadd(f.imul(f.idiv(number, 2), 2), 1)


def group_size(real: Type) -> int:
    """Return how many matrices of an element type are a group."""
    return VECTOR_BYTES // real.bytes


@mutable
class Group:
    """The matrices of a group, in emitted code.

    Attributes:
        f: the function.
        real: element type.
        arrays: operands and results by name; matrices lie column by column.
        characters: the attributes of the call that are characters.
        batch_rank: dimensions before those of a matrix.
        number: which matrix of the batch each lane has.
        scratch: address of memory for vectors.
        used: bytes of it that matrices have taken.
    """

    f: FunctionBuilder
    real: Type
    arrays: Mapping[str, Argument]
    characters: Mapping[str, str]
    batch_rank: int
    number: Value
    scratch: Value
    used: Index = 0

    @property
    def lanes(self) -> int:
        """Matrices of a group."""
        return group_size(self.real)

    @property
    def lane(self) -> Value:
        """The number of each lane."""
        return self.f.const(vector(I64, self.lanes), range(self.lanes))

    @property
    def type(self) -> Type:
        """The type of an element of all matrices."""
        return vector(self.real, self.lanes)

    def const(self, value: float) -> Value:
        """Return a number for each matrix."""
        return self.f.const(self.type, value)

    def whole(self, value: Index) -> Value:
        """Return an integer (32 bits) for each matrix."""
        return self.f.splat(self.f.trunc(self.f.as_value(value), I32), self.lanes)

    def matrix(self, rows: Index, columns: Index = 1) -> Matrix:
        """Take memory for a matrix in each lane.

        From column to column it is an odd number of lines, so that rows lie in all cache sets.
        """
        f = self.f
        start = f.gep(self.scratch, f.as_value(self.used))
        step = odd(f, rows)
        self.used = f.iadd(self.used, f.imul(f.imul(step, columns), VECTOR_BYTES))
        return Matrix(f, self.type, start, rows, columns, 1, step)

    def choose(self, condition: Condition, one: Matrix, other: Matrix) -> Matrix:
        """Emit the choice of a matrix."""
        f = self.f
        pairs = (
            (one.rows, other.rows),
            (one.columns, other.columns),
            (one.row_step, other.row_step),
            (one.column_step, other.column_step),
        )
        sizes = [f.iselect(condition, *pair) for pair in pairs]
        data = f.select(f.as_condition(condition), one.data, other.data)
        return Matrix(f, self.type, data, *sizes)

    def dims(self, name: str) -> tuple[Index, Index]:
        """Return the rows and columns of an operand's or a result's matrices."""
        rows, columns = self.arrays[name].dims[-2:]
        return rows, columns

    # ---- memory of the call

    def pointers(self, name: str) -> Value:
        """Emit the address of each lane's matrix of an operand or result."""
        f, array = self.f, self.arrays[name]
        step = f.as_value(array.bytes(f, self.batch_rank))
        return f.gep(array.data, f.mul(self.number, f.splat(step, self.lanes)))

    def load(self, name: str, target: Matrix) -> None:
        """Emit the copy of an operand's or result's matrices into lanes."""
        f, pointers, (rows, columns) = self.f, self._apart(name, copies=True), self.dims(name)

        def element(row: Value, column: Value) -> None:
            at = self._offset(rows, row, column)
            target.put(f.gather(self.type, f.gep(pointers, at)), row, column)

        self.each(rows, columns, element)

    def store(self, name: str, source: Matrix) -> None:
        """Emit the copy of matrices from lanes into a result."""
        f, pointers, (rows, columns) = self.f, self._apart(name), self.dims(name)

        def element(row: Value, column: Value) -> None:
            at = self._offset(rows, row, column)
            f.scatter(source.get(row, column), f.gep(pointers, at))

        self.each(rows, columns, element)
        self._copy(name, pointers, self.pointers(name))

    def _offset(self, rows: Index, row: Value, column: Value) -> Value:
        """Emit the bytes from the start of a matrix of the call to one of its elements."""
        f = self.f
        return f.as_value(f.imul(f.iadd(f.imul(column, rows), row), self.real.bytes))

    def _apart(self, name: str, *, copies: bool = False) -> Value:
        """Emit the addresses of matrices, or of memory for copies of crowded ones."""
        f, here = self.f, self.pointers(name)
        start = f.gep(self.scratch, f.as_value(self.used))
        step = f.add(self._bytes(name), f.const(I64, VECTOR_BYTES))
        near = f.gep(start, f.mul(f.splat(step, self.lanes), self.lane))
        if copies:
            self._copy(name, here, near)
        is_crowded = f.splat(self._is_crowded(name), self.lanes)
        return f.select(is_crowded, near, here)

    def _copy(self, name: str, source: Value, target: Value) -> None:
        """Emit the copy of each matrix, if they are crowded."""
        f = self.f

        def copy() -> None:
            for lane in range(self.lanes):
                f.memcpy(f.extract(target, lane), f.extract(source, lane), self._bytes(name))

        f.if_(self._is_crowded(name), copy)

    def _bytes(self, name: str) -> Value:
        return self.f.as_value(self.arrays[name].bytes(self.f, self.batch_rank))

    def _is_crowded(self, name: str) -> Value:
        """Emit whether an element of all matrices lies in too few sets of the cache."""
        f, size = self.f, self._bytes(name)
        rest = f.and_(size, f.const(I64, CROWDED_BYTES - 1))
        return f.icmp("eq", rest, f.const(I64, 0))

    def store_one(self, name: str, value: Value, position: Value | int = 0) -> None:
        """Emit the store of a number of each matrix.

        Args:
            name: the result.
            value: the numbers.
            position: which number of the result of each matrix; a vector: of each lane.
        """
        f, bytes_ = self.f, value.type.element.bytes
        if isinstance(position, int):
            position = f.const(I64, position)
        scale = f.const(position.type, bytes_)
        f.scatter(value, f.gep(self.pointers(name), f.mul(position, scale)))

    def load_one(self, name: str, position: Value) -> Value:
        """Emit the load of a number of each matrix of an operand."""
        f = self.f
        at = f.mul(position, f.const(I64, self.real.bytes))
        return f.gather(self.type, f.gep(self.pointers(name), at))

    def elements(self, start: Value, vectors: Value) -> Value:
        """Emit the addresses of elements, in each lane its own: `vectors` after `start`."""
        f = self.f
        at = f.add(f.mul(vectors, f.const(vectors.type, self.lanes)), self.lane)
        return f.gep(start, at, self.real)

    # ---- loops

    def set_unit(self, matrix: Matrix) -> None:
        """Emit the stores of a unit matrix."""
        f = self.f

        def element(row: Value, column: Value) -> None:
            is_one = f.splat(f.icmp("eq", row, column), self.lanes)
            matrix.put(f.select(is_one, self.const(1), self.const(0)), row, column)

        self.each(matrix.rows, matrix.columns, element)

    def each(self, rows: Index, columns: Index, body: Callable[[Value, Value], object]) -> None:
        """Emit `body(row, column)` for each element of a matrix."""
        f = self.f
        f.for_range(columns, lambda column: f.for_range(rows, lambda row: body(row, column)))

    def sum(
        self, start: Index, end: Index, first: Value, term: Callable[[Value], tuple[Value, Value]]
    ) -> Value:
        """Emit first + the sum of products: `term(i)` gives the factors."""

        def step(index: Value, values: list[Value]) -> list[Value]:
            return [self.f.fma(*term(index), values[0])]

        return self.f.loop(start, end, 1, [first], step)[0]

    def sums(
        self, count: Index, terms: int, term: Callable[[Value], list[tuple[Value, Value]]]
    ) -> list[Value]:
        """Emit several sums of products side by side: `term(i)` gives the factors of each."""

        def step(index: Value, values: list[Value]) -> list[Value]:
            pairs = zip(term(index), values, strict=True)
            return [self.f.fma(*factors, value) for factors, value in pairs]

        return self.f.loop(0, count, 1, [self.const(0)] * terms, step)

    def greatest(
        self, start: Index, end: Index, first: Value, item: Callable[[Value], Value]
    ) -> Value:
        """Emit the maximum of `first` and |item(i)|; NaN counts as nothing."""
        f = self.f

        def step(index: Value, values: list[Value]) -> list[Value]:
            here = f.abs(item(index))
            return [f.select(f.fcmp("ogt", here, values[0]), here, values[0])]

        return f.loop(start, end, 1, [first], step)[0]

    # ---- numbers

    def sqrt(self, value: Value) -> Value:
        """Emit square roots."""
        return self.f.intrinsic("llvm.sqrt", self.type, [value])

    def with_sign(self, size: Value, sign: Value) -> Value:
        """Emit |size| with the sign of another number."""
        return self.f.intrinsic("llvm.copysign", self.type, [size, sign])

    def scales(self, size: Value) -> tuple[Value, Value]:
        """Emit powers of two, each the inverse of the other: the first one takes `size` near 1.

        Of 0 and numbers that are not finite: some power of two.
        """
        f = self.f
        fraction, most = _EXPONENT[self.real.bytes]
        words = vector(I32 if self.real is F32 else I64, self.lanes)
        exponent = f.lshr(f.bitcast(f.abs(size), words), f.const(words, fraction))
        low, high = f.const(words, 1), f.const(words, most)
        exponent = f.select(f.icmp("ult", exponent, low), low, exponent)
        exponent = f.select(f.icmp("ugt", exponent, high), high, exponent)
        inverse = f.sub(f.const(words, most + 1), exponent)
        down, up = (
            f.bitcast(f.shl(item, f.const(words, fraction)), self.type)
            for item in (inverse, exponent)
        )
        return down, up
