# SPDX-License-Identifier: Apache-2.0
"""Convolutions as implicit matrix products.

In the `ContractionKernel`, m are the result's positions (batch and space), n its features, k the
kernel's positions and input features in the order of the kernel's memory, so that the rhs is read
with fixed strides. The lhs is a masked load that depends on the positions behind m and k
(`Patches`); it is packed block by block, so patches never reach memory. Groups are the batch axis.

Convolutions with few features per group (depthwise ones) are loops instead (`is_product`).

Needs what the convolution canonicalizer leaves: output features last in kernel and result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingot.analysis.conv1d import is_toeplitz_product
from ingot.analysis.frames import ONE, FrameMap
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.kernel.contraction.build import contraction_sum, epilogue_stores
from ingot.kernel.contraction.rhs_placement import MIN_COLUMN_DOT_DEPTH
from ingot.kernel.convolution.plain import plain_convolution
from ingot.kernel.elemental.convolution_index import (
    ConvolutionDims,
    Indices,
    accumulation_type,
    joins_last,
    joins_last_of_result,
    lhs_value,
    loop_extents,
)
from ingot.kernel.elemental.lowering import ElementalLowering
from ingot.kernel.elemental.points import Point
from ingot.kernel.elemental.rules import elemental_lowering
from ingot.kernel.expr import Expr, loads_of
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import (
    Axis,
    ContractionKernel,
    ConvolutionKernel,
    LoopKernel,
    Patches,
    Store,
    general_kernel,
)
from ingot.kernel.loop.build import buffers_of, frames_of
from ingot.kernel.passes.collapse import indices_in, merged, positions, runs_of, zeros
from ingot.kernel.rewrite import AxisSubstitution
from ingot.support.diagnostics import InternalError

MIN_FEATURES = 2
"""Least output features per group of a matrix product: with fewer its vectors would be empty.

Exceptions: one feature of a long sum, which becomes dot products, and one feature of a signal.
"""

BATCH, M, N, K = "@g", "@m", "@n", "@k"


def find_convolution(fused: Computation) -> Instruction | None:
    """Return the convolution of a fused computation, or None."""
    return next((i for i in fused.instructions if i.opcode == "convolution"), None)


def is_product(convolution: Instruction) -> bool:
    """Whether the convolution runs as a matrix product."""
    dims = ConvolutionDims.of(convolution)
    features = dims.group_features
    if (
        not isinstance(features, int)
        or features >= MIN_FEATURES
        or is_toeplitz_product(convolution)
    ):
        return True
    depth = product(loop_extents(convolution))
    return dims.groups == 1 and isinstance(depth, int) and depth >= MIN_COLUMN_DOT_DEPTH


def build_convolution_kernel(fused: Computation) -> ConvolutionKernel | ContractionKernel:
    """Return the kernel of a fused computation with a convolution that is a matrix product.

    A convolution without patches and padding is a matrix product of arrays, and no more than that.

    Raises:
        InternalError: the epilogue reads the convolution out of place.
    """
    convolution = find_convolution(fused)
    assert convolution is not None, "build_convolution_kernel is for computations with one"
    frames = frames_of(fused)
    extents = {f"@{number}": extent for number, extent in enumerate(frames.extents)}
    lowering = elemental_lowering(fused, extents)
    product_of_patches = _product_of_patches(convolution, lowering, frames, fused)
    lhs = product_of_patches.lhs
    is_read = product_of_patches.patches is None and lhs.op == "load" and not lhs.args
    plain = None if is_read else plain_convolution(lowering, convolution)
    return product_of_patches if plain is None else ConvolutionKernel(plain, product_of_patches)


def _product_of_patches(
    convolution: Instruction, lowering: ElementalLowering, frames: FrameMap, fused: Computation
) -> ContractionKernel:
    """Return a convolution as an implicit matrix product, with the epilogue among its stores."""
    frame = frames.frames.get(convolution)
    if frame is None:
        raise InternalError(f"%{convolution.name} is not read element by element in its fusion")
    dims = ConvolutionDims.of(convolution)
    accumulate = accumulation_type(convolution.operands[0].shape.dtype, convolution.shape.dtype)
    lowering.accumulators[convolution] = contraction_sum(
        accumulate, convolution.shape.dtype, (BATCH, M, N)
    )
    group: int | Dim = 0 if dims.groups == 1 else Dim.symbol(BATCH)
    column: int | Dim = 0 if dims.group_features == 1 else Dim.symbol(N)
    feature = group * dims.group_features + column
    rows, columns = _result_axes(convolution, dims), _kernel_axes(convolution, dims)
    lhs = lhs_value(lowering, convolution, _indices(rows), _indices(columns), group)
    m_axes, k_axes = _proper(rows), _proper(columns)
    lhs, patches = _with_patches(lhs, m_axes, k_axes)
    rhs = _rhs(lowering, convolution, dims, feature)
    own = tuple(
        Axis(f"@{number}", 1 if number == ONE else frames.extents[number]) for number in frame
    )
    stores = _on_m(epilogue_stores(lowering, frames, fused), own, dims, feature)
    return ContractionKernel(
        Axis(BATCH, dims.groups),
        Axis(M, product(axis.extent for axis in m_axes)),
        Axis(N, dims.group_features),
        Axis(K, product(axis.extent for axis in k_axes)),
        lhs,
        rhs,
        accumulate,
        stores,
        buffers_of(fused),
        patches,
    )


def depthwise_kernel(fused: Computation, loops: LoopKernel) -> ConvolutionKernel | LoopKernel:
    """Return loops of a convolution with what shared code needs to run it, if it may."""
    convolution = find_convolution(fused)
    assert convolution is not None, "depthwise_kernel is for computations with one"
    plain = plain_convolution(elemental_lowering(fused, {}), convolution)
    if plain is None or fused.root is convolution:
        return loops if plain is None else ConvolutionKernel(plain, loops)
    if not plain.is_depthwise or frames_of(fused).frames.get(convolution) is None:
        return loops
    product_of_patches = general_kernel(build_convolution_kernel(fused))
    assert isinstance(product_of_patches, ContractionKernel), "it is built as a product"
    return ConvolutionKernel(plain, loops, product_of_patches)


def _indices(axes: Mapping[str, Axis]) -> Indices:
    """Return the index along each axis, by label."""
    return {label: 0 if axis.extent == 1 else Dim.symbol(axis.name) for label, axis in axes.items()}


def _proper(axes: Mapping[str, Axis] | Sequence[Axis]) -> tuple[Axis, ...]:
    """Return the axes that are longer than 1."""
    every = axes.values() if isinstance(axes, Mapping) else axes
    return tuple(axis for axis in every if axis.extent != 1)


def _result_axes(convolution: Instruction, dims: ConvolutionDims) -> dict[str, Axis]:
    """Return the axes behind m by label, in the result's order."""
    sizes = dict(zip(dims.output, convolution.shape.dims, strict=True))
    joined = "b" if joins_last_of_result(convolution) else ""
    return _axes(M, dims, sizes, (dims.output.replace("f", ""), joined))


