# SPDX-License-Identifier: Apache-2.0
"""Cases of elementwise ops: every op, every element type, special values, sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from tests.differential.case import (
    COMPLEX,
    EXACT,
    FLOATS,
    INTEGERS,
    NARROW_FLOATS,
    SIGNED,
    Array,
    Case,
    Nearness,
    outer,
    seed_of,
    special_values,
    values,
)

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import dtype
from ingot.hlo.instruction import Instruction

SHAPES = ((0,), (), (17,), (3, 0, 2), (5, 7, 33))

_EXACT_FLOAT = ("abs", "negate", "sign", "ceil", "floor", "round-nearest-afz",
                "round-nearest-even", "is-finite", "copy")  # fmt: skip
_FUNCTIONS = ("cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log",
              "log-plus-one", "logistic", "rsqrt", "sine", "sqrt", "tan", "tanh", "acos", "acosh",
              "asin", "asinh", "atanh", "cosh", "sinh")  # fmt: skip
_COMPLEX_FUNCTIONS = ("cosine", "exponential", "exponential-minus-one", "log", "log-plus-one",
                      "logistic", "rsqrt", "sine", "sqrt", "tan", "tanh", "abs", "negate", "sign",
                      "real", "imag")  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder")
_BITS = ("and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical")
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")

_FUNCTION = Nearness(ulps=4, xla_ulps=16, reason="approximations of functions")
_COMPLEX_FUNCTION = Nearness(ulps=64, xla_ulps=128, reason="formulas of complex functions")
_LOG_PLUS_ONE = Nearness(ulps=4, xla_ulps=256, reason="XLA's log-plus-one of f64 is off by 110 ulp")
_NEAR = {
    "log-plus-one": _LOG_PLUS_ONE,
    "divide": Nearness(1, 1),
    "power": _FUNCTION,
    "atan2": _FUNCTION,
}


def _emit(
    opcode: str, attributes: dict[str, Any], b: Builder, given: Sequence[Instruction]
) -> Instruction:
    return b.emit(opcode, *given, **attributes)


def _case(name: str, inputs: Sequence[Array], nearness: Nearness = EXACT, **more: Any) -> Case:
    opcode = name.split(" ", 1)[0]
    return Case(name, tuple(inputs), partial(_emit, opcode, more), nearness, elementwise=True)


def _of_sizes(
    opcode: str, element: str, arity: int, nearness: Nearness, label: str = "", **more: Any
) -> Iterator[Case]:
    for dims in SHAPES:
        name = f"{opcode} {element}{list(dims)}{label}"
        generator = seed_of(name)
        inputs = [values(element, dims, generator) for _ in range(arity)]
        yield _case(name, inputs, nearness, **more)


def unary_floats() -> Iterator[Case]:
    """Ops of one real operand."""
    for element in (*FLOATS, *NARROW_FLOATS):
        for opcode in (*_EXACT_FLOAT, *_FUNCTIONS):
            nearness = _NEAR.get(opcode, _FUNCTION if opcode in _FUNCTIONS else EXACT)
            yield _case(f"{opcode} {element} special", [special_values(element)], nearness)
            if element in FLOATS:
                yield from _of_sizes(opcode, element, 1, nearness)


def unary_complex() -> Iterator[Case]:
    """Ops of one complex operand."""
    for element in COMPLEX:
        for opcode in _COMPLEX_FUNCTIONS:
            nearness = EXACT if opcode in ("negate", "real", "imag") else _COMPLEX_FUNCTION
            finite = special_values(element)
            finite = finite[np.isfinite(finite)]
            yield _case(f"{opcode} {element} special", [finite], nearness)
            yield from _of_sizes(opcode, element, 1, nearness)


def unary_integers() -> Iterator[Case]:
    """Ops of one operand of whole numbers or preds."""
    for element in (*INTEGERS, "pred"):
        opcodes = ("not", "copy")
        if element in INTEGERS:
            opcodes = ("not", "popcnt", "count-leading-zeros", "copy")
        if element in SIGNED:
            opcodes = (*opcodes, "sign", "abs", "negate")
        for opcode in opcodes:
            yield _case(f"{opcode} {element} special", [special_values(element)])
            if dtype(element).bits >= 8:
                yield from _of_sizes(opcode, element, 1, EXACT)


def binary() -> Iterator[Case]:
    """Ops of two operands: every pair of special values, then sizes."""
    for element in (*INTEGERS, *FLOATS, *NARROW_FLOATS):
        whole = element in INTEGERS
        opcodes = (*_ARITHMETIC, *(_BITS if whole else ("power", "atan2")))
        for opcode in opcodes:
            nearness = EXACT if whole else _NEAR.get(opcode, EXACT)
            special = special_values(element)
            yield _case(f"{opcode} {element} special", outer(special, special), nearness)
            if element in INTEGERS or element in FLOATS:
                yield from _of_sizes(opcode, element, 2, nearness)
    for element in COMPLEX:
        for opcode in ("add", "subtract", "multiply", "divide", "power"):
            nearness = _COMPLEX_FUNCTION if opcode != "add" else Nearness(1, 1)
            yield from _of_sizes(opcode, element, 2, nearness)
    for opcode in ("and", "or", "xor", "add", "multiply", "maximum", "minimum"):
        pairs = outer(special_values("pred"), special_values("pred"))
        yield _case(f"{opcode} pred special", pairs)
    for element in ("s32", "s8", "u16", "s64"):
        generator = seed_of(element)
        base, power = special_values(element), generator.integers(0, 9, 9).astype(np.int64)
        inputs = outer(base, power.astype(dtype(element).numpy))
        yield _case(f"power {element} special", inputs)


def compare() -> Iterator[Case]:
    """Comparisons of every direction and type, with and without the total order."""
    for element in (*INTEGERS, *FLOATS, *NARROW_FLOATS, *COMPLEX, "pred"):
        special = special_values(element)
        for direction in _DIRECTIONS:
            if element in COMPLEX and direction not in ("EQ", "NE"):
                continue
            name = f"compare {element} {direction} special"
            yield _case(name, outer(special, special), direction=direction)
            if element in FLOATS:
                name = f"compare {element} {direction} TOTALORDER"
                pairs = outer(special, special)
                yield _case(name, pairs, direction=direction, type="TOTALORDER")
            if element in ("s32", "u8", "f32", "bf16"):
                label = f" {direction}"
                yield from _of_sizes("compare", element, 2, EXACT, label, direction=direction)


def choices() -> Iterator[Case]:
    """Select and clamp: predicates and bounds of full rank and scalars."""
    for element in (*INTEGERS, *FLOATS, *COMPLEX, "pred"):
        for dims in ((0,), (17,), (5, 7, 33)):
            for scalar in (False, True):
                name = f"select {element}{list(dims)} {'scalar' if scalar else ''}"
                generator = seed_of(name)
                predicate = values("pred", () if scalar else dims, generator)
                both = [values(element, dims, generator) for _ in range(2)]
                yield _case(name, [predicate, *both])
                if element in COMPLEX or element == "pred":
                    continue
                bounds = () if scalar else dims
                name = f"clamp {element}{list(dims)} {'scalar' if scalar else ''}"
                inputs = [values(element, size, generator) for size in (bounds, dims, bounds)]
                yield _case(name, inputs)
    for element in FLOATS:
        special = special_values(element)
        low, operand = outer(special, special)
        yield _case(f"clamp {element} special", [low, operand, np.roll(low, 7)])


def conversions() -> Iterator[Case]:
    """Converts between all element types, bit casts between those of one width."""
    every = (*INTEGERS, *FLOATS, *NARROW_FLOATS, *COMPLEX, "pred")
    for source in every:
        for target in every:
            if source in COMPLEX and target not in COMPLEX:
                continue
            name = f"convert {source} {target}"
            generator = seed_of(name)
            data = special_values(source)
            shape = f"{target}[{data.size}]"
            yield _case(f"{name} special", [data], shape=shape)
            if dtype(source).bits >= 8 and dtype(target).bits >= 8:
                data = values(source, (9, 37), generator)
                dims = ",".join(map(str, data.shape))
                yield _case(f"{name} [9,37]", [data], shape=f"{target}[{dims}]")
            same = dtype(source).bits == dtype(target).bits >= 8
            if same and "pred" not in (source, target) and not {source, target} & {*COMPLEX}:
                data = special_values(source)
                yield _case(f"bitcast-convert {source} {target}", [data],
                            shape=f"{target}[{data.size}]")  # fmt: skip
    for source, target in (("f32", "u8"), ("s64", "f16"), ("u64", "s32"), ("bf16", "s8")):
        data = values(source, (3, 5), seed_of(source))
        ratio = dtype(source).bits // dtype(target).bits
        yield _case(f"bitcast-convert {source} {target} split", [data],
                    shape=f"{target}[3,5,{ratio}]")  # fmt: skip
        back = data.view(np.uint8).view(dtype(target).numpy).reshape(3, 5, ratio)
        yield _case(f"bitcast-convert {target} {source} join", [back], shape=f"{source}[3,5]")


def precision() -> Iterator[Case]:
    """Reduce-precision to several formats."""
    for element in ("bf16", "f16", "f32", "f64"):
        for exponent, mantissa in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (11, 52), (2, 1)):
            name = f"reduce-precision {element} e{exponent}m{mantissa}"
            yield _case(name, [special_values(element)],
                        exponent_bits=exponent, mantissa_bits=mantissa)  # fmt: skip


def complex_parts() -> Iterator[Case]:
    """Complex numbers from parts."""
    for element in ("f32", "f64"):
        yield from _of_sizes("complex", element, 2, EXACT)
        yield from _of_sizes("real", element, 1, EXACT)
        yield from _of_sizes("imag", element, 1, EXACT)


def cases() -> Iterator[Case]:
    """Every elementwise case."""
    for family in (
        unary_floats, unary_complex, unary_integers, binary, compare, choices, conversions,
        precision, complex_parts,
    ):  # fmt: skip
        yield from family()
