# SPDX-License-Identifier: Apache-2.0
"""Floats that were integers, divided by constants: three products give NumPy's quotients."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec

DIVISORS = (255.0, -255.0, 0.22, -0.229, 3.0, 1e-5, 7e9, 1.9999999, 1.0000001, -1.0)
INTEGERS = ("u8", "s8", "s16", "u16", "s32", "u32", "pred")
SIZES = (1, 7, 16, 37, 1000)

QUOTIENT = """HloModule m

ENTRY e {
  x = I[N] parameter(0)
  y = T[N] convert(x)
  c = T[] constant(C)
  b = T[N] broadcast(c), dimensions={}
  ROOT r = T[N] divide(y, b)
}
"""
NORMAL = """HloModule m

ENTRY e {
  x = I[N] parameter(0)
  y = T[N] convert(x)
  most = T[] constant(255)
  b = T[N] broadcast(most), dimensions={}
  part = T[N] divide(y, b)
  mean = T[] constant(0.45)
  m = T[N] broadcast(mean), dimensions={}
  less = T[N] subtract(part, m)
  c = T[] constant(C)
  d = T[N] broadcast(c), dimensions={}
  ROOT r = T[N] divide(less, d)
}
"""


def text_of(program: str, element: str, given: str, size: int, by: float) -> str:
    words = {"I[": f"{given}[", "T[": f"{element}[", "[N]": f"[{size}]", "(C)": f"({by!r})"}
    for old, new in words.items():
        program = program.replace(old, new)
    return program


def samples(given: str, size: int) -> np.ndarray:
    """Return integers of a type: the least, the greatest, zero, one and random ones."""
    if given == "pred":
        return np.arange(size) % 2 == 1
    element = dtype(given).numpy
    limits = np.iinfo(element)
    random = np.random.default_rng(size).integers(
        limits.min, limits.max, size, element, endpoint=True
    )
    first = np.array([limits.min, limits.max, 0, 1], element)[:size]
    random[: first.size] = first
    return random


@pytest.mark.parametrize("given", INTEGERS)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("by", DIVISORS)
def test_quotients_are_rounded_as_divisions_are(given: str, element: str, by: float) -> None:
    of = dtype(element).numpy
    for size in SIZES:
        x = samples(given, size)
        found = ingot.compile(text_of(QUOTIENT, element, given, size, by))(x)
        expected = x.astype(of) / of.type(by)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("by", [0.22, -0.229, 3.0, 1e-4])
@pytest.mark.parametrize(("element", "given"), [("f32", "u8"), ("f32", "s16"), ("f64", "s32")])
def test_quotients_of_quotients(element: str, given: str, by: float) -> None:
    of = dtype(element).numpy.type
    x = np.arange(256, dtype=np.uint8) if given == "u8" else samples(given, 1000)
    found = ingot.compile(text_of(NORMAL, element, given, x.size, by))(x)
    expected = (x.astype(of) / of(255) - of(0.45)) / of(by)
    assert found.tobytes() == expected.tobytes()


def _divides(program: str, level: str, element: str = "f32", by: float = 0.22) -> bool:
    text = text_of(program, element, "u8", 1000, by)
    return "fdiv" in ingot.compile(text, target=TargetSpec.at_level(level)).as_text("llvm")


FLOATS = QUOTIENT.replace("x = I[N]", "x = T[N]").replace("y = T[N] convert(x)", "y = T[N] abs(x)")


def test_where_products_replace_divisions() -> None:
    """Not where a step might overflow or lose bits, nor without FMA, nor for any float."""
    assert not _divides(QUOTIENT, "avx2")
    assert not _divides(NORMAL, "avx2")
    assert _divides(QUOTIENT, "plain")
    assert _divides(QUOTIENT, "avx2", by=1e-30)
    assert _divides(QUOTIENT, "avx2", by=3e30)
    assert _divides(NORMAL, "avx2", by=1e20)
    assert _divides(FLOATS, "avx2")


@pytest.mark.parametrize("by", [0.0, float("inf"), float("nan"), 1e-40, 1e38])
def test_divisors_that_are_no_ordinary_numbers(by: float) -> None:
    x = np.arange(256, dtype=np.uint8)
    found = ingot.compile(text_of(QUOTIENT, "f32", "u8", 256, by))(x)
    with np.errstate(all="ignore"):
        expected = x.astype(np.float32) / np.float32(by)
    np.testing.assert_array_equal(found, expected)


def test_floats_of_any_size_are_divided() -> None:
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 1e38] * 5, np.float32)
    found = ingot.compile(text_of(FLOATS, "f32", "f32", x.size, 0.3))(x)
    assert found.tobytes() == (np.abs(x) / np.float32(0.3)).tobytes()
