# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 and 4 bits: every bit pattern, every tie, and the formats' own rules."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from ingot.hlo.dtype import dtype, rounded_to
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.math.minifloat import (
    EXPONENT_ONLY,
    MINIFLOATS,
    is_not_zero,
    narrow,
    narrow_f16,
    widen,
)
from ingot.llvm.target import TargetSpec, host_levels
from ingot.llvm.types import F32, F64, I8, I16, I64, PTR, VOID, vector

NAMES = (*MINIFLOATS, EXPONENT_ONLY)
LANES = 16
# Any level does the same integer arithmetic; the lowest and highest are compiled most differently.
LEVELS = (host_levels()[0], host_levels()[-1])


def run(emit: Any, source: Any, x: np.ndarray, out: np.ndarray, level: str) -> None:
    target = TargetSpec.host(level)
    module = ModuleBuilder("minifloat")
    f = module.function("k", VOID, [("x", PTR), ("out", PTR), ("n", I64)])
    given, result, count = f.params
    type = vector(source, LANES)

    def body(i: Any) -> None:
        made = emit(f, f.load(type, f.gep(given, i, source)))
        f.store(made, f.gep(result, i, made.type.element))

    f.for_range(count, body, step=LANES)
    f.ret()
    library = link_object([compile_object(module.text(), target)])
    function = library.function("k", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function(x.ctypes.data, out.ctypes.data, x.size)


def patterns(name: str) -> np.ndarray:
    """Return every bit pattern of a format as its NumPy type."""
    return np.arange(1 << dtype(name).bits, dtype=np.uint8).view(dtype(name).numpy)


def finite(name: str) -> np.ndarray:
    """Return the finite numbers of a format as f64, in order, once each."""
    values = patterns(name).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def whole_vectors(x: np.ndarray) -> np.ndarray:
    """Return `x` with zeros behind it, up to whole vectors."""
    return np.concatenate([x, np.zeros(-x.size % LANES, x.dtype)])


def assert_same_bits(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """Compare bits, any NaN of a format equal to any other."""
    a, b = got.view(dtype(name).numpy), want.view(dtype(name).numpy)
    nan = np.isnan(b.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(a.astype(np.float32)), nan)
    np.testing.assert_array_equal(got[~nan], want.view(np.uint8)[~nan])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_widening_every_pattern(name: str, level: str) -> None:
    x = patterns(name).view(np.uint8)
    out = np.empty(x.size, np.float32)
    run(lambda f, v: widen(f, v, name), I8, x, out, level)
    wanted = patterns(name).astype(np.float32)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(wanted))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_narrowing_every_value_and_tie(name: str, level: str) -> None:
    values = finite(name)
    beyond = values[-1] + (values[-1] - values[-2]) * np.array([0.5, 1, 2, 1000])
    least = values[values > 0][0]
    points = np.concatenate([values, (values[:-1] + values[1:]) / 2, beyond, -beyond,
                             least * np.array([0.5, 0.75, 0.25, 2.0**-30])])  # fmt: skip
    with np.errstate(over="ignore"):
        single = points.astype(np.float32)
    near = [np.nextafter(single, np.float32(to)) for to in (np.inf, -np.inf)]
    # Every f32 exponent and sign with many mantissas, denormals and NaN among them.
    coarse = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    special = np.float32([0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45])
    x = whole_vectors(np.concatenate([single, *near, coarse, special]))
    x = x[~((name == "f4e2m1fn") & np.isnan(x))]
    x = whole_vectors(x)
    out = np.empty(x.size, np.uint8)
    run(lambda f, v: narrow(f, v, name), F32, x, out, level)
    with np.errstate(all="ignore"):
        assert_same_bits(out, rounded_to(dtype(name).numpy, x), name)


@pytest.mark.parametrize("name", NAMES)
def test_narrowing_f64_rounds_once(name: str) -> None:
    values = finite(name)
    middles = (values[:-1] + values[1:]) / 2
    x = whole_vectors(
        np.concatenate([np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf)])
    )
    out = np.empty(x.size, np.uint8)
    run(lambda f, v: narrow(f, v, name), F64, x, out, LEVELS[0])
    got = out[: 2 * middles.size].view(dtype(name).numpy).astype(np.float64)
    np.testing.assert_array_equal(got[: middles.size], values[:-1])
    np.testing.assert_array_equal(got[middles.size :], values[1:])


@pytest.mark.parametrize("level", LEVELS)
def test_narrowing_every_f16(level: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16)
    out = np.zeros(len(x), np.uint8)
    run(narrow_f16, I16, x, out, level)
    with np.errstate(all="ignore"):
        assert_same_bits(out, x.view(np.float16).astype(dtype("f8e5m2").numpy), "f8e5m2")


def test_nan_of_a_format_without_one_is_minus_zero() -> None:
    x = np.float32([np.nan, -np.nan] * (LANES // 2))
    out = np.empty(LANES, np.uint8)
    run(lambda f, v: narrow(f, v, "f4e2m1fn"), F32, x, out, LEVELS[0])
    assert set(out) == {8}


def test_a_nan_keeps_sign_and_payload_when_widened() -> None:
    x = np.uint8([0x7D, 0x7E, 0x7F, 0xFD] * (LANES // 4))
    out = np.empty(LANES, np.float32)
    run(lambda f, v: widen(f, v, "f8e5m2"), I8, x, out, LEVELS[0])
    assert out.view(np.uint32)[:4].tolist() == [0x7FA00000, 0x7FC00000, 0x7FE00000, 0xFFA00000]


@pytest.mark.parametrize("name", NAMES)
def test_nonzero_of_every_pattern(name: str) -> None:
    x = patterns(name).view(np.uint8)
    out = np.empty(x.size, np.uint8)

    def emit(f: Any, v: Any) -> Any:
        return f.zext(is_not_zero(f, v, name), vector(I8, LANES))

    run(emit, I8, x, out, LEVELS[0])
    np.testing.assert_array_equal(out.astype(bool), patterns(name).astype(np.float32) != 0)
