# SPDX-License-Identifier: Apache-2.0
"""LAPACK calls on batches of tiny matrices, written out with the batch in lanes.

`getrf`, `potrf` and `trsm` of matrices with a few rows are some dozens of operations each, less
than the call of a routine takes. Their elements become arrays over the batch, and the operations
kernels over it. Likewise many right-hand sides that one triangular matrix is solved for. Runs
behind `custom-call-layouts`: a matrix lies column by column.

Invariant: pivots, `info` and stored values are those of LAPACK; rounding is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.semantics.custom_calls import config_text, whole_batch
from ingot.support.records import record
from ingot.support.regex import regex

MOST_ROWS, LEAST_MATRICES = 4, 32
"""Rows of matrices at most: the operations of five are more than a kernel holds. Matrices of a
batch at least."""

MOST_SOLVED, LEAST_SIDES = 8, 512
"""Rows of one triangular matrix at most, right-hand sides at least: 8x4000 take 0.12 of the time,
4000x8 0.42, 2x4000 0.46, 100 of them 0.6 to 1. To compile 8 rows takes 0.2 s, 16 rows 0.4 s, the
call of a routine 0.03 s (AVX-512, one thread, 2026-11-29)."""

_TARGET = regex(r"lapack_[sd](\w+)_ffi")
_CHARACTER = regex(r"(\w+) = (\d+) : ui8")

Elements = list[list[Instruction]]
"""Rows of elements, each an array whose last dimension is the batch."""


class _Batch:
    """Adds operations on arrays over a batch."""

    def __init__(self, call: Instruction, build: Builder) -> None:
        self.build = build
        self.call = call
        self.count = math.prod(call.operands[0].shape.static_dims[:-2])
        self.characters = {name: chr(int(c)) for name, c in _CHARACTER.findall(config_text(call))}

    def columns(self, matrix: Instruction) -> Instruction:
        """Return [columns, rows, batch]."""
        build, (columns, rows) = self.build, matrix.shape.dims[-2:]
        flat = build.reshape_to(matrix, (self.count, columns, rows))
        return build.transpose(flat, dimensions=(1, 2, 0))

    def part(self, array: Instruction, *index: int | None) -> Instruction:
        """Return the part at some positions of the leading dimensions; None: all of one."""
        build, dims = self.build, array.shape.dims
        wanted = (*index, *[None] * (len(dims) - len(index)))
        pairs = list(zip(wanted, dims, strict=True))
        box = tuple((0, size, 1) if at is None else (at, at + 1, 1) for at, size in pairs)
        kept = tuple(size for at, size in pairs if at is None)
        return build.reshape_to(build.slice(array, slice=box), kept)

    def elements(self, matrix: Instruction) -> Elements:
        """Return the elements of square matrices."""
        lying, size = self.columns(matrix), matrix.shape.static_dims[-1]
        return [[self.part(lying, j, i) for j in range(size)] for i in range(size)]

    def joined(self, parts: Sequence[Instruction]) -> Instruction:
        """Return arrays behind each other along a new first dimension."""
        build = self.build
        lifted = [build.reshape_to(part, (1, *part.shape.dims)) for part in parts]
        return build.concatenate(*lifted, dimensions=(0,)) if len(lifted) > 1 else lifted[0]

    def stored(self, columns: Instruction, shape: Shape) -> Instruction:
        """Return an array [..., batch] with the batch first, as a result of a shape."""
        rank = columns.shape.rank
        transposed = self.build.transpose(columns, dimensions=(rank - 1, *range(rank - 1)))
        return self.build.reshape_to(transposed, shape.dims)

    def matrix(self, elements: Elements, shape: Shape) -> Instruction:
        """Return square matrices as a result."""
        columns = [self.joined(list(column)) for column in zip(*elements, strict=True)]
        return self.stored(self.joined(columns), shape)

    def less(self, a: Instruction, x: Instruction, y: Instruction) -> Instruction:
        """Return a - x * y."""
        return self.build.subtract(a, self.build.multiply(x, y))

    def failed(self, info: Instruction, fails: Instruction, step: int) -> Instruction:
        """Return `info` with the number of a step that fails, if none did before."""
        build = self.build
        first = build.and_(fails, build.compare(info, 0, direction="EQ"))
        return build.select(first, step + 1, info)

    @property
    def none_failed(self) -> Instruction:
        """`info` before the first step."""
        return self.build.full(0, Shape.array(S32, (self.count,)))


def _getrf(batch: _Batch) -> Instruction:
    """L below U, the rows exchanged (from 1), and the first pivot that is zero."""
    build, (matrix, _, infos) = batch.build, batch.call.shape.elements
    a, info = batch.elements(batch.call.operands[0]), batch.none_failed
    size, rows = len(a), list[Instruction]()
    for k in range(size):
        best, swapped = build.abs(a[k][k]), build.full(k + 1, info.shape)
        for i in range(k + 1, size):
            here = build.abs(a[i][k])
            is_more = build.compare(here, best, direction="GT")
            best = build.select(is_more, here, best)
            swapped = build.select(is_more, i + 1, swapped)
        rows.append(swapped)
        for i in range(k + 1, size):
            moves = build.compare(swapped, i + 1, direction="EQ")
            upper, lower = a[k], a[i]
            a[k] = [build.select(moves, y, x) for x, y in zip(upper, lower, strict=True)]
            a[i] = [build.select(moves, x, y) for x, y in zip(upper, lower, strict=True)]
        pivot = a[k][k]
        is_zero = build.compare(pivot, 0, direction="EQ")
        info = batch.failed(info, is_zero, k)
        for row in a[k + 1 :]:
            row[k] = build.select(is_zero, row[k], build.divide(row[k], pivot))
            for j in range(k + 1, size):
                row[j] = batch.less(row[j], row[k], a[k][j])
    pivots = batch.stored(batch.joined(rows), batch.call.shape.elements[1])
    return build.tuple(batch.matrix(a, matrix), pivots, build.reshape_to(info, infos.dims))


def _potrf(batch: _Batch) -> Instruction:
    """One triangle of the factor, and the first minor that is not positive."""
    build, (matrix, infos) = batch.build, batch.call.shape.elements
    given, info = batch.elements(batch.call.operands[0]), batch.none_failed
    is_lower = batch.characters["uplo"] == "L"
    a = given if is_lower else [list(row) for row in zip(*given, strict=True)]
    for k, row in enumerate(a):
        for j in range(k):
            row[k] = batch.less(row[k], row[j], row[j])
        is_positive = build.compare(row[k], 0, direction="GT")
        info = batch.failed(info, build.not_(is_positive), k)
        row[k] = build.sqrt(row[k])
        for other in a[k + 1 :]:
            for j in range(k):
                other[k] = batch.less(other[k], other[j], row[j])
            other[k] = build.divide(other[k], row[k])
    found = a if is_lower else [list(row) for row in zip(*a, strict=True)]
    return build.tuple(batch.matrix(found, matrix), build.reshape_to(info, infos.dims))


def _trsm(batch: _Batch) -> Instruction:
    """The solution of op(A) X = Y, or of X op(A) = Y."""
    build, characters = batch.build, batch.characters
    t = batch.elements(batch.call.operands[0])
    is_left = characters["side"] == "L"
    turns = (characters["trans_x"] == "N") != is_left
    t = [list(row) for row in zip(*t, strict=True)] if turns else t
    y, size = batch.columns(batch.call.operands[1]), len(t)
    rows = [batch.part(y, None, i) if is_left else batch.part(y, i) for i in range(size)]
    is_lower = (characters["uplo"] == "L") != turns
    order = list(range(size)) if is_lower else list(range(size))[::-1]
    for done, i in enumerate(order):
        for j in order[:done]:
            rows[i] = batch.less(
                rows[i], build.broadcast_to(t[i][j], rows[i].shape.dims, (1,)), rows[j]
            )
        if characters["diag"] == "N":
            rows[i] = build.divide(rows[i], build.broadcast_to(t[i][i], rows[i].shape.dims, (1,)))
    found = batch.joined(rows)
    if is_left:
        found = build.transpose(found, dimensions=(1, 0, 2))
    return batch.stored(found, batch.call.shape)


@record
class _Routine:
    """A routine that is written out.

    Attributes:
        emit: adds its computation.
        operands: how many operands it has.
        results: dimensions of its results behind those of the batch: `n` of a matrix's rows; none
            where there is one result, which is like the last operand.
        characters: its attributes, and what each may be.
    """

    emit: Callable[[_Batch], Instruction]
    operands: int
    results: tuple[str, ...]
    characters: dict[str, str]


_ROUTINES = {
    "getrf": _Routine(_getrf, 1, ("nn", "n", ""), {}),
    "potrf": _Routine(_potrf, 1, ("nn", ""), {"uplo": "LU"}),
    "trsm": _Routine(_trsm, 2, (), {"side": "LR", "uplo": "LU", "trans_x": "NTC", "diag": "NU"}),
}


@expander("small-matrix-expander", "custom-call")
def small_matrix_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Writes out LAPACK calls on batches of tiny matrices."""
    found = _TARGET.fullmatch(op.attributes.custom_call_target)
    routine = _ROUTINES.get(found[1]) if found else None
    if routine is None or len(op.operands) != routine.operands:
        return op
    has_many_sides = routine.emit is _trsm and _has_many_sides(op)
    if not has_many_sides and not _is_small(op):
        return op
    batch = _Batch(op, build)
    return routine.emit(batch) if _is_sound(batch, routine) else op


