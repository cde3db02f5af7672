# SPDX-License-Identifier: Apache-2.0
"""The innermost part of a product of few rows with a transposed matrix: dot products.

Both operands are read in vectors along k, in place; each sum is one vector whose lanes are added
at the end. The counterpart of `microkernel` where k is the axis of stride one in both operands.
Operands of another type than the sums' are converted as they are read, or bytes multiplied four at
a time (`words`).

Invariant: the order of additions depends on the lanes and the depth alone.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.block_function import (
    call_block,
    known_strides,
    stride_params,
    strides_text,
)
from ingot.cpu.emit.contraction.lane_totals import store_totals
from ingot.cpu.emit.contraction.words import INTEGERS, SHIFT, add_shifts, add_words
from ingot.emit.values.conversions import convert
from ingot.emit.values.types import memory_type, widen
from ingot.hlo.dtype import DType
from ingot.kernel.contraction.operands import has_masks
from ingot.kernel.product.variant import WORD_BYTES
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class DotProducts:
    """C[rows, columns] = A[rows, k] * B[columns, k]^T; strides in elements, None: a parameter.

    Attributes:
        element: type of a sum and of every operand element.
        lanes: lanes along k.
        rows, columns: how many dot products.
        fma: whether float products are fused with the addition.
        is_even: whether the depth is known to be a multiple of the lanes.
        a_row, b_row, c_row: steps from row to row.
        is_shared: whether its code lies in the library, not in the module that calls it.
        converts: types of A and B in memory and of the sums, where they are not the same.
        factors: how many factors along k a lane takes at once.
    """

    element: Type
    lanes: int
    rows: int
    columns: int
    fma: bool
    is_even: bool
    a_row: int | None
    b_row: int | None
    c_row: int | None
    is_shared: bool = False
    converts: tuple[DType, DType, DType] | None = None
    factors: int = 1

    @property
    def name(self) -> str:
        """A name that says all of it: equal names, equal code."""
        kind = f"{self.element.suffix}{'f' * self.fma}{'e' * self.is_even}"
        prefix = "shared_dots" if self.is_shared else "dots"
        types = "" if self.converts is None else "".join(f"_{item.name}" for item in self.converts)
        words = f"_words{self.factors}" if self.factors > 1 else ""
        block = f"{self.rows}x{self.columns}x{self.lanes}"
        return f"{prefix}_{kind}_{block}_{strides_text(self)}{types}{words}"

    @property
    def is_shifted(self) -> bool:
        """Whether bytes of A are shifted by 128, since they have the sign of those of B."""
        if self.converts is None or self.factors < WORD_BYTES:
            return False
        return self.converts[0].is_signed == self.converts[1].is_signed

    @property
    def has_masks(self) -> bool:
        """Whether the last elements of a row, fewer than lanes, are loaded under masks.

        If not, the last vector of a row, which has at least one, overlaps the one before.
        """
        if self.converts is None:
            return True
        narrowest = min(item.bits for item in self.memory_types)
        return has_masks(narrowest, self.lanes * self.element.bits)

    @property
    def b_signed(self) -> bool:
        """Whether bytes of B are signed."""
        return self.converts is None or self.converts[1].is_signed

    @property
    def memory_types(self) -> tuple[Type, Type]:
        """Types of elements of A and B in memory."""
        if self.converts is None:
            return self.element, self.element
        return memory_type(self.converts[0]), memory_type(self.converts[1])

    @property
    def strides(self) -> dict[str, int | None]:
        """Steps from row to row, by name; None: a parameter."""
        return {"a_row": self.a_row, "b_row": self.b_row, "c_row": self.c_row}

    def call(
        self,
        f: FunctionBuilder,
        pointers: tuple[Value, Value, Value],
        depth: Index,
        strides: tuple[Index, ...],
    ) -> None:
        """Run on A, B, C with `depth` products each."""
        call_block(f, self, [*pointers, f.as_value(depth)], strides)

    @property
    def params(self) -> list[tuple[str, Type]]:
        """The function's parameters: pointers, the depth, then the strides that are not known."""
        params: list[tuple[str, Type]] = [("a", lt.PTR), ("b", lt.PTR), ("c", lt.PTR)]
        return [*params, ("depth", lt.I64), *stride_params(self)]

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define the function in a module."""
        f = module.function(
            self.name, lt.VOID, self.params, linkage=linkage, attrs="nounwind noinline"
        )
        names = [name for name, _ in stride_params(self)]
        self._emit(f, known_strides(self, dict(zip(names, f.params[4:], strict=True))))
        return f.reference

    def _emit(self, f: FunctionBuilder, strides: dict[str, Index]) -> None:
        a, b, c, depth = f.params[:4]
        wide, step_size = vector(self.element, self.lanes), self.lanes * self.factors
        a_type, b_type = self.memory_types
        a_rows = [f.gep(a, f.imul(strides["a_row"], i), a_type) for i in range(self.rows)]
        b_rows = [f.gep(b, f.imul(strides["b_row"], i), b_type) for i in range(self.columns)]

        def step(k: Index, sums: list[Value], mask: Value | None = None) -> list[Value]:
            left = [self._load(f, f.gep(row, k, a_type), 0, mask) for row in a_rows]
            found: list[Value] = []
            shifts = sums[self.rows * self.columns :]
            for number, start in enumerate(b_rows):
                right = self._load(f, f.gep(start, k, b_type), 1, mask)
                found += [
                    self._product(f, x, right, sums[len(found) + row]) for row, x in enumerate(left)
                ]
                if self.is_shifted:
                    shifts[number] = add_shifts(f, right, shifts[number], b_signed=self.b_signed)
            return [*found, *shifts]

        sums = [f.zero(wide)] * (self.columns * (self.rows + self.is_shifted))
        whole = depth if self.is_even else f.imul(f.idiv(depth, step_size), step_size)
        sums = f.loop(0, whole, step_size, sums, step)
        if not self.is_even and step_size > 1:
            (start, mask), before = self._rest(f, depth, whole, step_size), sums
            sums = f.if_(f.ilt(whole, depth), lambda: step(start, before, mask), otherwise=before)
        count = self.rows * self.columns
        if self.is_shifted:
            shifts = sums[count:]
            sums = [f.sub(value, shifts[at // self.rows]) for at, value in enumerate(sums[:count])]
        rows = [sums[row :: self.rows] for row in range(self.rows)]

        def address(row: int, column: int) -> Value:
            start = f.gep(c, f.imul(strides["c_row"], row), self.element)
            return f.gep(start, column, self.element)

        store_totals(f, rows, address)
        f.ret()

    def _rest(
        self, f: FunctionBuilder, depth: Value, whole: Index, size: int
    ) -> tuple[Index, Value]:
        """Return where the last vector of a row begins, and which of its elements are left."""
        # Fewer are left than a byte counts.
        index = lt.I64 if self.converts is None else lt.I8
        numbers = f.const(vector(index, size), list(range(size)))
        left = f.as_value(f.isub(depth, whole))
        left = left if index is lt.I64 else f.trunc(left, index)
        if self.has_masks:
            return whole, f.icmp("slt", numbers, f.splat(left, size))
        start = f.isub(depth, size)
        again = f.sub(f.const(index, size), left)
        return start, f.icmp("sge", numbers, f.splat(again, size))

    def _load(self, f: FunctionBuilder, pointer: Value, side: int, mask: Value | None) -> Value:
        """Return elements of A (side 0) or B (1) as they are multiplied."""
        element = self.memory_types[side]
        wide = vector(element, self.lanes * self.factors)
        if mask is None or not self.has_masks:
            value = f.load(wide, pointer, element.alignment)
            value = value if mask is None else f.select(mask, value, f.zero(wide))
        else:
            value = f.masked_load(wide, pointer, mask)
        if self.converts is None:
            return value
        source, total = self.converts[side], self.converts[2]
        if self.factors == 1:
            return convert(f, widen(f, value, source, self.fma), source, total, self.fma)
        if self.is_shifted and side == 0:
            return f.xor(value, f.splat(f.const(lt.I8, SHIFT - 256), wide.lanes))
        return value if total.is_float else convert(f, value, source, INTEGERS[self.factors], True)

    def _product(self, f: FunctionBuilder, a: Value, b: Value, total: Value) -> Value:
        if self.factors > 1:
            return add_words(f, (a, b), total, self.factors, b_signed=self.b_signed)
        if self.element.is_float and self.fma:
            return f.fma(a, b, total)
        return f.add(f.mul(a, b), total)


def shared_dots(element: Type, lanes: int, rows: int, columns: int) -> DotProducts:
    """Return dot products that fit every depth and all steps; `replace` gives their types.

    They compute `rows` by `columns` sums of type `element`, each in `lanes` lanes along the depth.
    """
    return DotProducts(
        element=element,
        lanes=lanes,
        rows=rows,
        columns=columns,
        fma=True,
        is_even=False,
        a_row=None,
        b_row=None,
        c_row=None,
        is_shared=True,
    )
