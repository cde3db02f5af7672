# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on element types that no backend computes in, done on wider types.

Floats of at most 8 bits are computed in f32, integers narrower than a byte in s8 or u8; after each
op the result is converted back, so it is rounded or wrapped where the program does. Ops that only
move elements (slices, transposes, gathers, `select`, sorts, loops) stay on bytes. A dot or
convolution keeps its narrow operands, since kernels convert when they load, and has a wide result.
A sum, minimum or maximum over an array is computed wide and rounded once. So are sums and products
over arrays of f16 and bf16: a narrow sum would stop growing at 2^11 or 2^8 times its addends.

Invariant: after both passes, only conversions and data movement see these types. What f32 rounds
and what XLA's f16 rounds is the same for everything but some transcendental functions, where f32
is nearer to the exact value.

Source: xla/service/float_normalization.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import BF16, DTYPES, F16, F32, PRED, S8, U8, DType, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import types
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.support.records import replace

_CONTRACTIONS = ops_with(Trait.CONTRACTION)
_FOLDS = ops_with(FusionClass.REDUCTION)
_REDUCTIONS = ops_with(FusionClass.REDUCTION, also=("all-reduce", "reduce-scatter"))
_ASSOCIATIVE = ops_with(Trait.ASSOCIATIVE)
_EXACT = ops_with(Trait.EXACT)
# Bits of a number narrower than a byte that depend on how the rest of the byte is filled.
_ZERO_FILLED = frozenset({"shift-right-logical", "popcnt", "count-leading-zeros"})
_SIGN_FILLED = frozenset({"shift-right-arithmetic"})

Wide = Mapping[DType, DType]
"""Narrow types, and what computes for each."""

WIDE_FLOATS: Wide = {e: F32 for e in DTYPES.values() if e.is_float and e.bits <= 8}
WIDE_SUMS: Wide = {F16: F32, BF16: F32}
WIDE_INTEGERS: Wide = {
    e: S8 if e.is_signed else U8 for e in DTYPES.values() if e.is_integer and e.bits < 8
}


@module_pass("float-normalization", *types({*WIDE_FLOATS, *WIDE_SUMS}))
def float_normalization(module: Module, context: PassContext) -> bool:
    """Computes floats of at most 8 bits, and sums of 16-bit floats, in f32."""
    changed = _normalize(module, WIDE_FLOATS)
    return _widen_sums(module) or changed


@module_pass("sub-byte-normalization", *types(WIDE_INTEGERS))
def sub_byte_normalization(module: Module, context: PassContext) -> bool:
    """Computes integers narrower than a byte in s8 and u8."""
    return _normalize(module, WIDE_INTEGERS)


def _normalize(module: Module, wide: Wide) -> bool:
    rewritten = [
        _rewrite(instruction, computation, module, wide)
        for computation in module.post_order()
        for instruction in computation.post_order()
        if _concerns(instruction, wide)
    ]
    return any(rewritten)


def _widen_sums(module: Module) -> bool:
    """Sum and multiply elements of 16 bits in f32, and round once."""
    changed = False
    for computation in module.post_order():
        for instruction in computation.post_order():
            if instruction.opcode not in _FOLDS or instruction.shape.dtype not in WIDE_SUMS:
                continue
            build = Builder(computation, instruction.metadata)
            # Rounding at every step loses the bits that 16 bits cannot hold.
            made = _reduction(instruction, build, module, WIDE_SUMS, _ASSOCIATIVE - _EXACT)
            if made is not None:
                _put(made, instruction, build)
                changed = True
    return changed


def _concerns(instruction: Instruction, wide: Wide) -> bool:
    """Whether the instruction computes with a number of a narrow type."""
    if instruction.has(Trait.NO_ARITHMETIC):
        return False
    if instruction.shape.dtype in wide:
        return True
    return any(operand.shape.dtype in wide for operand in instruction.operands)


def _rewrite(
    instruction: Instruction, computation: Computation, module: Module, wide: Wide
) -> bool:
    build = Builder(computation, instruction.metadata)
    if instruction.has(Trait.ELEMENTWISE):
        made = _elementwise(instruction, build, wide)
    elif instruction.opcode in _CONTRACTIONS:
        made = _contraction(instruction, build, wide)
    elif instruction.opcode in _REDUCTIONS:
        # A wide sum, rounded once, is as good as one rounded at every step; a product is not.
        made = _reduction(instruction, build, module, wide, _ASSOCIATIVE - {"multiply"})
    else:
        made = None
    if made is None:
        return False
    _put(made, instruction, build)
    return True


