# SPDX-License-Identifier: Apache-2.0
"""The operands of a contraction: which buffer each reads, from where, in which steps.

The first question of `kernel.product.product`. An operand of a plain product lies in memory
with a constant step along each axis. It may begin inside its buffer, at an element that is known
only at run time: an expert's weights are a dynamic slice of the weights of all (`Operand.first`).
Its type is that of the sums, or one that packing converts: a `convert` of the loaded element,
possibly through a type between the two that holds all of its values. Pairs of 16-bit factors
(`PAIRS`) and four bytes (`QUADS`) are multiplied and added by one instruction. That is exact for
integers; for bf16 it rounds each sum as one product at a time would.

Invariant: a product of no rows, columns or depth is not plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    DType,
)
from ingot.kernel.contraction.operands import MASKED_BITS, has_masks, oriented, stride
from ingot.kernel.expr import Access, Expr, axis_names, make
from ingot.kernel.ir import Axis, ContractionKernel
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record, replace

CELLS: Mapping[DType, DType] = {
    F32: F32, F64: F64, C64: C64, C128: C128,
    S8: S8, S16: S16, S32: S32, S64: S64, U8: S8, U16: S16, U32: S32, U64: S64,
}  # fmt: skip
"""Types of sums, and what drivers know them as: sums wrap around, so signs do not matter."""

PAIRS: Mapping[DType, tuple[DType, ...]] = {S32: (S8, U8, S16), F32: (BF16,)}
"""Types of operands whose factors are multiplied in pairs, by the type of the sums."""

QUADS: Mapping[DType, tuple[DType, ...]] = {S32: (S8, U8)}
"""Those whose factors are multiplied four at a time, where the target has an instruction for it."""


@record
class Operand:
    """An operand of a plain product.

    Attributes:
        buffer: its number.
        dtype: type of its elements in memory, as drivers know it.
        batch: step from matrix to matrix.
        free: step along the axis that the result keeps.
        inner: step along k.
        first: index of its first element in the buffer, None if that is 0.
    """

    buffer: int
    dtype: DType
    batch: int
    free: int
    inner: int
    first: Expr | None = None


@record
class PlainOperands:
    """The operands of a plain product.

    Attributes:
        kernel: the kernel, transposed so that lanes have columns to run along. Its operands begin
            with their buffers: where they do begin makes no difference to a schedule.
        lhs, rhs: the operands.
        cell: type of the sums, as drivers know it.
        sizes: rows, columns, depth.
    """

    kernel: ContractionKernel
    lhs: Operand
    rhs: Operand
    cell: DType
    sizes: tuple[int, int, int]

    @property
    def are_cells(self) -> bool:
        """Whether both operands are read as they lie in memory."""
        return self.lhs.dtype is self.rhs.dtype is self.cell and not self.cell.is_complex

    def converts_in_place(self, vectors: Vectors) -> bool:
        """Whether dot products may convert operands as they read them.

        Their rows end under masks, or hold a vector at least.
        """
        if self.cell.is_complex:
            return False
        narrowest = min(self.lhs.dtype.bits, self.rhs.dtype.bits)
        whole = vectors.lanes(self.cell.bits, 1) * self.factors(vectors)
        return has_masks(narrowest, vectors.bits) or self.sizes[2] >= whole

    @property
    def word_factors(self) -> int:
        """How many factors a word of both operands can hold, 1 if they are not of such types."""
        types = (self.lhs.dtype, self.rhs.dtype)
        for factors, table in ((4, QUADS), (2, PAIRS)):
            if all(dtype in table.get(self.cell, ()) for dtype in types):
                return factors
        return 1

    def factors(self, vectors: Vectors) -> int:
        """Return how many factors of packed words one instruction multiplies, 1 without words."""
        if self.are_cells:
            return 1
        factors = self.word_factors
        if factors == 4 and not vectors.has_byte_quads:
            return 2
        has_pairs = vectors.has_bf16_pairs or self.cell is not F32
        return factors if has_pairs else 1


def plain_operands(kernel: ContractionKernel, vectors: Vectors) -> PlainOperands | str:
    """Return what a plain product reads, or why the contraction is none."""
    cell = CELLS.get(kernel.accumulate)
    if kernel.symbols:
        return "it has symbolic sizes"
    if kernel.patches is not None:
        return "it is a convolution"
    if cell is None or (cell.bits < MASKED_BITS and not has_masks(cell.bits, vectors.bits)):
        return f"no driver sums in {kernel.accumulate} on this target"
    if kernel.n.extent == 1 and kernel.m.extent != 1:
        kernel = oriented(kernel)
    sizes = tuple(
        axis.extent for axis in (kernel.m, kernel.n, kernel.k) if isinstance(axis.extent, int)
    )
    batch = kernel.batch.extent
    if len(sizes) < len("mnk") or min(sizes) < 1 or not isinstance(batch, int) or batch < 1:
        return "it has symbolic or empty sizes"
    lhs, rhs = _operand(kernel, kernel.lhs, kernel.m), _operand(kernel, kernel.rhs, kernel.n)
    if lhs is None or rhs is None:
        return "an operand is computed, or does not lie in memory with constant steps"
    kernel = replace(
        kernel,
        lhs=_from_start(kernel.lhs, lhs, (kernel.batch, kernel.m, kernel.k)),
        rhs=_from_start(kernel.rhs, rhs, (kernel.batch, kernel.n, kernel.k)),
    )
    return PlainOperands(kernel, lhs, rhs, cell, (sizes[0], sizes[1], sizes[2]))


def _from_start(operand: Expr, found: Operand, axes: tuple[Axis, Axis, Axis]) -> Expr:
    """Return an operand as it would be if it began with its buffer."""
    if found.first is None:
        return operand
    types: list[DType] = []
    while operand.op == "convert":
        types.append(operand.dtype)
        (operand,) = operand.args
    steps = (found.batch, found.free, found.inner)
    made = make("load", operand.dtype, (), Access(found.buffer, linear(axes, steps)))
    for dtype in reversed(types):
        made = make("convert", dtype, (made,))
    return made


def _operand(kernel: ContractionKernel, operand: Expr, free: Axis) -> Operand | None:
    while operand.op == "convert" and _is_exact(operand, kernel.accumulate):
        (operand,) = operand.args
    if operand.op != "load" or not _is_converted(operand.dtype, kernel.accumulate):
        return None
    access: Access = operand.payload
    axes = (kernel.batch, free, kernel.k)
    steps = _steps(access.index, axes)
    if steps is None or access.masked or any(arg.axes for arg in operand.args):
        return None
    first = access.index - linear(axes, steps)
    if axis_names(first):
        return None
    element = CELLS.get(operand.dtype, operand.dtype)
    # A sum of another type extends an operand by its sign.
    dtype = element if element is CELLS[kernel.accumulate] else operand.dtype
    begins = None if first == 0 else make("index", S64, operand.args, first)
    return Operand(access.buffer, dtype, *steps, begins)


def _is_exact(operand: Expr, accumulate: DType) -> bool:
    """Whether an operand's source gives the same factors if it is converted directly."""
    if operand.dtype is accumulate:
        return True
    # Floats of 16 bits hold all bytes.
    (source,) = operand.args
    return accumulate.is_float and operand.dtype in (BF16, F16) and source.dtype in (S8, U8)


