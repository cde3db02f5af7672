# SPDX-License-Identifier: Apache-2.0
"""`ragged-dot` of many groups as a loop over tiles of rows: `tiled(op, build, module)`.

A tile is some neighbouring rows of one group. A trip slices a tile, multiplies it, and adds the
product to the result, rows of other groups left out. So each row is multiplied once, where one
`dot` of masked operands multiplies it once per group, and groups without rows are not read. A trip
takes the smallest of a few sizes of tiles that holds the rows that are left of its group. Where
factors are in groups, one `dot` makes the products of the first tiles of all groups.

Example:
    f32[6,k] of groups of 5 and 1 rows, tiles of 4 rows
    trips: rows 0-3 of group 0, row 4 of group 0, row 5 of group 1
"""

from __future__ import annotations

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import S32, S64, DType, wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.dots import RaggedDotAttributes
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import size_value
from ingot.passes.expand.scan import counts_to_limit
from ingot.support.records import record

_LEAST_ROWS, _MOST_ROWS, _MOST_FACTORS = 4, 80, 512
"""Rows of a tile; of one of factors, whose products are summed, at most `_MOST_FACTORS`. Packing a
matrix of 512x1024 bf16 takes as long as multiplying 15 rows by it. Of 1024 rows, tiles of 64 took
8.1 and of 128 9.7 (AVX-512, one thread, 2026-11-27)."""
_SHARE_OF_ROWS, _SHARE_OF_FACTORS = 8, 5
"""Quarters of a group's mean rows that a tile has, where rows or factors are in groups."""
_MOST_SIZES = 4
"""Sizes of tiles among which a trip chooses. f32, matrices of 2752x512, 8 groups: 128 rows in
groups of 10 to 23 took 10.1 ms by one size of 20 rows, 8.8 by four up to 32, PyTorch's product of
each group 10.2 to 11.2; 512 rows in groups of 19 to 120 took 20.5 by four sizes that are halves of
each other and 19.7 by equal steps up to 80, PyTorch's 17 to 18. Four sizes compile a fifth longer
than one (CPU time on a busy Intel Xeon with AMX, one thread, 2026-11-30)."""
_WORTH_A_LOOP = 1 << 20
"""Multiplications that masked operands add: below, trips of a loop take as long (40 us)."""


def is_worth_tiles(op: Instruction) -> bool:
    """Whether the products of masked operands take longer than a loop; symbolic sizes count as 128.

    The multiplications of a `dot` are those of the lhs times the free sizes of the rhs.
    """
    lhs, rhs, sizes = (item.shape for item in op.operands)
    given = op.as_(RaggedDotAttributes)
    used = (*given.rhs_batch_dims, *given.rhs_contracting_dims, *given.rhs_group_dims)
    if any(shape.dtype.name == "f8e8m0fnu" for shape in (lhs, rhs)):
        return False  # the type has no zero for rows of other groups
    (groups,) = sizes.dims
    if not isinstance(groups, int):
        return False
    count = groups - 1
    free = [size for dim, size in enumerate(rhs.dims) if dim not in used]
    for size in (*lhs.dims, *free):
        count *= size if isinstance(size, int) else 128
    return count >= _WORTH_A_LOOP


def tiled(op: Instruction, build: Builder, module: Module, limits: Instruction) -> Instruction:
    """Return the loop over tiles.

    Args:
        op: a `ragged-dot` whose ragged dimension is not a batch dimension.
        build: adds to its computation.
        module: gets the loop's computations.
        limits: `s64[groups]`: the sums of sizes up to each group, as they are given.
    """
    given = op.as_(RaggedDotAttributes)
    lhs, rhs = op.operands[:2]
    (ragged,) = given.lhs_ragged_dims
    extent = lhs.shape.dims[ragged]
    along = _RaggedDims.of(op)
    rows = _tile_rows(extent, limits.shape.dims[0], along.result is None)
    if not isinstance(extent, int):  # it may be less than a tile
        lhs = build.pad_along(lhs, ragged, (0, rows, 0))
        rhs = build.pad_along(rhs, along.rhs, (0, rows, 0)) if along.rhs is not None else rhs
    dims = list(op.shape.dims)
    if along.result is not None:
        dims[along.result] = lhs.shape.dims[ragged]
    # A group's sums wait in a wider type than the result's for its last trip.
    narrows = along.result is None and op.shape.dtype is not wider(op.shape.dtype)
    starts, ends = _ranges(build, limits, extent)
    if along.rhs is None:
        result = build.full(0, Shape.array(op.shape.dtype, tuple(dims)))
    else:
        result = _first_products(op, build, (lhs, rhs), (starts, ends), rows)
        behind = build.minimum(build.add(starts, rows), ends)
        if narrows:  # a group with more rows is summed anew, and rounded once
            fits = build.compare(behind, ends, direction="EQ")
            starts = build.select(fits, ends, starts)
        else:
            starts = behind
    bases, tiles = _trips(build, starts, ends, rows, module)
    groups = tiles.shape.dims[0]
    count = build.reshape_to(build.slice_along(tiles, 0, groups - 1, groups), ())
    sums = [build.full(0, Shape.array(wider(op.shape.dtype), tuple(dims[1:])))] if narrows else []
    state = build.tuple(build.constant(0, S64), count, lhs, rhs, bases, ends, tiles, result, *sums)
    loop = build.while_(
        state,
        condition=module.take(counts_to_limit("tiles_condition", state.shape)),
        body=module.take(_body(op, state.shape, along, rows, module)),
    )
    made = build.element_of(loop, state.operands.index(result))
    return build.leading(made, op.shape.dims)


