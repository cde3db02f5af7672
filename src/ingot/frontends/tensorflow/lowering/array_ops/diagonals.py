# SPDX-License-Identifier: Apache-2.0
"""Diagonals of matrices, one-hot rows, bands and triangles.

A diagonal is chosen by comparing iotas, which fuses into whatever uses it. Only the alignments of
the `MatrixDiag*` V3 ops differ; see `_Band`. Source: TensorFlow's `kernels/matrix_diag_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.hlo.dim import maximum, minimum
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.support.records import record


def _on_diagonal(b: TensorBuilder, dims: Sizes, first: int, second: int) -> Instruction:
    return b.compare(b.iota_of(S64, dims, first), b.iota_of(S64, dims, second), direction="EQ")


def _diag(op: Op) -> Value:
    """`[d...]` to `[d..., d...]`."""
    x = op.tensor(0)
    b, rank = op.b, x.shape.rank
    dims = (*x.shape.dims, *x.shape.dims)
    spread = b.spread(x, dims, tuple(range(rank)))
    for axis in range(rank):
        spread = b.select(_on_diagonal(b, dims, axis, axis + rank), spread, b.zeros(spread.shape))
    return spread


def _diag_part(op: Op) -> Value:
    x = op.tensor(0)
    b, rank = op.b, x.shape.rank // 2
    for axis in range(rank):
        if not b.same(x.shape.dims[axis], x.shape.dims[axis + rank]):
            raise op.error(f"shape {list(x.shape.dims)} has no diagonal")
        x = b.select(_on_diagonal(b, x.shape.dims, axis, axis + rank), x, b.zeros(x.shape))
    return b.reduced("add", x, tuple(range(rank, 2 * rank)))


def _band_part(op: Op) -> Value:
    """Keep `lower` diagonals below and `upper` above, of those that there are; negative: all."""
    x, b = op.tensor(0), op.b
    dims = x.shape.dims
    row, column = b.iota_of(S64, dims, len(dims) - 2), b.iota_of(S64, dims, len(dims) - 1)
    keep = b.like(True, x.shape.with_dtype("pred"))
    sides = (
        (1, b.subtract(row, column), "num_lower", "rows", dims[-2]),
        (2, b.subtract(column, row), "num_upper", "columns", dims[-1]),
    )
    for operand, gap, name, what, size in sides:
        limit = b.convert_to(op.tensor(operand), S64)
        text = f"{name} must be negative or less or equal to number of {what} ({size})"
        assert_everywhere(b, b.compared("LE", limit, b.size(size)), text)
        inside = b.compared("LE", gap, limit)
        every = b.spread(b.compared("LT", limit, 0), dims)
        keep = b.and_(keep, b.or_(inside, every))
    return b.select(keep, x, b.zeros(x.shape))


def _one_hot(op: Op) -> Value:
    b = op.b
    indices = op.tensor(0)
    depth = op.size(1, "depth")
    on, off = op.tensor(2), op.tensor(3)
    rank = indices.shape.rank
    axis = op.axis_of(int(op.attribute("axis", -1)), rank + 1)
    dims = (*indices.shape.dims[:axis], depth, *indices.shape.dims[axis:])
    axes = tuple(dimension for dimension in range(rank + 1) if dimension != axis)
    classes = b.iota_of(indices.shape.dtype, dims, axis)
    chosen = b.compare(b.spread(indices, dims, axes), classes, direction="EQ")
    return b.select(chosen, b.spread(on, dims), b.spread(off, dims))


@record
class _Band:
    """Diagonals `low..high` of `[rows, columns]` matrices, packed as rows of `[count, longest]`.

    Row m of the packed form is diagonal `high - m`. A diagonal shorter than the longest stands at
    the left or right of its row as the alignment says for it ("LEFT_RIGHT": superdiagonals left).
    """

    low: int
    high: int
    rows: Size
    columns: Size
    align: str

    @property
    def longest(self) -> Size:
        """Length of the longest diagonal of the band."""
        return minimum(self.rows + min(self.high, 0), self.columns - max(self.low, 0))

    def length(self, diagonal: int) -> Size:
        """Length of one diagonal."""
        if self.low == self.high:
            return self.longest
        return maximum(0, minimum(self.rows + min(diagonal, 0), self.columns - max(diagonal, 0)))

    def offset(self, diagonal: int) -> Size:
        """Where the diagonal's first element stands in its packed row."""
        above, _, below = self.align.partition("_")
        side = above if diagonal >= 0 else below
        return self.longest - self.length(diagonal) if side == "RIGHT" else 0


def _limits(op: Op, number: int) -> tuple[int, int]:
    found = op.integers(number, "diagonal index")
    return found[0], found[-1]


def _packed(b: TensorBuilder, x: Instruction, band: _Band, fill: Instruction) -> Instruction:
    """Return `[..., count, longest]` of `[..., rows, columns]`."""
    outer = x.shape.dims[:-2]
    parts: list[Instruction] = []
    for diagonal in range(band.high, band.low - 1, -1):
        row, column = max(-diagonal, 0), max(diagonal, 0)
        length, rank = band.length(diagonal), x.shape.rank
        block = b.sliced(
            b.sliced(x, rank - 2, row, row + length), rank - 1, column, column + length
        )
        on = _on_diagonal(b, block.shape.dims, rank - 2, rank - 1)
        zero = b.zeros(block.shape)
        line = b.reduced("add", b.select(on, block, zero), (rank - 1,))
        before = band.offset(diagonal)
        line = b.padded(line, rank - 2, before, band.longest - length - before, fill)
        parts.append(b.reshape_to(line, (*outer, 1, band.longest)))
    return b.concatenated(parts, len(outer))


