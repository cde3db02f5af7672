# SPDX-License-Identifier: Apache-2.0
"""Convolutions element by element: the elements of input and filter that make one result.

The index maps are shared by both kinds of kernel: the matrix product (`kernel.convolution.build`)
and the loop, which for each result is a reduction over the filter's positions and input features.

In the interior of a convolution's input no padding is met, so loads need no masks. Masks are
conjunctions of comparisons of indices that are linear in the axes. Over a block of positions such a
comparison holds everywhere if it holds at one corner of the block, so one scalar test for each
block says whether its loads may go without masks (`cpu.emit.contraction.patches`).

Invariant: where all bounds hold at their corners, `value` equals the operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ingot.analysis.frames import Frame
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import BF16, F16, F32, F64, PRED, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point, within
from ingot.kernel.elemental.window import Fold, symbol, taken
from ingot.kernel.expr import Expr, converted, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Combiner
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import record

Indices = Mapping[str, "int | Dim"]
"""Index per label of a dimension."""


def accumulation_type(operand: DType, result: DType) -> DType:
    """Return the element type that products are summed in: never a narrow float."""
    if result in (BF16, F16):
        return F64 if operand is F64 else F32
    return result


@record
class ConvolutionDims:
    """A convolution's labels and group sizes.

    Attributes:
        given: its attributes.
        lhs, rhs, output: labels of each dimension.
        groups: groups of features or batches.
        group_features: output features per group.
    """

    given: ConvolutionAttributes
    lhs: str
    rhs: str
    output: str
    groups: int
    group_features: int | Dim

    @staticmethod
    def of(convolution: Instruction) -> ConvolutionDims:
        """Read the attributes of a convolution."""
        given = convolution.as_(ConvolutionAttributes)
        labels = given.labels
        groups = given.feature_group_count * given.batch_group_count
        features = convolution.operands[1].shape.dims[labels.rhs.index("o")]
        return ConvolutionDims(
            given, labels.lhs, labels.rhs, labels.output, groups, dim.floordiv(features, groups)
        )


APART_FEATURES = 32
"""Input features from which padding is left out position by position, not element by element.

Apart, 64 features took 0.38 of the time for 4x4 filters, 0.28 for 7x7, 0.55 for 3x3; 32 took 0.65
for 3x3, 24 0.95, 16 1.2 (f32, up to 3 output features, AMD EPYC with AVX2, 2026-11-29)."""


def joins_last(convolution: Instruction) -> bool:
    """Whether the kernel's last spatial dimension and its input feature are walked as one.

    They are when a row of the input holds the elements of neighbouring positions side by side,
    unless there is padding and a position has features enough to be looked at by itself.
    """
    dims = ConvolutionDims.of(convolution)
    if not dims.given.window or dims.groups > 1:
        return False
    one, last = dims.given.window[-1], str(len(dims.given.window) - 1)
    features = convolution.operands[1].shape.dims[dims.rhs.index("i")]
    if one.is_padded and isinstance(features, int) and features >= APART_FEATURES:
        return False
    dense = one.window_dilation == 1 and one.base_dilation == 1 and not one.reversal
    return dense and dims.lhs.endswith(last + "f") and last + "i" in dims.rhs


def joins_last_of_result(convolution: Instruction) -> bool:
    """Whether the result's last spatial dimension and its batch are walked as one (`joins_last`).

    This is the gradient for a kernel, whose result has input features in place of the batch.
    """
    dims = ConvolutionDims.of(convolution)
    if not dims.given.window or dims.groups > 1:
        return False
    one, last = dims.given.window[-1], str(len(dims.given.window) - 1)
    dense = one.stride == 1 and one.base_dilation == 1
    return dense and dims.lhs.endswith(last + "b") and last + "b" in dims.output


def lhs_value(
    lowering: ElementalLowering,
    convolution: Instruction,
    output: Indices,
    kernel: Indices,
    group: int | Dim,
) -> Expr:
    """Return the element of the input that a position of result and kernel take; 0 outside.

    Args:
        lowering: gives the values of the operand.
        convolution: the op.
        output: index per label of the result, without the feature; without the last spatial one,
            `b` counts both (`joins_last_of_result`).
        kernel: index per label of the kernel, without the output feature; without the last spatial
            one, `i` counts both (`joins_last`).
        group: number of the group.
    """
    dims = ConvolutionDims.of(convolution)
    operand, weights = convolution.operands
    sizes = dict(zip(dims.lhs, operand.shape.dims, strict=True))
    index: dict[str, int | Dim] = {"b": output["b"], "f": kernel["i"]}
    if dims.given.feature_group_count > 1:
        index["f"] = kernel["i"] + group * weights.shape.dims[dims.rhs.index("i")]
    if dims.given.batch_group_count > 1:
        index["b"] = output["b"] + group * dim.floordiv(sizes["b"], dims.groups)
    mask: Expr | None = None
    for number, one in enumerate(dims.given.window):
        letter = str(number)
        tap = kernel.get(letter, 0)
        tap = one.size - 1 - tap if one.reversal else tap
        position = output.get(letter, 0)
        if letter in kernel and letter in output:
            index[letter], inside = taken(position, tap, sizes[letter], one)
        else:
            # A row is one dimension; its elements are counted by its inner label alone.
            inner = "b" if letter in kernel else "f"
            start = position * one.stride + tap * one.window_dilation - one.low
            index[letter], index[inner] = 0, start * sizes[inner] + index[inner]
            row = sizes[letter] * sizes[inner]
            inside = within(index[inner], row, Point(())) if one.is_padded else None
        mask = ex.conjunction(mask, inside)
    return lowering.value(operand, Point(tuple(index[letter] for letter in dims.lhs), (), mask))


def loop_extents(convolution: Instruction) -> tuple[int | Dim, ...]:
    """Return the extents of the axes that a convolution sums over, in the kernel's order."""
    dims = ConvolutionDims.of(convolution)
    sizes = zip(dims.rhs, convolution.operands[1].shape.dims, strict=True)
    return tuple(size for letter, size in sizes if letter != "o")