def _kernel_axes(convolution: Instruction, dims: ConvolutionDims) -> dict[str, Axis]:
    """Return the summed axes by label, in the kernel's order."""
    sizes = dict(zip(dims.rhs, convolution.operands[1].shape.dims, strict=True))
    joined = "i" if joins_last(convolution) else ""
    return _axes(K, dims, sizes, (dims.rhs.replace("o", ""), joined))


def _axes(
    name: str, dims: ConvolutionDims, sizes: dict[str, int | Dim], labels: tuple[str, str]
) -> dict[str, Axis]:
    """Return the axes of `labels[0]`; the last spatial one is part of `labels[1]`, if given."""
    letters, joined = labels
    if joined:
        last = str(len(dims.given.window) - 1)
        letters = letters.replace(last, "")
        sizes[joined] = sizes[joined] * sizes[last]
    return {letter: Axis(f"{name}{letter}", sizes[letter]) for letter in letters}


def _rhs(
    lowering: ElementalLowering, convolution: Instruction, dims: ConvolutionDims, feature: int | Dim
) -> Expr:
    """Return the kernel's element at (k, n): its summed dimensions are one, k counts them."""
    weights = convolution.operands[1]
    if dims.rhs[-1] != "o":
        raise InternalError(f"%{convolution.name} is not canonical: {dims.rhs}")
    index: list[int | Dim] = [0] * weights.shape.rank
    index[-1] = feature
    if len(index) > 1:
        index[-2] = Dim.symbol(K)
    return lowering.value(weights, Point(tuple(index)))


def _with_patches(
    lhs: Expr, m_axes: tuple[Axis, ...], k_axes: tuple[Axis, ...]
) -> tuple[Expr, Patches | None]:
    """Return the lhs over as few axes as its indices allow; no patches if m and k are enough."""
    indices = indices_in((lhs,))
    m_runs, k_runs = runs_of(m_axes, indices), runs_of(k_axes, indices)
    if len(m_runs) <= 1 and len(k_runs) <= 1:
        return AxisSubstitution({**positions(m_runs, M), **positions(k_runs, K)}).expr(lhs), None
    lhs = AxisSubstitution({**zeros(m_runs), **zeros(k_runs)}).expr(lhs)
    m, k = (tuple(map(merged, runs)) for runs in (m_runs, k_runs))
    along_k = bool(k) and (not m or _is_dense(lhs, k[-1]) or not _is_dense(lhs, m[-1]))
    return lhs, Patches(m, k, along_k)


def _is_dense(lhs: Expr, axis: Axis) -> bool:
    loads = loads_of((lhs,))
    return all(coefficient(item.payload.index, axis.name) == 1 for item in loads)


def _on_m(
    stores: tuple[Store, ...],
    own: tuple[Axis, ...],
    dims: ConvolutionDims,
    feature: int | Dim,
) -> tuple[Store, ...]:
    """Return the stores over m and `feature` instead of the result's `own` axes."""
    m_axes = tuple(axis for letter, axis in zip(dims.output, own, strict=True) if letter != "f")
    features = {own[dims.output.index("f")].name: feature}
    exprs = [item for store in stores for item in store.exprs]
    indices = [*(store.index for store in stores), *indices_in(exprs)]
    rename = AxisSubstitution({**positions(runs_of(_proper(m_axes), indices), M), **features})
    return rename.stores(stores)
