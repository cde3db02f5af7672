# SPDX-License-Identifier: Apache-2.0
"""Running sums, products, extremes and log-sum-exps along a dimension.

Sums and products are accumulated in the type that PyTorch's kernels accumulate in: f64 for f32, f32
for half floats. Extremes have the index of the last equal element; a NaN stays the extreme.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, index_type, neutral, wider
from ingot.frontends.building.float_bits import bits_of, float_of, sign_bit
from ingot.frontends.building.indexing import take_elements
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import (
    BF16,
    C64,
    C128,
    F16,
    F32,
    F64,
    PRED,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    DType,
)
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_ACCUMULATED = {F32: F64, C64: C128}


def _accumulated(element: DType) -> DType:
    return _ACCUMULATED.get(element, wider(element))


def _running(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, dim: int) -> Instruction:
        b, element = op.b, op.dtype
        x = b.convert_to(b.convert_to(x, element), _accumulated(element))
        if x.shape.rank:
            start = neutral(opcode, x.shape.dtype)
            axis = op.axis(dim, x.shape.rank)
            x = scan(b, x, axis, lambda inner, y, z: inner.emit(opcode, z, y), start)
        return b.convert_to(x, element)

    return rule


RULES.add(_running("add"), "cumsum")
RULES.add(_running("multiply"), "cumprod")


def _running_extreme(opcode: str) -> Rule:
    """Return the rule of running extremes, with the index of the last element that equals each.

    Elements of up to 32 bits are scanned together with their indices, as one integer each.
    """

    def rule(op: Op, x: Instruction, dim: int) -> tuple[Instruction, Instruction]:
        b, element, indices = op.b, x.shape.dtype, op.shape_of(1)
        if x.shape.rank == 0 or 0 in x.shape.dims:
            return x, b.zeros(indices)
        axis = op.axis(dim, x.shape.rank)
        word = _WORDS.get(element)
        is_short = index_type((x.shape.dims[axis],)) is S32
        if word is not None and is_short:
            found = _scanned_keys(b, b.convert_to(x, word), opcode, axis)
        else:
            found = _scanned_twice(b, x, opcode, axis)
        values, positions = found
        return b.convert_to(values, element), b.convert_to(positions, indices.dtype)

    return rule


_WORDS = {F32: F32, F16: F32, BF16: F32} | dict.fromkeys((S8, U8, S16, U16, S32, PRED), S32)
"""The types of 32 bits that hold the elements of others."""


def _scanned_keys(
    b: ArrayBuilder, x: Instruction, opcode: str, axis: int
) -> tuple[Instruction, Instruction]:
    """Return running extremes of words and their indices, by one scan of integers of 64 bits.

    The high half orders elements, NaN above all, zeros as equals. The low half is twice the index,
    plus the sign of a float: zeros keep theirs. NaNs become one NaN.
    """
    positions = b.iota_of(S64, x.shape.dims, axis)
    low = b.binary("multiply", positions, 2)
    order = x
    if x.shape.dtype.is_float:
        order = _mirrored(b, bits_of(b, x))
        low = b.add(low, b.convert_to(sign_bit(b, x), S64))
    order = b.not_(order) if opcode == "minimum" else order
    if x.shape.dtype.is_float:
        order = b.select(b.compared("EQ", x, 0), b.zeros(order.shape), order)
        is_nan = b.compare(x, x, direction="NE")
        order = b.select(is_nan, b.like(_MOST, order.shape), order)
    keys = b.or_(b.binary("shift-left", b.convert_to(order, S64), 32), low)
    most = _running_most(b, keys, "maximum", axis)
    order = b.convert_to(b.binary("shift-right-arithmetic", most, 32), S32)
    low = b.binary("and", most, 2**32 - 1)
    positions = b.binary("shift-right-logical", low, 1)
    if not x.shape.dtype.is_float:
        return b.not_(order) if opcode == "minimum" else order, positions
    is_nan, is_zero = b.compared("EQ", order, _MOST), b.compared("EQ", order, 0)
    bits = _mirrored(b, b.not_(order) if opcode == "minimum" else order)
    # A zero's sign is the low bit, moved to the top.
    zero = b.binary("shift-left", b.convert_to(low, S32), 31)
    bits = b.select(is_nan, b.like(_MOST, bits.shape), b.select(is_zero, zero, bits))
    return float_of(b, bits, F32), positions


_MOST = 2**31 - 1
"""The largest integer of 32 bits: the bits of a NaN."""


def _mirrored(b: ArrayBuilder, bits: Instruction) -> Instruction:
    """Return floats' bits as integers in the floats' order, or those as bits again."""
    sign = b.binary("shift-right-arithmetic", bits, 31)
    return b.xor(bits, b.binary("and", sign, _MOST))


def _scanned_twice(
    b: ArrayBuilder, x: Instruction, opcode: str, axis: int
) -> tuple[Instruction, Instruction]:
    """Return running extremes and their indices: where an element equals the extreme, it is that.

    Two scans of one operand each go in lanes; of pairs of an element and its index a scan goes from
    one to the next. What is returned is the element itself, with its own sign of zero.
    """
    most = _running_most(b, x, opcode, axis)
    takes = b.compare(x, most, direction="EQ")
    if x.shape.dtype.is_float:
        takes = b.or_(takes, b.compare(x, x, direction="NE"))
    positions = b.iota_of(index_type((x.shape.dims[axis],)), x.shape.dims, axis)
    found = b.select(takes, positions, b.zeros(positions.shape))
    found = _running_most(b, found, "maximum", axis)
    return take_elements(b, x, found, axis) if x.shape.dtype.is_float else most, found


def _running_most(b: ArrayBuilder, x: Instruction, opcode: str, axis: int) -> Instruction:
    start = neutral(opcode, x.shape.dtype)
    return scan(b, x, axis, lambda inner, y, z: inner.emit(opcode, z, y), start)


RULES.add(_running_extreme("maximum"), "cummax")
RULES.add(_running_extreme("minimum"), "cummin")


def log_add_exp(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Return log(exp x + exp y) of real numbers; equal infinities are themselves."""
    most, least = b.maximum(x, y), b.minimum(x, y)
    same = b.and_(b.compare(x, y, direction="EQ"), b.not_(b.is_finite(least)))
    added = b.add(most, b.log_plus_one(b.exponential(b.subtract(least, most))))
    return b.select(same, x, added)


@RULES.rule("logcumsumexp")
def _logcumsumexp(op: Op, x: Instruction, dim: int) -> Instruction:
    b, element = op.b, x.shape.dtype
    if element.is_complex:
        raise op.error("logcumsumexp of complex numbers")
    if x.shape.rank == 0:
        return x
    wide = b.convert_to(x, _accumulated(element))
    return b.convert_to(scan(b, wide, op.axis(dim, x.shape.rank), log_add_exp, -np.inf), element)