def _is_small(call: Instruction) -> bool:
    """Whether square matrices have few rows, and there are many of them."""
    matrices, rows = _square_matrices(call)
    return matrices >= LEAST_MATRICES and 0 < rows <= MOST_ROWS


def _has_many_sides(call: Instruction) -> bool:
    """Whether one matrix of few rows is solved for many right-hand sides."""
    matrices, rows = _square_matrices(call)
    size = call.operands[1].shape.size
    if matrices != 1 or not isinstance(size, int):
        return False
    return 0 < rows <= MOST_SOLVED and size >= LEAST_SIDES * rows


def _square_matrices(call: Instruction) -> tuple[int, int]:
    """Return how many square matrices a call has, and their rows; 0 of what is no such.

    Of a batch that devices share all count.
    """
    dims = call.operands[0].shape.dims
    known = [size for size in dims if isinstance(size, int)]
    if len(dims) < len("nn") or len(known) < len(dims) or known[-1] != known[-2]:
        return 0, 0
    return whole_batch(call) or math.prod(known[:-2]), known[-1]


def _is_sound(batch: _Batch, routine: _Routine) -> bool:
    """Whether shapes and attributes are as the routine has them; what runs refuses others."""
    call = batch.call
    if any(batch.characters.get(name, "?") not in of for name, of in routine.characters.items()):
        return False
    *outer, _, size = call.operands[0].shape.dims
    if routine.results:
        wanted = [tuple(outer) + (size,) * len(part) for part in routine.results]
        return call.shape.is_tuple and [e.dims for e in call.shape.elements] == wanted
    given = call.operands[-1].shape.dims
    along = -1 if batch.characters["side"] == "L" else -2
    is_like = not call.shape.is_tuple and call.shape.dims == given
    return is_like and list(given[:-2]) == outer and given[along] == size
