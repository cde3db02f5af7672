# SPDX-License-Identifier: Apache-2.0
"""`ragged-dot` and `scaled-dot` as a `dot`.

`ragged-dot` is one `dot` of masked operands, or a loop (`ragged_tiles`) if it is long. Every row
belongs to one group. With the ragged dimension among the rows, the lhs gets a dimension of groups
in which all rows but the group's own are zero, and that dimension is contracted with the groups of
the rhs. In the contraction, masked lhs times rhs gives each group's product. The mask fuses into
the dot's packing; a zero times an infinity is a NaN that XLA gives too.

`scaled-dot` is a `dot` of the operands times their scales. The scales are spread over their blocks
by broadcasts, which fuse into the dot's packing; products are f32, or bf16's and f16's own width
where operands are wider than that.

Source: xla/hlo/transforms/expanders/ragged_dot_rewriter.cc, xla/service/scaled_dot_rewriter.cc.
"""

from __future__ import annotations

from typing import Any

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, F64, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.dots import RaggedDotAttributes
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.ragged_tiles import is_worth_tiles, running_sums, tiled
from ingot.support.diagnostics import UnsupportedError


@expander("ragged-dot-rewriter", "ragged-dot")
def ragged_dot_rewriter(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `ragged-dot`.

    Raises:
        UnsupportedError: the group sizes are not a vector.
    """
    sizes = op.operands[2]
    given = op.as_(RaggedDotAttributes)
    mode = given.mode()
    if mode == "batch":
        return _dot(op, build, op.operands[0], _numbers(given))
    if sizes.shape.rank != 1:
        raise UnsupportedError(
            f"ragged-dot with group sizes {sizes.shape} per batch",
            instruction=repr(op),
            location=op.metadata.location,
            hint="give one vector of group sizes",
        )
    op = _folded(op, build)
    given = op.as_(RaggedDotAttributes)
    (ragged,) = given.lhs_ragged_dims
    limits = running_sums(build.convert_to(sizes, S64), build, module)
    if is_worth_tiles(op):
        return tiled(op, build, module, limits)
    masked = _masked(op.operands[0], ragged, sizes, limits, build)
    moved = {name: tuple(p + 1 for p in dimensions) for name, dimensions in _numbers(given).items()}
    numbers = {**_numbers(given), **{n: p for n, p in moved.items() if n.startswith("lhs")}}
    if mode == "rows":
        numbers["lhs_contracting_dims"] = (0, *numbers["lhs_contracting_dims"])
        numbers["rhs_contracting_dims"] = (
            *given.rhs_group_dims,
            *numbers["rhs_contracting_dims"],
        )
        return _dot(op, build, masked, numbers)
    made = _dot(op, build, masked, numbers, with_groups=True)
    # The groups come after the batch dimensions: move them first.
    batch = len(given.lhs_batch_dims)
    rest = [n for n in range(made.shape.rank) if n != batch]
    return build.transpose(made, dimensions=(batch, *rest))


def _folded(op: Instruction, build: Builder) -> Instruction:
    """Return the op with transposes of its operands folded into its dimension numbers.

    The rhs of a gradient is the transpose of all groups' matrices, of which a trip reads one.
    """
    given = op.as_(RaggedDotAttributes)
    lhs, left = _untransposed(op.operands[0], (*given.lhs_batch_dims, *given.lhs_contracting_dims))
    taken = (*given.rhs_batch_dims, *given.rhs_contracting_dims, *given.rhs_group_dims)
    rhs, right = _untransposed(op.operands[1], taken)
    if (lhs, rhs) == op.operands[:2]:
        return op
    orders = {"lhs": left, "rhs": right}
    numbers: dict[str, Any] = {
        name: tuple(orders[name[:3]][dim] for dim in dims) for name, dims in _numbers(given).items()
    }
    return build.emit(
        op.opcode,
        lhs,
        rhs,
        op.operands[2],
        shape=op.shape,
        operand_precision=given.operand_precision,
        lhs_ragged_dims=tuple(left[dim] for dim in given.lhs_ragged_dims),
        rhs_group_dims=tuple(right[dim] for dim in given.rhs_group_dims),
        **numbers,
    )


def _untransposed(
    value: Instruction, taken: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...]]:
    """Return the source of a transpose, and where each dimension of the value is in it.

    A transpose that changes the order of dimensions of the result, which are not `taken`, stays.
    """
    order = tuple(range(value.shape.rank))
    while value.opcode == "transpose":
        turn: tuple[int, ...] = value.attributes.dimensions
        inner = tuple(turn[dim] for dim in order)
        free = [other for dim, other in enumerate(inner) if dim not in taken]
        if free != sorted(free):
            break
        order, (value,) = inner, value.operands
    return value, order


def _numbers(given: RaggedDotAttributes) -> dict[str, tuple[int, ...]]:
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    return {name: getattr(given, name) for name in names}


def _dot(
    op: Instruction,
    build: Builder,
    lhs: Instruction,
    numbers: dict[str, tuple[int, ...]],
    with_groups: bool = False,
) -> Instruction:
    """Return the dot of `lhs`, which may be masked, with the rhs of `op`."""
    dims = op.shape.dims
    if with_groups:
        batch = len(numbers["lhs_batch_dims"])
        dims = (*dims[1 : 1 + batch], dims[0], *dims[1 + batch :])
    precision = op.attributes.operand_precision
    shape = Shape.array(op.shape.dtype, dims)
    return build.dot(lhs, op.operands[1], shape=shape, operand_precision=precision, **numbers)


def _masked(
    lhs: Instruction, ragged: int, sizes: Instruction, limits: Instruction, build: Builder
) -> Instruction:
    """Return the lhs once per group, in a new first dimension, zero outside the group's rows."""
    (groups,) = sizes.shape.dims
    starts = build.subtract(limits, build.convert_to(sizes, S64))
    dims = (groups, *lhs.shape.dims)
    row = build.iota(shape=Shape.array(S64, dims), iota_dimension=ragged + 1)
    after = build.compare(row, build.broadcast_to(starts, dims, (0,)), direction="GE")
    before = build.compare(row, build.broadcast_to(limits, dims, (0,)), direction="LT")
    copies = build.broadcast_to(lhs, dims)
    if copies.shape.dtype.name == "f8e8m0fnu":
        copies = build.convert_to(copies, F32)  # the type has no zero
    return build.select(build.and_(after, before), copies, 0)


@expander("scaled-dot-rewriter", "scaled-dot")
def scaled_dot_rewriter(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `scaled-dot`."""
    lhs, rhs, lhs_scale, rhs_scale = op.operands
    wide = F64 if op.shape.dtype is F64 else F32
    given = op.as_(DotAttributes)
    product = build.dot(
        *(
            build.multiply(build.convert_to(operand, wide), _spread(scale, operand, build))
            for operand, scale in (
                (lhs, build.convert_to(lhs_scale, wide)),
                (rhs, build.convert_to(rhs_scale, wide)),
            )
        ),
        shape=op.shape.with_dtype(wide),
        lhs_batch_dims=given.lhs_batch_dims,
        lhs_contracting_dims=given.lhs_contracting_dims,
        rhs_batch_dims=given.rhs_batch_dims,
        rhs_contracting_dims=given.rhs_contracting_dims,
    )
    return build.convert_to(product, op.shape.dtype)


def _spread(scale: Instruction, operand: Instruction, build: Builder) -> Instruction:
    """Return scales repeated over their blocks."""
    dims = operand.shape.dims
    if not scale.shape.dims:
        return build.broadcast_to(scale, dims, ())
    blocks: list[int | dim.Dim] = []
    dimensions: list[int] = []
    for size, count in zip(dims, scale.shape.dims, strict=True):
        dimensions.append(len(blocks))
        blocks += [count, dim.floordiv(size, count)]
    return build.reshape_to(build.broadcast_to(scale, tuple(blocks), tuple(dimensions)), dims)
