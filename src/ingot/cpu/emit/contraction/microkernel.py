# SPDX-License-Identifier: Apache-2.0
"""The innermost part of a matrix product: a block of sums held in registers.

A micro-kernel is an internal function: C[rows, columns] (+)= A[rows, k] * B[k, columns]. A is read
one element at a time and broadcast; B and C in vectors. Strides known at compile time become
immediate offsets; the others are parameters. Equal micro-kernels of a module are one function;
those of `shared` are compiled once for all modules (`ingot.cpu.library`).

Invariant: each sum adds its products in order of k, one fma (or multiply and add) each, whatever
the block's shape, so that results do not depend on tiling.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.cpu.emit.contraction.block_function import (
    call_block,
    known_strides,
    stride_params,
    strides_text,
)
from ingot.cpu.emit.contraction.words import add_words
from ingot.emit.values.indices import IndexValue
from ingot.hlo.dim import ceil_div
from ingot.kernel.contraction.micro_blocks import EMBEDDING_ROWS, MicroBlock
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.index import Condition, Index
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.memory import TO_L1, TO_L2
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record, replace

UNROLLED = 4
"""Steps along k that the loop makes at once where A is dense along k: its addresses go on once for
all of them. Products of 250 to 500 rows took 8 to 10 % less on a core that two threads share. For
pairs, which take more instructions, it made s8 products 6 % slower."""

MOST_SHARED = 256
"""Micro-kernels of the library that a process remembers."""


@record
class Matrix:
    """Where a block of an operand or result lies; steps are in elements.

    Attributes:
        address: its first element.
        row_step: from m to m (from k to k in the rhs; from n to n if lanes run along k).
        column_step: along the other axis.
        panel_step: step from panel to panel of the rhs, per column.
    """

    address: Value
    row_step: IndexValue
    column_step: IndexValue
    panel_step: IndexValue = 1

    def at(self, address: Value) -> Matrix:
        """Return a block that lies elsewhere in the same matrix."""
        return Matrix(address, self.row_step, self.column_step, self.panel_step)


@record
class MicroKernel:
    """The description of one micro-kernel; strides are in elements, None when they are parameters.

    Attributes:
        element: type of a sum and of every operand element.
        lanes: lanes of a vector.
        block: its sums, and what it does beside their products.
        fma: whether float products are fused with the addition.
        logical: whether elements are 0 or 1 and the product is "and", the sum "or".
        a_row, a_step: steps of A along m and k.
        b_step: step of B along k (1 along n); known where B is a packed panel.
        c_row: step of C along m (1 along n).
        accumulates: whether C may hold sums that go on (a parameter says whether it does).
        whole_vectors: how many leading vectors are whole; the others are masked by `columns`.
        mask_loads: whether masked vectors of B are loaded under the mask.
        mask_stores: whether masked vectors of C are loaded and stored under the mask.
        is_segmented: whether k comes in segments of `depth`: `table[s]` is where segment s of A
            begins, counted in elements from `a`; B goes on from segment to segment.
        taps: products of a segment if A is read in vectors as well, so that each column has
            products of its own: product t of a row reads the row of A t rows behind it; else 0.
        factors: how many factors a word of A and B holds: two of 16 bits, bf16 if sums are floats,
            or four of 8.
        b_signed: whether bytes of B are signed; bytes of A are signed if those of B are not.
        begins_with_sums: whether the first row of B is added to the sums as it is.
    """

    element: Type
    lanes: int
    block: MicroBlock
    fma: bool
    logical: bool
    a_row: int | None
    a_step: int | None
    b_step: int | None
    c_row: int | None
    accumulates: bool
    whole_vectors: int
    mask_loads: bool
    mask_stores: bool
    is_segmented: bool = False
    taps: int = 0
    factors: int = 1
    b_signed: bool = True
    begins_with_sums: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether its code lies in the library, not in the module that calls it."""
        return self.block.is_shared

    @property
    def name(self) -> str:
        """A name that says all of it: equal names, equal code."""
        held = self.block
        masks = f"w{self.whole_vectors}{'l' * self.mask_loads}{'s' * self.mask_stores}"
        kind = f"{self.element.suffix}{'f' * self.fma}{'b' * self.logical}{'a' * self.accumulates}"
        prefix = "shared_micro" if held.is_shared else "micro"
        prefix += "_segments" * self.is_segmented
        prefix += f"_taps{self.taps}" if self.taps else ""
        if self.factors > 1:
            prefix += f"_words{self.factors}{'s' * self.b_signed}{'c' * self.begins_with_sums}"
        prefix += f"_ahead{held.rows_ahead}" if held.rows_ahead else ""
        prefix += f"_tail{held.tail_lanes}" if held.tail_lanes else ""
        prefix += "_next" * held.fetches_next
        prefix += f"_packs{held.packs_to}" if held.packs_to else ""
        shape = f"{held.rows}x{held.vectors}x{self.lanes}"
        return f"{prefix}_{kind}_{shape}_{strides_text(self)}_{masks}"

    @property
    def strides(self) -> dict[str, int | None]:
        """Its strides by name; None: a parameter."""
        a_strides = {"a_row": self.a_row, "a_step": self.a_step}
        return {**a_strides, "b_step": self.b_step, "c_row": self.c_row}

    def call(
        self,
        f: FunctionBuilder,
        matrices: tuple[Matrix, Matrix, Matrix],
        depth: Index,
        accumulate: Condition,
        columns: Index,
    ) -> None:
        """Run on A, B, C: `depth` products; `columns` counts the valid ones of masked vectors."""
        a, b, c = matrices
        strides = (a.row_step, a.column_step, b.row_step, c.row_step)
        args = [
            a.address,
            b.address,
            c.address,
            f.as_value(depth),
            f.as_condition(accumulate),
            f.as_value(columns),
        ]
        call_block(f, self, args, strides)

    @property
    def params(self) -> list[tuple[str, Type]]:
        """The function's parameters: pointers, numbers, then the strides that are not known."""
        params: list[tuple[str, Type]] = [("a", lt.PTR), ("b", lt.PTR), ("c", lt.PTR)]
        params += [("depth", lt.I64), ("accumulate", lt.I1), ("columns", lt.I64)]
        params += stride_params(self)
        params += [("panel", lt.PTR)] * (self.block.packs_to > 0)
        return params + [("table", lt.PTR), ("segments", lt.I64)] * self.is_segmented

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define the function in a module."""
        f = module.function(
            self.name, lt.VOID, self.params, linkage=linkage, attrs="nounwind noinline"
        )
        given = {name: f.params[6 + at] for at, (name, _) in enumerate(self.params[6:])}
        a, b, c, depth, accumulate, columns = f.params[:6]
        Block(self, f, (a, b, c), (self.taps or depth, accumulate, columns), given).emit()
        f.ret()
        return f.reference


def shared(element: Type, lanes: int, block: MicroBlock, *, masked: bool) -> MicroKernel:
    """Return a micro-kernel that fits every product: all strides are parameters.

    `replace` gives it strides that are known, and other variants.

    Args:
        element: the type of operands and sums.
        lanes: elements of a vector.
        block: its sums.
        masked: whether the vectors are masked by the number of columns.
    """
    return MicroKernel(
        element=element,
        lanes=lanes,
        block=block,
        fma=True,
        logical=False,
        a_row=None,
        a_step=None,
        b_step=None,
        c_row=None,
        accumulates=True,
        whole_vectors=0 if masked else block.vectors,
        mask_loads=masked,
        mask_stores=masked,
    )


def on_panels(spec: MicroKernel, columns: int) -> MicroKernel:
    """Return a micro-kernel whose B lies in packed panels of `columns`.

    Panels are whole, whatever lies behind the last column: no mask is needed, nor its register.
    """
    return replace(spec, b_step=columns, mask_loads=False)


GROUP = 4
"""Rows of A that are addressed from one carried address, where their step is not known: if the
first row of each is embedded, which takes an address without an index, `EMBEDDING_ROWS` are."""

EMBEDDED = ((False, False), (True, False), (False, True), (True, True))
"""Whether loads of an element of A are marked invariant and non-temporal, for each vector of B.

