# SPDX-License-Identifier: Apache-2.0
"""Plain convolutions: both operands lie in memory as they are, in canonical order.

Such a convolution is the same computation at every size, so a driver that all programs share runs
it (`direct`, `winograd`, `filter_gradient`): sizes, strides and padding are its parameters. What
follows in the fusion is an epilogue, compiled for the kernel.

Invariant: every extent but the batch's is a number.
"""

from __future__ import annotations

from ingot.analysis.direct_convolution import known_sizes
from ingot.analysis.filter_gradient import filter_labels
from ingot.analysis.library import ELEMENTS, MIN_VECTOR_BITS
from ingot.hlo.dim import Dim, floordiv
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.kernel.contraction.operands import stores_sums
from ingot.kernel.elemental.convolution_index import ConvolutionDims
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.ir import Axis, ConvolutionKernel, LoopKernel, PlainConvolution
from ingot.kernel.rewrite import AxisSubstitution
from ingot.llvm.machine_model import Vectors
from ingot.support.records import replace


def plain_convolution(
    lowering: ElementalLowering, convolution: Instruction
) -> PlainConvolution | None:
    """Return what shared code must know of a convolution, None if it is not plain."""
    dims = ConvolutionDims.of(convolution)
    lhs, rhs = convolution.operands
    digits = "".join(map(str, range(len(dims.given.window))))
    labels = (dims.lhs, dims.rhs, dims.output)
    of_filter = filter_labels(len(digits))
    is_of_filter = labels == (of_filter.lhs, of_filter.rhs, of_filter.output)
    is_canonical = is_of_filter or labels == (f"b{digits}f", f"{digits}io", f"b{digits}f")
    batch, *others = lhs.shape.dims
    given = known_sizes(others)
    result = known_sizes(convolution.shape.dims[not is_of_filter :])
    taps = known_sizes(rhs.shape.dims[is_of_filter:])
    # The groups of a filter's gradient are those of its channels, which the op calls its batch.
    groups_of_others = (
        dims.given.feature_group_count if is_of_filter else dims.given.batch_group_count
    )
    if not is_canonical or batch == 0 or groups_of_others > 1:
        return None
    if given is None or result is None or taps is None:
        return None
    image, weights = _buffer(lowering, lhs), _buffer(lowering, rhs)
    if image is None or weights is None:
        return None
    return PlainConvolution(
        batch,
        given[:-1],
        result[:-2] if is_of_filter else result[:-1],
        given[-1],
        result[-1],
        dims.groups,
        dims.given.window,
        image,
        weights,
        is_of_filter,
    )


def _buffer(lowering: ElementalLowering, operand: Instruction) -> int | None:
    """Return the buffer that holds an operand densely, None if it is computed or lies otherwise."""
    names = [f"@{operand.name} {number}" for number in range(operand.shape.rank)]
    index = tuple(
        Dim.symbol(name) if size != 1 else 0
        for name, size in zip(names, operand.shape.dims, strict=True)
    )
    found = lowering.value(operand, Point(index))
    if found.op != "load" or found.args or found.dtype is not operand.shape.dtype:
        return None
    dense: int | Dim = 0
    for position, size in zip(index, operand.shape.dims, strict=True):
        dense = dense * size + position
    return found.payload.buffer if found.payload.index == dense else None


def driven_element(kernel: ConvolutionKernel, vectors: Vectors) -> DType | None:
    """Return the element type of operands and sums, None if no driver has it on these vectors."""
    given, general = kernel.convolution, kernel.general
    is_loop = isinstance(general, LoopKernel)
    element = general.buffers[-1].dtype if is_loop else general.accumulate
    held = (general.buffers[given.lhs], general.buffers[given.rhs])
    has_driver = element in ELEMENTS and vectors.bits >= MIN_VECTOR_BITS
    return element if has_driver and all(one.dtype is element for one in held) else None


def result_of_sums(kernel: ConvolutionKernel) -> int | None:
    """Return the buffer that holds a convolution's sums, None if an epilogue takes them."""
    given, general = kernel.convolution, kernel.general
    if isinstance(general, LoopKernel):
        return len(general.buffers) - 1
    if not stores_sums(general):
        return None
    has_groups = general.batch.extent != 1
    group = Dim.symbol(general.batch.name) * general.n.extent if has_groups else 0
    row = Dim.symbol(general.m.name) * given.features
    (store,) = general.stores
    is_in_order = store.index == group + row + Dim.symbol(general.n.name)
    return store.buffer if is_in_order else None


def joined_groups(kernel: ConvolutionKernel) -> ConvolutionKernel | None:
    """Return a convolution whose epilogue counts the features of all groups along n.

    None if the stores do more with a group and a feature of it than to count features. Its lhs
    depends on n, so only a driver that knows the groups can run it.
    """
    given, general = kernel.convolution, kernel.product or kernel.general
    if isinstance(general, LoopKernel):
        return None
    batch, n, features = general.batch.name, general.n.name, general.n.extent
    group = 0 if features != 1 else Dim.symbol(n)
    next_group = AxisSubstitution({batch: Dim.symbol(batch) + 1})
    as_many_features = AxisSubstitution({n: Dim.symbol(n) + features})
    is_counted = next_group.stores(general.stores) == as_many_features.stores(general.stores)
    if features != 1 and not is_counted:
        return None
    in_group = AxisSubstitution({batch: group})
    joined = replace(
        general,
        batch=Axis(batch, 1),
        n=Axis(n, given.features),
        lhs=AxisSubstitution({batch: floordiv(Dim.symbol(n), features)}).expr(general.lhs),
        rhs=in_group.expr(general.rhs),
        stores=in_group.stores(general.stores),
    )
    return ConvolutionKernel(given, joined)