def _put(made: Instruction, instruction: Instruction, build: Builder) -> None:
    """Replace an instruction by a result in a wide type, converted back."""
    made.extra = dict(instruction.extra)
    build.computation.replace(instruction, build.convert_to(made, instruction.shape.dtype))


def _again(
    instruction: Instruction,
    build: Builder,
    operands: list[Instruction],
    element: DType,
    attributes: Any,
) -> Instruction:
    """Return the instruction on other operands, with a result of `element`."""
    return build.computation.add(
        instruction.opcode,
        tuple(operands),
        attributes,
        shape=instruction.shape.with_dtype(element),
        metadata=instruction.metadata,
    )


def _elementwise(instruction: Instruction, build: Builder, wide: Wide) -> Instruction:
    operands: list[Instruction] = []
    for operand in instruction.operands:
        element = wide.get(operand.shape.dtype)
        filled = _filled(instruction.opcode, operand, build)
        operands.append(filled if element is None else build.convert_to(filled, element))
    if instruction.opcode in _ZERO_FILLED | _SIGN_FILLED:
        return _of_bits(instruction, operands, build)
    element = wide.get(instruction.shape.dtype, instruction.shape.dtype)
    return _again(instruction, build, operands, element, instruction.attributes)


def _filled(opcode: str, operand: Instruction, build: Builder) -> Instruction:
    """Return the operand, unsigned or signed where the op depends on the bits before it."""
    element = operand.shape.dtype
    if opcode in _ZERO_FILLED and element.is_signed:
        return build.bitcast_convert(operand, shape=operand.shape.with_dtype(f"u{element.bits}"))
    if opcode in _SIGN_FILLED and not element.is_signed:
        return build.bitcast_convert(operand, shape=operand.shape.with_dtype(f"s{element.bits}"))
    return operand


def _of_bits(instruction: Instruction, operands: list[Instruction], build: Builder) -> Instruction:
    """Return a shift or count of bits made on a byte, in the narrow type of the result."""
    narrow = instruction.shape.dtype
    byte = operands[0].shape.dtype
    if len(operands) > 1:
        # The amount is unsigned; one that is too large for the type is also too large for a byte.
        operands[1] = build.convert_to(operands[1], byte)
    made = _again(instruction, build, operands, byte, instruction.attributes)
    if instruction.opcode == "count-leading-zeros":
        made = build.subtract(made, 8 - narrow.bits)
    same_sign = dtype(f"{'s' if byte.is_signed else 'u'}{narrow.bits}")
    result = build.convert_to(made, same_sign)
    if same_sign is narrow:
        return result
    return build.bitcast_convert(result, shape=result.shape.with_dtype(narrow))


def _contraction(instruction: Instruction, build: Builder, wide: Wide) -> Instruction | None:
    element = wide.get(instruction.shape.dtype)
    if element is None:
        return None
    operands = list(instruction.operands)
    return _again(instruction, build, operands, element, instruction.attributes)


def _reduction(
    instruction: Instruction, build: Builder, module: Module, wide: Wide, folds: Set[str]
) -> Instruction | None:
    """Return the reduction in the wide type, or None where the computation is none of `folds`."""
    element = wide.get(instruction.shape.dtype)
    opcode = _fold_of(instruction.attributes.to_apply)
    if element is None or opcode not in folds:
        return None
    operands = [build.convert_to(operand, element) for operand in instruction.operands]
    reducer = module.take(scalar_computation(opcode, element))
    attributes = replace(instruction.attributes, to_apply=reducer)
    return _again(instruction, build, operands, element, attributes)


def _fold_of(computation: Computation) -> str:
    """Return the one op that a computation applies to its two parameters, as written or rewritten.

    The computation may be normalized already: converted, computed, converted back.
    """
    root = computation.root
    if root.shape.dtype is PRED or len(computation.parameters) != 2:
        return ""
    while root.opcode == "convert":
        root = root.operands[0]
    sources = {one.operands[0] if one.opcode == "convert" else one for one in root.operands}
    return root.opcode if sources == set(computation.parameters) else ""