LLVM broadcasts by the instruction with the product if each product has a load of its own, and
merges loads with the same marks, which mean nothing here."""


class Block:
    """Emits the work of one micro-kernel where it is wanted."""

    def __init__(
        self,
        spec: MicroKernel,
        f: FunctionBuilder,
        operands: tuple[Value, Value, Value],
        numbers: tuple[Index, Condition, Index],
        given: Mapping[str, Value],
    ) -> None:
        """Emit into `f`: `operands` are A, B, C; `numbers` depth, whether to go on, columns.

        `given` are the steps that `spec` does not know. A known depth is written out.
        """
        self.spec = spec
        self.f = f
        self.factor = lt.I32 if spec.factors > 1 else spec.element
        self.rows, self.vectors = spec.block.rows, spec.block.vectors
        self.lanes = [spec.lanes] * (self.vectors - 1) + [spec.block.tail_lanes or spec.lanes]
        self.a, self.b, self.c = operands
        self.depth, self.accumulate, self.columns = numbers
        self.strides = known_strides(spec, given)
        self.given = given
        self.masks: list[Value | None] = []
        self.group = EMBEDDING_ROWS if spec.block.embeds else GROUP
        if spec.a_row is not None:
            self.group = self.rows

    def emit(self) -> None:
        """Emit the products and what becomes of the sums."""
        f, spec = self.f, self.spec
        self.masks = [self._mask(number) for number in range(self.vectors)]
        may_go_on = self.accumulate if spec.accumulates else False
        sums = f.if_(may_go_on, self._old_sums, self._new_sums)
        b = self.b
        if spec.begins_with_sums:
            row = self._b_vectors(b)
            sums = [f.add(item, row[at % self.vectors]) for at, item in enumerate(sums)]
            b = f.gep(b, self.strides["b_step"], spec.element)
        if spec.is_segmented:
            found = f.loop(0, self.given["segments"], 1, [b, *sums], self._segment)
        else:
            found = self._products(self.a, [b, *sums])
        sums = found[1:]
        for number, value in enumerate(sums):
            row, column = divmod(number, self.vectors)
            mask = self.masks[column] if spec.mask_stores else None
            f.masked_store(value, self._c(row, column), mask, spec.element.alignment)

    def _segment(self, number: Value, carried: list[Value]) -> list[Value]:
        """Emit the products of a segment of k."""
        f = self.f
        offset = f.load(lt.I64, f.gep(self.given["table"], number, lt.I64), 8)
        return self._products(f.gep(self.a, offset, self.spec.element), carried)

    def _products(self, a: Value, carried: list[Value]) -> list[Value]:
        """Emit `depth` products from an address of A on; return where B goes on, and the sums."""
        f, depth = self.f, self.depth
        b, *sums = carried
        if self.spec.taps:
            return self._taps(a, b, sums)
        starts = [self._row(a, row) for row in range(0, self.rows, self.group)]
        if self.spec.block.packs_to:
            starts.append(self.given["panel"])
        found = [b, *starts, *sums]
        if isinstance(depth, int):
            found = self._steps(depth, found)
        else:
            whole: Index = 0
            if self.spec.a_step is not None and self.spec.factors == 1:
                whole = f.imul(f.idiv(depth, UNROLLED), UNROLLED)
                found = f.loop(0, whole, UNROLLED, found, lambda _, at: self._steps(UNROLLED, at))
            found = f.loop(whole, depth, 1, found, lambda _, at: self._steps(1, at))
        return [found[0], *found[1 + len(starts) :]]

    def _taps(self, a: Value, b: Value, sums: list[Value]) -> list[Value]:
        """Emit the products of all taps: a row of A is read once for all that it meets."""
        f, spec = self.f, self.spec
        taps: list[list[Value]] = []
        for _ in range(spec.taps):
            taps.append(self._b_vectors(b))
            b = f.gep(b, self.strides["b_step"], spec.element)
        for number_of_line in range(self.rows + spec.taps - 1):
            line = self._b_vectors(a)
            a = self._row(a, 1)
            for number, tap in enumerate(taps):
                first = (number_of_line - number) * self.vectors
                if 0 <= first < len(sums):
                    for at, (x, y) in enumerate(zip(line, tap, strict=True), first):
                        sums[at] = self._product(x, y, sums[at])
        return [b, *sums]

    def _steps(self, count: int, carried: list[Value]) -> list[Value]:
        """Emit `count` steps along k."""
        for _ in range(count):
            carried = self._step(carried)
        return carried

    def _mask(self, number: int) -> Value | None:
        f, spec = self.f, self.spec
        if number < spec.whole_vectors or not (spec.mask_loads or spec.mask_stores):
            return None
        left = f.trunc(f.as_value(f.isub(self.columns, number * spec.lanes)), lt.I32)
        lanes = self.lanes[number]
        numbers = f.const(vector(lt.I32, lanes), list(range(lanes)))
        return f.icmp("slt", numbers, f.splat(left, lanes))

    def _c(self, row: int, column: int) -> Value:
        f, element = self.f, self.spec.element
        start = f.gep(self.c, f.imul(self.strides["c_row"], row), element)
        return f.gep(start, column * self.spec.lanes, element)

    def _new_sums(self) -> list[Value]:
        """Return zeros; prefetch the block of C that they will be stored to, if any."""
        f, spec = self.f, self.spec
        if self._fetches:
            for row in range(self.rows):
                self._fetch(self._c(row, 0), for_writing=True)
        return [f.zero(vector(spec.element, lanes)) for lanes in self.lanes] * self.rows

    def _old_sums(self) -> list[Value]:
        spec = self.spec
        return [
            self._vector(
                vector(spec.element, lanes),
                self._c(row, column),
                self.masks[column] if spec.mask_stores else None,
            )
            for row in range(self.rows)
            for column, lanes in enumerate(self.lanes)
        ]

    def _vector(self, wide: Type, pointer: Value, mask: Value | None) -> Value:
        return self.f.masked_load(wide, pointer, mask, align=wide.element.alignment)

    def _row(self, a: Value, row: int) -> Value:
        """Return where row `row` of A lies, from the address of row 0 on."""
        return self.f.gep(a, self.f.imul(self.strides["a_row"], row), self.spec.element)

    def _step(self, carried: list[Value]) -> list[Value]:
        """Emit one step along k; addresses are carried, so that nothing multiplies in the loop."""
        f, spec = self.f, self.spec
        groups = ceil_div(self.rows, self.group)
        b_row, starts, sums = carried[0], carried[1 : 1 + groups], carried[1 + groups :]
        b = self._b_vectors(b_row)
        panel: list[Value] = []
        if spec.block.packs_to:
            line, *sums = sums
            for number, value in enumerate(b):
                target = f.gep(line, number * spec.lanes, spec.element)
                f.store(value, target, spec.element.alignment)
            panel = [f.gep(line, spec.block.packs_to, spec.element)]
        found: list[Value] = []
        for row in range(self.rows):
            where = self._row(starts[row // self.group], row % self.group)
            factor = f.load(self.factor, where)
            for number, lanes in enumerate(self.lanes):
                if spec.block.embeds and row % EMBEDDING_ROWS == 0:
                    invariant, apart = EMBEDDED[number]
                    factor = f.load(self.factor, where, invariant=invariant, nontemporal=apart)
                a, total = f.splat(factor, lanes), sums[row * self.vectors + number]
                found.append(self._product(a, b[number], total))
        self._fetch_ahead(b_row)
        if spec.block.fetches_next:
            block = f.imul(self.depth, self.strides["a_step"])
            f.prefetch(f.gep(starts[0], block, spec.element), to=TO_L2)
        after = [f.gep(start, self.strides["a_step"], spec.element) for start in starts]
        return [f.gep(b_row, self.strides["b_step"], spec.element), *after, *panel, *found]

    @property
    def _fetches(self) -> bool:
        """Whether there are enough products to hide prefetches."""
        held = self.spec.block
        is_fetched = held.rows_ahead > 0 or held.fetches_next
        return is_fetched and not isinstance(self.depth, int)

    def _fetch_ahead(self, b_row: Value) -> None:
        """Emit the prefetches of a row of B that later steps multiply."""
        f, spec = self.f, self.spec
        if self._fetches and spec.block.rows_ahead:
            rows = f.imul(self.strides["b_step"], spec.block.rows_ahead)
            self._fetch(f.gep(b_row, rows, spec.element))

    def _fetch(self, row: Value, *, for_writing: bool = False) -> None:
        """Emit the prefetches of a row of the block's width."""
        f, spec = self.f, self.spec
        near = TO_L2 if spec.block.is_far else TO_L1
        for offset in range(0, self.vectors * spec.lanes * spec.element.bytes, LINE_BYTES):
            f.prefetch(f.gep(row, offset, lt.I8), for_writing=for_writing, to=near)

    def _b_vectors(self, row: Value) -> list[Value]:
        """Return a row as vectors, masked as B is."""
        f, spec = self.f, self.spec
        return [
            self._vector(
                vector(self.factor, lanes),
                f.gep(row, number * spec.lanes, spec.element),
                self.masks[number] if spec.mask_loads else None,
            )
            for number, lanes in enumerate(self.lanes)
        ]

    def _product(self, a: Value, b: Value, total: Value) -> Value:
        f, spec = self.f, self.spec
        if spec.factors > 1:
            return add_words(f, (a, b), total, spec.factors, b_signed=spec.b_signed)
        if spec.logical:
            return f.or_(total, f.and_(a, b))
        if spec.element.is_float and spec.fma:
            return f.fma(a, b, total)
        return f.add(f.mul(a, b), total)