def _unpacked(b: TensorBuilder, packed: Instruction, band: _Band, into: Instruction) -> Instruction:
    """Return `into` (`[..., rows, columns]`) with the band's diagonals from their packed form."""
    dims = into.shape.dims
    rank = len(dims)
    outer = tuple(range(rank - 2))
    gap = b.subtract(b.iota_of(S64, dims, rank - 1), b.iota_of(S64, dims, rank - 2))
    for number, diagonal in enumerate(range(band.high, band.low - 1, -1)):
        start, length = band.offset(diagonal), band.length(diagonal)
        line = b.sliced(
            b.sliced(packed, rank - 2, number, number + 1), rank - 1, start, start + length
        )
        line = b.reshape_to(line, (*dims[:-2], length))
        # An element of the diagonal is at its own column, `max(diagonal, 0)` after its index.
        before = max(diagonal, 0)
        columns = b.padded(
            line, rank - 2, before, band.columns - length - before, b.constant(0, line.shape.dtype)
        )
        on = b.compared("EQ", gap, diagonal)
        into = b.select(on, b.spread(columns, dims, (*outer, rank - 1)), into)
    return into


def _diag_part_of(op: Op, low: int, high: int, fill: Instruction | None, align: str) -> Value:
    x, b = op.tensor(0), op.b
    rows, columns = x.shape.dims[-2:]
    band = _Band(low, high, rows, columns, align)
    value = b.constant(0, x.shape.dtype) if fill is None else fill
    made = _packed(b, x, band, value)
    if low == high:
        return b.reshape_to(made, (*x.shape.dims[:-2], band.longest))
    return made


def _matrix_diag_part(op: Op) -> Value:
    return _diag_part_of(op, 0, 0, None, "LEFT_LEFT")


def _matrix_diag_part_v2(op: Op) -> Value:
    align = str(op.attribute("align", "LEFT_LEFT"))
    return _diag_part_of(op, *_limits(op, 1), op.tensor(2), align)


def _matrix_set_diag(op: Op) -> Value:
    x, line, b = op.tensor(0), op.tensor(1), op.b
    low, high = _limits(op, 2) if len(op) > 2 else (0, 0)
    rows, columns = x.shape.dims[-2:]
    band = _Band(low, high, rows, columns, str(op.attribute("align", "LEFT_LEFT")))
    packed = b.reshape_to(line, (*x.shape.dims[:-2], high - low + 1, band.longest))
    return _unpacked(b, packed, band, x)


def _matrix_diag(op: Op) -> Value:
    line, b = op.tensor(0), op.b
    *outer, length = line.shape.dims
    dims = (*outer, length, length)
    spread = b.spread(line, dims, (*range(len(outer)), len(outer) + 1))
    return b.select(
        _on_diagonal(b, dims, len(outer), len(outer) + 1), spread, b.zeros(spread.shape)
    )


def _matrix_diag_v2(op: Op) -> Value:
    """diagonal, k, num_rows, num_cols, padding_value: -1 for a size that follows from the rest."""
    line, b = op.tensor(0), op.b
    low, high = _limits(op, 1)
    rows = op.size(2, "number of rows", least=-1)
    columns = op.size(3, "number of columns", least=-1)
    longest = line.shape.dims[-1]
    least_rows, least_columns = longest - min(high, 0), longest + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = maximum(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    outer = line.shape.dims[:-1] if low == high else line.shape.dims[:-2]
    band = _Band(low, high, rows, columns, str(op.attribute("align", "LEFT_LEFT")))
    into = b.spread(op.tensor(4), (*outer, rows, columns))
    packed = b.reshape_to(line, (*outer, high - low + 1, longest))
    return _unpacked(b, packed, band, into)


def _cross(op: Op) -> Value:
    """Cross product of 3-vectors in the last dimension."""
    b = op.b
    x, y = op.tensor(0), op.tensor(1)
    axis = x.shape.rank - 1
    if not b.same(x.shape.dims[axis], 3):
        raise op.mismatch(0, 1)

    def part(value: Instruction, number: int) -> Instruction:
        return b.sliced(value, axis, number % 3, number % 3 + 1)

    parts = [
        b.subtract(
            b.multiply(part(x, n + 1), part(y, n + 2)), b.multiply(part(x, n + 2), part(y, n + 1))
        )
        for n in range(3)
    ]
    return b.concatenated(parts, axis)


RULES: dict[str, Rule] = {
    "Cross": _cross,
    "Diag": _diag,
    "DiagPart": _diag_part,
    "MatrixBandPart": _band_part,
    "MatrixDiag": _matrix_diag,
    "MatrixDiagPart": _matrix_diag_part,
    "MatrixDiagPartV2": _matrix_diag_part_v2,
    "MatrixDiagPartV3": _matrix_diag_part_v2,
    "MatrixDiagV2": _matrix_diag_v2,
    "MatrixDiagV3": _matrix_diag_v2,
    "MatrixSetDiag": _matrix_set_diag,
    "MatrixSetDiagV2": _matrix_set_diag,
    "MatrixSetDiagV3": _matrix_set_diag,
    "OneHot": _one_hot,
}
