# SPDX-License-Identifier: Apache-2.0
"""From a fused computation with a `dot` to a `ContractionKernel`.

The dot has at most one batch, one lhs free, one rhs free and one contracting dimension (the dot
canonicalizer's form), in any order; a missing one becomes an axis of extent 1. The ops
before the dot are the prologue, fused into the operand loads; those behind it are the epilogue over
`accumulator`.
"""

from __future__ import annotations

from ingot.analysis.frames import ONE, FrameMap
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.convolution_index import accumulation_type
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.rules import elemental_lowering
from ingot.kernel.expr import Expr
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, ContractionKernel, Store
from ingot.kernel.loop.build import axis_name, buffers_of, frames_of, point_of, roots_of
from ingot.support.diagnostics import InternalError

K_AXIS = "@k"


def find_dot(fused: Computation) -> Instruction | None:
    """Return the dot of a fused computation, or None."""
    return next((i for i in fused.instructions if i.opcode == "dot"), None)


def build_contraction_kernel(fused: Computation) -> ContractionKernel:
    """Return the contraction kernel of a fused computation.

    Raises:
        InternalError: the dot is not in canonical form, or the epilogue reads it out of place.
    """
    dot = find_dot(fused)
    assert dot is not None, "build_contraction_kernel is for computations with a dot"
    frames = frames_of(fused)
    frame = frames.frames.get(dot)
    if frame is None:
        raise InternalError(f"%{dot.name} is not read element by element in its fusion")
    axes = _result_axes(dot, frame, frames.extents)
    k_axis = _contracted_axis(dot)
    extents = {axis.name: axis.extent for axis in (*axes.values(), k_axis)}
    extents.update({axis_name(n): extent for n, extent in enumerate(frames.extents)})
    lowering = elemental_lowering(fused, extents)
    lhs, rhs = (_operand(lowering, dot, number, axes, k_axis) for number in (0, 1))
    accumulate = accumulation_type(dot.operands[0].shape.dtype, dot.shape.dtype)
    names = tuple(sorted(axis.name for axis in axes.values()))
    lowering.accumulators[dot] = contraction_sum(accumulate, dot.shape.dtype, names)
    stores = epilogue_stores(lowering, frames, fused)
    return ContractionKernel(
        axes["b"], axes["m"], axes["n"], k_axis, lhs, rhs, accumulate, stores, buffers_of(fused)
    )


def contraction_sum(accumulate: DType, result: DType, names: tuple[str, ...]) -> Expr:
    """Return the finished sum, which varies with the axes `names`, as the result's type."""
    total = ex.make("accumulator", accumulate, (), names)
    if result is accumulate:
        return total
    return ex.compute("convert", total, dtype=result)


def epilogue_stores(
    lowering: ElementalLowering, frames: FrameMap, fused: Computation
) -> tuple[Store, ...]:
    """Return the stores of a contraction's results, once `lowering` knows the sums."""
    return tuple(
        _store(lowering, root, frames.frames.get(root), len(fused.parameters) + number)
        for number, root in enumerate(roots_of(fused))
    )


def _free_dims(dot: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    given = dot.as_(DotAttributes)
    lhs_free = given.lhs_free_dims(dot.operands[0].shape.rank)
    rhs_free = given.rhs_free_dims(dot.operands[1].shape.rank)
    counts = (len(given.lhs_batch_dims), len(lhs_free), len(rhs_free))
    if max(*counts, len(given.lhs_contracting_dims)) > 1:
        raise InternalError(
            f"%{dot.name} has several dimensions of one kind; dot-canonicalizer did not run"
        )
    return lhs_free, rhs_free


def _result_axes(
    dot: Instruction, frame: tuple[int, ...], extents: list[int | Dim]
) -> dict[str, Axis]:
    """Return the axes of batch, m and n; a result dimension of extent 1 gets an axis of its own."""
    lhs_free, rhs_free = _free_dims(dot)
    given = dot.as_(DotAttributes)
    kinds = "b" * len(given.lhs_batch_dims) + "m" * len(lhs_free) + "n" * len(rhs_free)
    axes = {kind: Axis(f"@{kind}", 1) for kind in "bmn"}
    for kind, number in zip(kinds, frame, strict=True):
        if number != ONE:
            axes[kind] = Axis(axis_name(number), extents[number])
    return axes


def _contracted_axis(dot: Instruction) -> Axis:
    given = dot.as_(DotAttributes)
    contracting = given.lhs_contracting_dims
    extent = dot.operands[0].shape.dims[contracting[0]] if contracting else 1
    return Axis(K_AXIS, extent)


def _operand(
    lowering: ElementalLowering, dot: Instruction, number: int, axes: dict[str, Axis], k_axis: Axis
) -> Expr:
    used = (axes["b"], k_axis, axes["mn"[number]])
    batch, summed, free = (0 if axis.extent == 1 else Dim.symbol(axis.name) for axis in used)
    return dot_operand(lowering, dot, number, (batch, summed, free))


def dot_operand(
    lowering: ElementalLowering, dot: Instruction, number: int, indices: tuple[int | Dim, ...]
) -> Expr:
    """Return an operand of a dot at the indices of its batch, its sum, and its other dimension."""
    given = dot.as_(DotAttributes)
    batch = (given.lhs_batch_dims, given.rhs_batch_dims)[number]
    contracting = (given.lhs_contracting_dims, given.rhs_contracting_dims)[number]
    operand = dot.operands[number]
    kinds = [
        0 if dimension in batch else 1 if dimension in contracting else 2
        for dimension in range(operand.shape.rank)
    ]
    return lowering.value(operand, Point(tuple(indices[kind] for kind in kinds)))


def _store(
    lowering: ElementalLowering, root: Instruction, frame: tuple[int, ...] | None, buffer: int
) -> Store:
    if frame is None:
        raise InternalError(f"root %{root.name} is computed at more than one index of its fusion")
    point = point_of(frame)
    return Store(buffer, linearize(point.index, root.shape.dims), lowering.value(root, point))