def loop_fold(
    lowering: ElementalLowering, convolution: Instruction, frame: Frame, axes: Frame
) -> Fold:
    """Return what a convolution sums at each element; `axes` are those of `loop_extents`."""
    dims = ConvolutionDims.of(convolution)
    output = dict(zip(dims.output, map(symbol, frame), strict=True))
    kernel = dict(zip(dims.rhs.replace("o", ""), map(symbol, axes), strict=True))
    feature = output.pop("f")
    group = dim.floordiv(feature, dims.group_features) if dims.groups > 1 else 0
    accumulate = accumulation_type(convolution.operands[0].shape.dtype, convolution.shape.dtype)
    lhs = converted(lhs_value(lowering, convolution, output, kernel, group), accumulate)
    index = tuple({**kernel, "o": feature}[letter] for letter in dims.rhs)
    rhs = converted(lowering.value(convolution.operands[1], Point(index)), accumulate)
    opcode = "and" if accumulate is PRED else "multiply"
    return Fold((ex.scalar(0, accumulate),), (ex.compute(opcode, lhs, rhs),))


def loop_combiner(convolution: Instruction) -> Combiner:
    """Return the sum in the accumulation type."""
    accumulate = accumulation_type(convolution.operands[0].shape.dtype, convolution.shape.dtype)
    arguments = (ex.argument(0, accumulate), ex.argument(1, accumulate))
    opcode = "or" if accumulate is PRED else "add"
    return Combiner((ex.compute(opcode, *arguments),))


@record
class Bound:
    """One comparison of a mask.

    Attributes:
        condition: the comparison.
        at_last: names of the axes along which it is hardest to meet at the last position of a
            block; along the others that is the first one.
    """

    condition: Expr
    at_last: frozenset[str]


@record
class Interior:
    """An operand without its masks, and the condition under which that is right."""

    value: Expr
    bounds: tuple[Bound, ...]


def interior(operand: Expr, axes: tuple[str, ...]) -> Interior | None:
    """Return an operand without masks over blocks along `axes`, None where masks are not linear."""
    loads = [item for item in walk((operand,)) if item.op == "load" and item.payload.masked]
    bounds: dict[Expr, Bound] = {}
    for item in loads:
        for part in _parts(item.args[0]):
            bound = _bound(part, axes)
            if bound is None:
                return None
            bounds[part] = bound
    return Interior(_Unmasking().expr(operand), tuple(bounds.values()))


class _Unmasking(Rewriter):
    """Takes the masks of loads away."""

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression, a load without its mask."""
        if item.op == "load" and item.payload.masked:
            return ex.unmasked(item, args)
        return super().node(item, args)


def _parts(mask: Expr) -> Iterator[Expr]:
    if mask.op == "and":
        for part in mask.args:
            yield from _parts(part)
    else:
        yield mask


def _bound(condition: Expr, axes: tuple[str, ...]) -> Bound | None:
    if not condition.axes & frozenset(axes):
        return Bound(condition, frozenset())
    if condition.op != "compare" or any(arg.op != "index" or arg.args for arg in condition.args):
        return None
    given: Any = condition.payload
    if given.direction not in ("LT", "LE", "GE", "GT"):
        return None
    left, right = (arg.payload for arg in condition.args)
    margin: int | Dim = left - right if given.direction in ("GE", "GT") else right - left
    at_last: set[str] = set()
    for axis in axes:
        step = coefficient(margin, axis)
        if not isinstance(step, int):
            return None
        if step < 0:
            at_last.add(axis)
    return Bound(condition, frozenset(at_last))