@record
class _RaggedDims:
    """Where the ragged dimension is, beside the lhs: in the rhs or in the result.

    Attributes:
        rhs: the dimension of the rhs that is contracted with it; None where rows are ragged.
        result: the dimension of the result that has its rows; None where it is contracted.
    """

    rhs: int | None
    result: int | None

    @classmethod
    def of(cls, op: Instruction) -> _RaggedDims:
        given = op.as_(RaggedDotAttributes)
        (ragged,) = given.lhs_ragged_dims
        if given.mode() == "contraction":
            number = given.lhs_contracting_dims.index(ragged)
            return cls(given.rhs_contracting_dims[number], None)
        rank = op.operands[0].shape.rank
        return cls(None, (*given.lhs_batch_dims, *given.lhs_free_dims(rank)).index(ragged))


def _tile_rows(extent: int | Dim, groups: int | Dim, sums: bool) -> int:
    """Return the rows of a tile: more than most groups have, at most what there is.

    Many rows are in equal parts, where they are not summed: the first parts of all groups are one
    product then.
    """
    most = _MOST_FACTORS if sums else _MOST_ROWS
    if not isinstance(extent, int) or not isinstance(groups, int):
        return _MOST_ROWS
    quarters = _SHARE_OF_FACTORS if sums else _SHARE_OF_ROWS
    wanted = max(-(-quarters * extent // (4 * groups)), _LEAST_ROWS)
    return min(extent, most if sums and wanted > most else ceil_div(wanted, ceil_div(wanted, most)))


def _ranges(
    build: Builder, limits: Instruction, extent: int | Dim
) -> tuple[Instruction, Instruction]:
    """Return for each group where it begins and ends."""
    most = build.convert_to(size_value(build, extent), S64)
    ends = build.clamp(
        build.full(0, limits.shape), limits, build.broadcast_to(most, limits.shape.dims)
    )
    return _shifted(build, ends), ends


def _trips(
    build: Builder, starts: Instruction, ends: Instruction, rows: int, module: Module
) -> tuple[Instruction, Instruction]:
    """Return for each group where trip 0 would begin, and the tiles up to its end."""
    count = build.maximum(build.subtract(ends, starts), 0)
    tiles = build.divide(build.add(count, rows - 1), rows)
    tiles = running_sums(tiles, build, module)
    return build.subtract(starts, build.multiply(_shifted(build, tiles), rows)), tiles


def _first_products(
    op: Instruction,
    build: Builder,
    factors: tuple[Instruction, Instruction],
    limits: tuple[Instruction, Instruction],
    rows: int,
) -> Instruction:
    """Return the products of the first tiles of all groups: one `dot` with a batch of groups.

    A trip of the loop reads and writes a group's product. Most groups have one tile, and this
    writes their products once.
    """
    given = op.as_(RaggedDotAttributes)
    (groups,) = limits[0].shape.dims
    shape = Shape.array(S64, (groups, rows))
    row = build.add(
        build.broadcast_to(limits[0], shape.dims, (0,)), build.iota(shape=shape, iota_dimension=1)
    )
    is_own = build.compare(row, build.broadcast_to(limits[1], shape.dims, (0,)), direction="LT")
    along = _RaggedDims.of(op)
    assert along.rhs is not None
    (ragged,) = given.lhs_ragged_dims
    tiles = list[Instruction]()
    for factor, dim in zip(factors, (ragged, along.rhs), strict=True):
        rank = factor.shape.rank
        tile = build.gather(
            factor,
            row,
            offset_dims=tuple(range(2, rank + 1)),
            collapsed_slice_dims=(dim,),
            start_index_map=(dim,),
            index_vector_dim=2,
            slice_sizes=factor.shape.with_dim(dim, 1).dims,
        )
        mask = build.broadcast_to(is_own, tile.shape.dims, (0, 1))
        tiles.append(build.select(mask, tile, 0))
    numbers = {
        name: tuple(_moved(at, dim) for at in getattr(given, name))
        for side, dim in (("lhs", ragged), ("rhs", along.rhs))
        for name in (f"{side}_batch_dims", f"{side}_contracting_dims")
    }
    return build.dot(
        *tiles,
        shape=op.shape,
        operand_precision=given.operand_precision,
        lhs_batch_dims=(0, *numbers["lhs_batch_dims"]),
        lhs_contracting_dims=numbers["lhs_contracting_dims"],
        rhs_batch_dims=(0, *numbers["rhs_batch_dims"]),
        rhs_contracting_dims=numbers["rhs_contracting_dims"],
    )


def _moved(dim: int, ragged: int) -> int:
    """Return where a dimension is in the tiles of all groups, after the groups and the rows."""
    return 1 if dim == ragged else dim + 1 + (dim < ragged)


def _shifted(build: Builder, values: Instruction) -> Instruction:
    """Return for each group the value of the one before it; 0 for the first."""
    return build.pad(values, 0, padding=((1, -1, 0),))


def running_sums(sizes: Instruction, build: Builder, module: Module) -> Instruction:
    """Return the sum of the sizes up to each group, `s64[groups]`: a sum over a triangle."""
    (groups,) = sizes.shape.dims
    square = Shape.array(S64, (groups, groups))
    row, column = (build.iota(shape=square, iota_dimension=dim) for dim in (0, 1))
    counted = build.compare(column, row, direction="LE")
    values = build.select(counted, build.broadcast_to(sizes, square.dims, (1,)), 0)
    add = module.take(scalar_computation("add", S64))
    return build.reduce(values, 0, dimensions=(1,), to_apply=add)


def _body(
    op: Instruction, state: Shape, along: _RaggedDims, rows: int, module: Module
) -> Computation:
    given = op.as_(RaggedDotAttributes)
    (ragged,) = given.lhs_ragged_dims
    b = Builder("tile")
    values = b.parameter(0, state)
    trip, count, lhs, rhs, bases, ends, tiles, result, *sums = b.elements_of(values)
    # The group of a trip is the first one with more tiles up to its end.
    done = b.compare(tiles, b.broadcast_to(trip, tiles.shape.dims), direction="LE")
    add = module.take(scalar_computation("add", S64))
    group = b.reduce(b.convert_to(done, S64), b.constant(0, S64), dimensions=(0,), to_apply=add)
    start = b.add(_item(b, bases, group), b.multiply(trip, rows))
    end = _item(b, ends, group)
    if along.result is None:
        assert along.rhs is not None
        tile = _Tile(b, start, end, lhs.shape.dims[ragged], rows)
        own, theirs = tile.own(lhs, ragged), tile.own(rhs, along.rhs)
        product = _product(op, b, own, theirs, wider(op.shape.dtype))
        dims = product.shape.dims
        if sums:
            is_first = b.compare(trip, _item(b, _shifted(b, tiles), group), direction="EQ")
            before = b.select(b.broadcast_to(is_first, dims), 0, sums[0])
        else:
            before = b.reshape_to(b.slice_at(result, 0, group, 1), dims)
        total = b.add(before, product)
        sums = [total for _ in sums]
        total, at = b.reshape_to(total, (1, *dims)), (0, group)
        result = b.update_at(result, b.convert_to(total, result.shape.dtype), *at)
    else:
        given_parts = b.tuple(lhs, rhs, result, group, start, end)
        counts = _tile_sizes(rows, isinstance(lhs.shape.dims[ragged], int))
        left = b.subtract(end, start)
        index = b.constant(0, S32)
        for fewer in counts[:-1]:
            is_more = b.compare(left, fewer, direction="GT")
            index = b.add(index, b.convert_to(is_more, S32))
        branches = [
            module.take(_branch(op, given_parts.shape, along.result, fewer)) for fewer in counts
        ]
        result = b.conditional(
            index, *[given_parts] * len(branches), branch_computations=tuple(branches)
        )
    return b.build(b.tuple(b.add(trip, 1), count, lhs, rhs, bases, ends, tiles, result, *sums))


def _branch(op: Instruction, state: Shape, at: int, rows: int) -> Computation:
    """Return the computation that adds the product of one tile of rows to the result."""
    given = op.as_(RaggedDotAttributes)
    (ragged,), (dim,) = given.lhs_ragged_dims, given.rhs_group_dims
    b = Builder(f"rows_{rows}")
    lhs, rhs, result, group, start, end = b.elements_of(b.parameter(0, state))
    tile = _Tile(b, start, end, lhs.shape.dims[ragged], rows)
    one, element = b.slice_at(rhs, dim, group, 1), wider(op.shape.dtype)
    product = tile.masked(_product(op, b, tile.of(lhs, ragged), one, element), at)
    total = b.add(b.convert_to(tile.of(result, at), element), product)
    return b.build(b.update_at(result, b.convert_to(total, result.shape.dtype), at, tile.first))


def _tile_sizes(rows: int, is_known: bool) -> list[int]:
    """Return the rows that tiles may have, ascending: equal steps, or halves of unknown rows."""
    if not is_known:
        return [rows >> shift for shift in reversed(range(_MOST_SIZES))]
    step = max(ceil_div(rows, _MOST_SIZES), _LEAST_ROWS)
    return [*range(step, rows, step), rows]


class _Tile:
    """The rows of one trip: a tile of rows from `start`, those before `end`.

    A slice that would leave the array begins earlier, at `first`.
    """

    def __init__(
        self, b: Builder, start: Instruction, end: Instruction, extent: int | Dim, rows: int
    ) -> None:
        last = b.subtract(b.convert_to(size_value(b, extent), S64), rows)
        self._b, self._start, self._end, self._rows = b, start, end, rows
        self.first = b.minimum(start, last)

    def of(self, x: Instruction, dim: int) -> Instruction:
        """Return the tile of an array along one of its dimensions."""
        return self._b.slice_at(x, dim, self.first, self._rows)

    def own(self, x: Instruction, dim: int) -> Instruction:
        """Return the tile of an array, zero where rows are not those of the trip."""
        return self.masked(self.of(x, dim), dim)

    def masked(self, x: Instruction, dim: int) -> Instruction:
        """Return an array of the tile's rows, zero where rows are not those of the trip."""
        b = self._b
        shape = x.shape.with_dtype(S64)
        row = b.add(b.iota(shape=shape, iota_dimension=dim), b.broadcast_to(self.first, shape.dims))
        after = b.compare(row, b.broadcast_to(self._start, shape.dims), direction="GE")
        before = b.compare(row, b.broadcast_to(self._end, shape.dims), direction="LT")
        return b.select(b.and_(after, before), x, 0)


def _product(
    op: Instruction, b: Builder, lhs: Instruction, rhs: Instruction, element: DType
) -> Instruction:
    """Return the dot of a tile; the rhs has its dimension of groups, of size 1, or none."""
    given = op.as_(RaggedDotAttributes)
    batch, contracting = given.rhs_batch_dims, given.rhs_contracting_dims
    for group in given.rhs_group_dims:
        dims = rhs.shape.dims
        rhs = b.reshape_to(rhs, (*dims[:group], *dims[group + 1 :]))
        batch = tuple(dim - (dim > group) for dim in batch)
        contracting = tuple(dim - (dim > group) for dim in contracting)
    plain = DotAttributes(given.lhs_batch_dims, given.lhs_contracting_dims, batch, contracting)
    dims = (
        *(lhs.shape.dims[dim] for dim in given.lhs_batch_dims),
        *(lhs.shape.dims[dim] for dim in plain.lhs_free_dims(lhs.shape.rank)),
        *(rhs.shape.dims[dim] for dim in plain.rhs_free_dims(rhs.shape.rank)),
    )
    return b.dot(
        lhs, rhs, shape=Shape.array(element, dims), operand_precision=given.operand_precision,
        lhs_batch_dims=given.lhs_batch_dims, lhs_contracting_dims=given.lhs_contracting_dims,
        rhs_batch_dims=batch, rhs_contracting_dims=contracting,
    )  # fmt: skip


def _item(b: Builder, values: Instruction, index: Instruction) -> Instruction:
    return b.reshape_to(b.slice_at(values, 0, index, 1), ())
