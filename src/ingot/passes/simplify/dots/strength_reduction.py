# SPDX-License-Identifier: Apache-2.0
"""dot-strength-reduction: products of vectors become multiplications and sums, which fuse.

So do products without a sum, and those of tiny matrices, where loops are faster than a contraction.

Source: dot strength reduction in xla/hlo/transforms/simplifiers/algebraic_simplifier.cc.
"""

from __future__ import annotations

import math
from itertools import accumulate

from ingot.hlo import dim
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import BF16, F16, F32, F64, S8, S32, U8, DType, wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.op_pass import in_order, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.llvm.machine_model import L1_BYTES, L2_BYTES, L3_BYTES
from ingot.passes.simplify.dots.sides import Side, sides_of

_IN_MEMORY = ops_with(Trait.LEAF, also=("get-tuple-element",))
_DEPTH, _COLUMNS, _ELEMENTS = 16, 32, 1 << 12
"""A vector times a matrix that is stored with its columns side by side stays a contraction from
this depth, these columns and elements on. Against loops f32 200x200 took 0.71 of the time, 32x200
0.71, 300x80 0.83, 700x100 0.8, 4096x100 0.86, 64x128 0.87, 128x128 1.02, 16x1000 0.99, 60x100 1.04,
1024x64 1.04, 2000x64 1.1, 4096x32 1.11; f64 300x80 0.8, 700x100 0.7, 1024x32 1.1; with AVX2 f32
200x200 0.52, 100x100 0.52, 128x64 0.51, 300x64 0.54, 4096x32 0.54, 500x48 0.51, 1000x16 1.04 (sizes
k x n, Sapphire Rapids, one thread, 2026-12-01)."""

_ROWS, _ROW_ELEMENTS = 12, 1 << 9
"""Rows and elements from which on one whose rows have the vector's length does. Against loops f32
24x24 took 0.88 of the time, 64x64 0.65, 200x200 0.74, 1000x16 0.5, 16x1000 0.78, 12x50 0.94; f64
64x64 0.6, 200x200 0.75; bf16 32x32 0.64, 64x64 0.32, 200x200 0.3; f16 64x64 0.4; with fewer rows
8x64 1.03, 8x300 1.07, 4x1000 1.1, 2x1000 1.23 (sizes n x k, as above)."""

_SHORT_BYTES = 8192
"""A matrix larger than the L3 cache, with rows no longer than this, is summed in parts of its
depth, each of which reads memory in order. A contraction splits columns instead; compared with it,
depth 16384 by 1024 columns took 0.6 of the time, 8192x1024 0.7, 8192x2048 0.85, 8192x512 0.92,
3072x768 1.0; 4096x4096, whose rows are longer, 0.95 to 1.05 (AMD EPYC with AVX-512, one thread,
2026-11-28)."""

_ROW_BYTES = {F32: L2_BYTES, F64: L2_BYTES, BF16: L3_BYTES, F16: L3_BYTES}
"""Bytes of a matrix, by its type, up to which rows of the length of the vector are multiplied by it
several at a time: the vector is read, and widened, once for all of them. Against loops, which take
row by row, f32 300x300 took 0.85 of the time, 128x512 0.93, 5000x30 0.66; bf16 1000x1000 and
5000x100 0.45, 20000x1000 1.8; f16 900x500 0.7 (AMD EPYC with AVX-512, one thread, 2026-11-28)."""

_DEPTH_OF_BYTES, _BYTES = 64, 1 << 16
"""A vector of bytes times a matrix whose rows have its length does from this length and these
elements on."""

_HALF_L1 = L1_BYTES // 2
_LONG_BYTES = {F32: 2048, F64: 2048, BF16: _HALF_L1, F16: _HALF_L1}
"""From such rows on, those of any matrix are. f32 2048x2048 took 0.60 of the time, 4000x3000 0.74,
4096x1024 0.91, 20000x1000 and 1000x1000 0.84, 10000x500 1.0, 40000x256 1.2; f64 4000x1500 0.72,
2000x500 0.80 (AMD EPYC with AVX2, one thread, 2026-11-29); with AVX-512 f32 64x10000 0.6, 3000x5000
0.73, 1024x16384 0.43, 4096x4096 0.97, but 4000x3000 1.15 and 1000x1000 1.1 (as above)."""

