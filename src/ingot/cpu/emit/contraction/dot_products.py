# SPDX-License-Identifier: Apache-2.0
"""The innermost part of a product of few rows with a transposed matrix: dot products.

Both operands are read in vectors along k, in place; each sum is one vector whose lanes are added
at the end. The counterpart of `microkernel` where k is the axis of stride one in both operands.

Invariant: the order of additions depends on the lanes and the depth alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value

STRIDES = ("a_row", "b_row", "c_row")


@dataclass(frozen=True, slots=True)
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

    @property
    def name(self) -> str:
        """A name that says all of it: equal names, equal code."""
        strides = "_".join("x" if s is None else str(s) for s in self._strides())
        kind = f"{self.element.suffix}{'f' * self.fma}{'e' * self.is_even}"
        place = "shared_dots" if self.is_shared else "dots"
        return f"{place}_{kind}_{self.rows}x{self.columns}x{self.lanes}_{strides}"

    def _strides(self) -> tuple[int | None, ...]:
        return (self.a_row, self.b_row, self.c_row)

    def call(
        self,
        f: FunctionBuilder,
        pointers: tuple[Value, Value, Value],
        depth: Index,
        strides: tuple[Index, ...],
    ) -> None:
        """Run on A, B, C with `depth` products each."""
        passed = [
            f.as_value(given)
            for given, known in zip(strides, self._strides(), strict=True)
            if known is None
        ]
        f.call(self._reference(f.owner), [*pointers, f.as_value(depth), *passed])

    def _reference(self, module: ModuleBuilder) -> FunctionRef:
        if self.is_shared:
            return module.declare(self.name, lt.VOID, [type_ for _, type_ in self.params])
        return module.helper(self.name, self.define)

    @property
    def params(self) -> list[tuple[str, Type]]:
        """The function's parameters: pointers, the depth, then the strides that are not known."""
        unknown = [n for n, s in zip(STRIDES, self._strides(), strict=True) if s is None]
        params: list[tuple[str, Type]] = [("a", lt.PTR), ("b", lt.PTR), ("c", lt.PTR)]
        return [*params, ("depth", lt.I64), *((name, lt.I64) for name in unknown)]

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define the function in a module."""
        f = module.function(
            self.name, lt.VOID, self.params, linkage=linkage, attrs="nounwind noinline"
        )
        unknown = [name for name, _ in self.params[4:]]
        given = dict(zip(unknown, f.params[4:], strict=True))
        known = dict(zip(STRIDES, self._strides(), strict=True))
        self._emit(f, {n: given[n] if step is None else step for n, step in known.items()})
        return f.reference

    def _emit(self, f: FunctionBuilder, strides: dict[str, Index]) -> None:
        a, b, c, depth = f.params[:4]
        wide = vector(self.element, self.lanes)
        a_rows = [f.gep(a, f.imul(strides["a_row"], i), self.element) for i in range(self.rows)]
        b_rows = [f.gep(b, f.imul(strides["b_row"], i), self.element) for i in range(self.columns)]

        def load(start: Value, k: Index, mask: Value | None) -> Value:
            pointer = f.gep(start, k, self.element)
            if mask is None:
                return f.load(wide, pointer, self.element.alignment)
            return f.masked_load(wide, pointer, mask)

        def step(k: Index, sums: list[Value], mask: Value | None = None) -> list[Value]:
            left = [load(row, k, mask) for row in a_rows]
            found: list[Value] = []
            for start in b_rows:
                right = load(start, k, mask)
                found += [
                    self._product(f, x, right, sums[len(found) + number])
                    for number, x in enumerate(left)
                ]
            return found

        sums = [f.zero(wide)] * (self.rows * self.columns)
        whole = depth if self.is_even else f.imul(f.idiv(depth, self.lanes), self.lanes)
        sums = f.loop(0, whole, self.lanes, sums, step)
        if not self.is_even and self.lanes > 1:
            numbers = f.const(vector(lt.I64, self.lanes), list(range(self.lanes)))
            left = f.as_value(f.isub(depth, whole))
            mask = f.icmp("slt", numbers, f.splat(left, self.lanes))
            before = sums
            sums = f.if_(f.ilt(whole, depth), lambda: step(whole, before, mask), otherwise=before)
        for number, value in enumerate(sums):
            column, row = divmod(number, self.rows)
            where = f.gep(c, f.imul(strides["c_row"], row), self.element)
            f.store(f.reduce("add", value), f.gep(where, column, self.element))
        f.ret()

    def _product(self, f: FunctionBuilder, a: Value, b: Value, total: Value) -> Value:
        if self.element.is_float and self.fma:
            return f.fma(a, b, total)
        return f.add(f.mul(a, b), total)


def shared_dots(element: Type, lanes: int, rows: int, columns: int) -> DotProducts:
    """Return dot products that fit every depth and all steps."""
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