def _is_converted(dtype: DType, accumulate: DType) -> bool:
    """Whether signed sums give the bits of unsigned ones if elements of `dtype` are converted."""
    if dtype.is_complex or accumulate.is_complex:
        return dtype is accumulate
    return accumulate.is_float or accumulate.is_signed or not dtype.is_float


def _steps(where: int | Dim, axes: tuple[Axis, Axis, Axis]) -> tuple[int, int, int] | None:
    """Return the steps of an index along axes, None where one is not constant."""
    found = tuple(stride(where, axis.name) for axis in axes)
    numbers = tuple(step for step in found if isinstance(step, int))
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == len(axes) else None


def linear(axes: tuple[Axis, ...], steps: tuple[int, ...]) -> int | Dim:
    """Return the index that has these steps along axes, and no offset."""
    total: int | Dim = 0
    for axis, step in zip(axes, steps, strict=True):
        if axis.extent != 1 and step:
            total = total + Dim.symbol(axis.name) * step
    return total


def result_steps(kernel: ContractionKernel) -> tuple[int, int] | None:
    """Return the steps of a result along batch and rows, None unless its rows are dense."""
    index = kernel.stores[0].index
    axes = (kernel.batch, kernel.m, kernel.n)
    steps = _steps(index, axes)
    if steps is None or index != linear(axes, steps):
        return None
    return steps[:2] if steps[2] == 1 or kernel.n.extent == 1 else None