_TINY = 128
"""Products of matrices of a batch that loops make where columns do not lie side by side. Against
drivers 2x2x2 took 0.14 of the time, 3x3x3 0.27, 4x4x4 0.5, 4x4x8 0.7, 5x5x5 1.1, 6x6x6 3.6; vectors
by 3x3 0.13, by 8x8 0.6, by 16x16 1.6; rows of 16 by each other 0.15, of 300 0.75 (AMD EPYC with
AVX-512, one thread, 2026-11-28)."""

_SIDE_BY_SIDE = 8, 1024
"""Loops multiply vectors by a batch of matrices, stored innermost, from this batch and these
elements of a matrix on. Against drivers, 8 of 64x64 took 0.14 to 0.5 of the time, 32 of 100x100
0.03 to 0.07, 257 of 64x64 0.13, 32 of 300x20 0.85, 13 of 300x20 1.5; 257 of 16x16 1.85, 3 of 64x64
0.7 to 1.25 (AMD EPYC with AVX2, one thread, 2026-11-29)."""

# Attributes of dots by front ends that a sum of products need not keep.
_IGNORED_EXTRA = frozenset(("frontend_attributes",))


@op_pass("dot-strength-reduction", "dot")
def dot_strength_reduction(op: Instruction, module: Module, context: PassContext) -> bool:
    """Replaces products of vectors, and products without a sum, by multiply and reduce."""
    if context.fp < Fp.CONTRACT or op.shape.dtype.is_complex or not _is_weak(op):
        return False
    op.computation.replace(op, in_order(op, lambda: _product(op)))
    return True


def _is_weak(dot: Instruction) -> bool:
    """Whether elements of the operands are used too rarely for a matrix product to pay."""
    if not _IGNORED_EXTRA.issuperset(dot.extra):
        return False
    lhs, rhs = (side.folded() for side in sides_of(dot))
    if all(size == 1 for size in lhs.sizes(lhs.contracting)):
        return True
    if lhs.batch:
        return _is_tiny(lhs, rhs) or _is_across_batch(lhs, rhs)
    vectors = [all(size == 1 for size in side.sizes(side.free)) for side in (lhs, rhs)]
    if not any(vectors):
        return False
    vector, matrix = (lhs, rhs) if vectors[0] else (rhs, lhs)
    if _is_depth_first(matrix):
        return not _has_long_rows(matrix)
    return not (_has_rows_of_depth(matrix) or _is_of_bytes(dot, vector, matrix))


def _is_tiny(lhs: Side, rhs: Side) -> bool:
    """Whether a batch is of products of rows, or of few products with rows of depth.

    The driver of small matrices wants columns side by side; others take ten times as long.
    """
    sizes = [dim.product(lhs.sizes(part)) for part in (lhs.contracting, lhs.free)]
    sizes.append(dim.product(rhs.sizes(rhs.free)))
    products = math.prod(size for size in sizes if isinstance(size, int))
    if any(isinstance(size, Dim) for size in sizes):
        return False
    if sizes[1] == sizes[2] == 1:
        return True
    return products <= _TINY and not _is_depth_first(lhs if sizes[2] == 1 else rhs)


def _is_across_batch(lhs: Side, rhs: Side) -> bool:
    """Whether a batch is of vectors by matrices whose elements of one index lie side by side.

    Loops have their lanes along the batch then; a driver would gather each matrix from all of them.
    """
    frees = [dim.product(side.sizes(side.free)) for side in (lhs, rhs)]
    if 1 not in frees:
        return False
    matrix = rhs if frees[0] == 1 else lhs
    if matrix.value.shape.rank - 1 not in matrix.batch:
        return False
    batch = matrix.value.shape.dims[-1]
    elements = dim.product(matrix.sizes((*matrix.free, *matrix.contracting)))
    least_batch, least_elements = _SIDE_BY_SIDE
    if not isinstance(batch, int) or not isinstance(elements, int):
        return False
    return batch >= least_batch and elements >= least_elements


def _has_long_rows(matrix: Side) -> bool:
    """Whether a large matrix is stored in rows that a vector's elements scale.

    A contraction kernel then reads longer pieces of a row than a loop kernel does.
    """
    if matrix.value.opcode not in _IN_MEMORY or matrix.value.shape.dtype not in (F32, F64):
        return False
    depth, width = _extents(matrix)
    row_bytes = width * matrix.value.shape.dtype.bits // 8
    if depth * row_bytes > L3_BYTES and row_bytes <= _SHORT_BYTES:
        return False
    return depth >= _DEPTH and width >= _COLUMNS and depth * width >= _ELEMENTS


