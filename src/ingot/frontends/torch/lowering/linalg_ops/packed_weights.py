# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits, as PyTorch packs them for CPU: packing them, and products with them.

Rows of a weight `[n, k]` are packed in blocks, of 64 where PyTorch's kernels use AVX-512, else of
32. A block is k-major: for each k the rows of the block, a byte for two of them. The byte has row
`i` of the first half of the block and row `i` of the second half; in a last, smaller block, and
without AVX2, two adjacent rows. A weight is `(bits - 8) * scale + zero`. Source: PyTorch's
`aten/src/ATen/native/cpu/int4mm_kernel.cpp`.
"""

from __future__ import annotations

from functools import cache

import torch

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import S8, U8, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@cache
def _block() -> tuple[int, bool]:
    """Return the rows of a block, and whether a byte has rows of both halves of it."""
    capability = torch.backends.cpu.get_cpu_capability()
    return (64 if capability == "AVX512" else 32), capability in ("AVX2", "AVX512")


def _blocks(rows: int) -> list[tuple[int, int, int, bool]]:
    """Return the first row, the number of blocks, the rows of each, and whether halves are paired.

    There are whole blocks, and a smaller one.
    """
    size, has_halves = _block()
    whole = rows // size
    found = [(0, whole, size, has_halves)] if whole else []
    if rows % size:
        found.append((whole * size, 1, rows % size, False))
    return found


@RULES.rule("_convert_weight_to_int4pack_for_cpu")
def _pack(op: Op, weight: Instruction, tiles: int) -> Instruction:
    del tiles  # of the layout for GPUs
    b = op.b
    rows, depth = (op.known(size, "a size of the weight") for size in weight.shape.dims)
    parts: list[Instruction] = []
    for first, count, size, has_halves in _blocks(rows):
        some = b.sliced(weight, 0, first, first + count * size)
        block = b.transposed(b.reshape_to(some, (count, size, depth)), (0, 2, 1))
        if has_halves:
            low, high = (b.sliced(block, 2, n * size // 2, (n + 1) * size // 2) for n in (0, 1))
        else:
            low, high = (b.sliced(block, 2, n, size, 2) for n in (0, 1))
        shifted = b.emit("shift-left", high, b.like(4, high.shape))
        both = b.convert_to(b.or_(shifted, low), U8)
        parts.append(b.reshape_to(both, (count * size, depth // 2)))
    return b.concatenated(parts, 0)


@RULES.rule("_weight_int4pack_mm_for_cpu")
def _product(
    op: Op, x: Instruction, packed: Instruction, group: int, scales: Instruction
) -> Instruction:
    """Multiply x by the weight; `scales` is `[groups, rows, 2]`, scale and zero of k's groups.

    The rows in the low bits and those in the high bits are two products, so that weights are
    unpacked when they are read.
    """
    b, wide = op.b, wider(op.dtype)
    rows, half = (op.known(size, "a size of the weight") for size in packed.shape.dims)
    x = b.convert_to(x, wide)
    parts: list[Instruction] = []
    for first, count, size, has_halves in _blocks(rows):
        some = b.sliced(packed, 0, first, first + count * size)
        bits = b.reshape_to(some, (count, 2 * half, size // 2))
        axis = 2 if has_halves else 3  # of the two rows of a byte, in [.., blocks, a, b]
        sides = (2, size // 2) if has_halves else (size // 2, 2)
        chosen = b.sliced(scales, 1, first, first + count * size)
        chosen = b.reshape_to(chosen, (chosen.shape.dims[0], count, *sides, 2))
        made: list[Instruction] = []
        for side in (0, 1):
            factors = _factors(b, b.sliced(chosen, axis, side, side + 1), (count, size // 2), wide)
            weight = _dequantized(b, _bits(b, bits, side), group, factors, wide)
            product = dot(b, x, weight, ((1,), (1,)), element=wide)
            one = list(product.shape.dims)
            one.insert(axis, 1)
            made.append(b.reshape_to(product, tuple(one)))
        parts.append(b.reshape_to(b.concatenated(made, axis), (x.shape.dims[0], count * size)))
    return b.convert_to(b.concatenated(parts, 1), op.dtype)


def _bits(b: ArrayBuilder, packed: Instruction, side: int) -> Instruction:
    """Return the low or the high four bits of bytes, less 8, as s8."""
    if side:
        bits = b.emit("shift-right-logical", packed, b.like(4, packed.shape))
    else:
        bits = b.emit("and", packed, b.like(15, packed.shape))
    return b.binary("subtract", b.convert_to(bits, S8), 8)


def _factors(
    b: ArrayBuilder, scales: Instruction, dims: tuple[int, int], element: DType
) -> list[Instruction]:
    """Return scale and zero of blocks of rows, `[blocks, groups, rows]`, for `dims` of those."""
    groups = scales.shape.dims[0]
    found: list[Instruction] = []
    for number in (0, 1):
        some = b.sliced(scales, scales.shape.rank - 1, number, number + 1)
        some = b.reshape_to(some, (groups, *dims))
        found.append(b.convert_to(b.transposed(some, (1, 0, 2)), element))
    return found


def _dequantized(
    b: ArrayBuilder, bits: Instruction, group: int, factors: list[Instruction], element: DType
) -> Instruction:
    """Return weights `[blocks, k, rows]` from their bits."""
    count, depth, rows = bits.shape.dims
    dims = (count, factors[0].shape.dims[1], group, rows)
    values = b.convert_to(b.reshape_to(bits, dims), element)
    scale, zero = (b.spread(item, dims, (0, 1, 3)) for item in factors)
    return b.reshape_to(b.add(b.multiply(values, scale), zero), (count, depth, rows))
