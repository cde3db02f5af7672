# SPDX-License-Identifier: Apache-2.0
"""Rules of convert, bitcast-convert, reduce-precision and copy."""

from __future__ import annotations

from ingot.hlo.dtype import PRED, DType, Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import m
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import x

# Exponent bits of the IEEE-like types, whose range and special values nest.
_EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11, "f8e5m2": 5}


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is exactly a value of `target`."""
    if source is target or source is PRED:
        return True
    if source.is_integer:
        value_bits = source.bits - source.is_signed
        if target.is_integer:
            fits = value_bits <= target.bits - target.is_signed
            return fits and (target.is_signed or not source.is_signed)
        return target.name in _EXPONENT_BITS and value_bits <= target.mantissa + 1 < 1 << 4
    if source.bits <= 8 and target.bits >= 32:
        return target.is_float
    return (
        source.name in _EXPONENT_BITS
        and target.name in _EXPONENT_BITS
        and source.mantissa <= target.mantissa
        and _EXPONENT_BITS[source.name] <= _EXPONENT_BITS[target.name]
    )


def _saturates(middle: DType, target: DType) -> bool:
    """Whether middle -> target clips where integers would wrap around."""
    return middle.is_float and target.is_integer


def _keeps_type(instruction: Instruction) -> bool:
    return instruction.shape.dtype is instruction.operands[0].shape.dtype


# Copies that front ends make say nothing: buffers are decided later.
SAME = (
    identity(
        "convert_same: convert<T>(x: T) => x",
        m.convert(x, where=_keeps_type),
        x,
        example="r = f32[4] convert(f32[4] x)",
    ),
    identity(
        "bitcast_convert_same: bitcast-convert<T>(x: T) => x",
        m.bitcast_convert(x, where=_keeps_type),
        x,
        example="r = f32[4] bitcast-convert(f32[4] x)",
    ),
    identity("remove_copy: copy(x) => x", m.copy(x), x),
)


@rule(
    m.convert(m.convert(x, name="inner")),
    example=(
        """
        a = f32[4] convert(bf16[4] x)
        b = bf16[4] convert(a)""",
        """
        a = s32[4] convert(s8[4] x)
        b = u16[4] convert(a)""",
    ),
)
def convert_convert(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """convert<C>(convert<B>(x: A)) => convert<C>(x) where A -> B is lossless"""
    source, middle, target = x.shape.dtype, inner.shape.dtype, root.shape.dtype
    if not is_lossless(source, middle):
        return None
    if _saturates(middle, target) and source.kind is not Kind.FLOAT:
        return build.convert_to(x, target) if is_lossless(source, target) else None
    return build.convert_to(x, target)


@rule(
    m.bitcast_convert(m.bitcast_convert(x, name="inner")),
    example="""
        a = s32[4] bitcast-convert(f32[4] x)
        b = u32[4] bitcast-convert(a)""",
)
def bitcast_convert_twice(
    root: Instruction, inner: Instruction, x: Instruction, build: RuleBuilder
) -> Instruction | None:
    """bitcast-convert(bitcast-convert(x)) => bitcast-convert(x) where all are of one width"""
    if not x.shape.dtype.bits == inner.shape.dtype.bits == root.shape.dtype.bits:
        return None
    return build.bitcast_convert(x, shape=root.shape)


@rule(
    m.reduce_precision(x),
    example="a = f32[4] reduce-precision(f32[4] x), exponent_bits=8, mantissa_bits=23",
)
def reduce_precision_wide(root: Instruction, x: Instruction) -> Instruction | None:
    """reduce-precision(x) => x where the format is no narrower than the type of x"""
    exponent = _EXPONENT_BITS.get(x.shape.dtype.name)
    wide = (
        exponent is not None
        and root.attributes.exponent_bits >= exponent
        and root.attributes.mantissa_bits >= x.shape.dtype.mantissa
    )
    return x if wide else None