def _has_rows_of_depth(matrix: Side) -> bool:
    """Whether several rows of a matrix, each of the vector's length, are read at a time."""
    element = matrix.value.shape.dtype
    if matrix.value.opcode not in _IN_MEMORY or element not in _ROW_BYTES:
        return False
    depth, width = _extents(matrix)
    if width < _ROWS or depth * width < _ROW_ELEMENTS:
        return False
    row_bytes = depth * element.bits // 8
    return row_bytes >= _LONG_BYTES[element] or width * row_bytes <= _ROW_BYTES[element]


def _is_of_bytes(dot: Instruction, vector: Side, matrix: Side) -> bool:
    """Whether bytes of a large matrix, whose rows have the vector's length, are summed as s32.

    Instructions of dot products then multiply four of them at a time.
    """
    loaded = [_loaded(side.value) for side in (vector, matrix)]
    if dot.shape.dtype is not S32 or any(item.shape.dtype not in (S8, U8) for item in loaded):
        return False
    if any(item.opcode not in _IN_MEMORY for item in loaded):
        return False
    depth, width = _extents(matrix)
    return depth >= _DEPTH_OF_BYTES and depth * width >= _BYTES


def _extents(matrix: Side) -> tuple[int, int]:
    """Return the depth and width of a matrix; none where they are not known."""
    depth, width = (dim.product(matrix.sizes(d)) for d in (matrix.contracting, matrix.free))
    return (depth, width) if isinstance(depth, int) and isinstance(width, int) else (0, 0)


def _loaded(value: Instruction) -> Instruction:
    """Return the operand of a conversion; other values as they are."""
    return value.operands[0] if value.opcode == "convert" else value


def _product(dot: Instruction) -> Instruction:
    """Return multiply and reduce over batch, both sides' free, and contracting dimensions."""
    build = Builder(dot.computation, dot.metadata)
    lhs, rhs = (_without_ones(side, build) for side in sides_of(dot))
    batch, depth = lhs.sizes(lhs.batch), lhs.sizes(lhs.contracting)
    frees = (lhs.sizes(lhs.free), rhs.sizes(rhs.free))
    # Contracting dimensions are in the matrix's order, so that it needs no transpose.
    depth_first = _is_depth_first(lhs) if not frees[1] else _is_depth_first(rhs)
    parts = (batch, depth, *frees) if depth_first else (batch, *frees, depth)
    ends = list(accumulate(len(part) for part in parts))
    depth_start, *free_starts = ends[:3] if depth_first else (ends[2], *ends[:2])
    dims = tuple(size for part in parts for size in part)
    element = wider(dot.shape.dtype)
    product = build.multiply(
        _placed(lhs, dims, (free_starts[0], depth_start), element, build),
        _placed(rhs, dims, (free_starts[1], depth_start), element, build),
    )
    if depth:
        adder = scalar_computation("add", element)
        module = dot.computation.module
        assert module is not None, "passes see computations of a module"
        module.take(adder)
        dimensions = tuple(range(depth_start, depth_start + len(depth)))
        zero = build.constant(0, element)
        product = build.reduce(product, zero, dimensions=dimensions, to_apply=adder)
    narrow = build.convert_to(product, dot.shape.dtype)
    return build.reshape_to(narrow, dot.shape.dims)


def _without_ones(side: Side, build: Builder) -> Side:
    """Return the side without its free dimensions of size 1."""
    dims = side.value.shape.dims
    remaining = [
        dimension
        for dimension in range(len(dims))
        if dimension not in side.free or dims[dimension] != 1
    ]
    return Side(
        build.reshape_to(side.value, tuple(dims[dimension] for dimension in remaining)),
        tuple(remaining.index(dimension) for dimension in side.batch),
        tuple(remaining.index(dimension) for dimension in side.contracting),
    )


def _is_depth_first(side: Side) -> bool:
    """Whether contracting dimensions come before free ones."""
    if not side.free or not side.contracting:
        return False
    return max(side.contracting) < min(side.free)


def _placed(
    side: Side,
    dims: tuple[int | Dim, ...],
    starts: tuple[int, int],
    element: DType,
    build: Builder,
) -> Instruction:
    """Return an operand broadcast to `dims`; its free and contracting ones begin at `starts`."""
    target: dict[int, int] = {}
    for number, dimension in enumerate(side.batch):
        target[dimension] = number
    for number, dimension in enumerate(side.free):
        target[dimension] = starts[0] + number
    for number, dimension in enumerate(side.contracting):
        target[dimension] = starts[1] + number
    value = build.convert_to(side.value, element)
    along = tuple(target[dimension] for dimension in range(value.shape.rank))
    return build.broadcast_in_order(value, dims, along)
