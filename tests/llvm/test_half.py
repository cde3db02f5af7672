# SPDX-License-Identifier: Apache-2.0
"""f16 and bf16 conversion: every bit pattern, and rounding to nearest even."""

import ml_dtypes
import numpy as np
import pytest
from tests.llvm.math_harness import CONVERTED_LANES, run

from ingot.llvm.math.half import narrow, narrow_f64, round_to_bf16, widen
from ingot.llvm.target import host_levels
from ingot.llvm.types import BF16, F16, F32, F64

KINDS = [(F16, np.float16), (BF16, ml_dtypes.bfloat16)]


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(("element", "dtype"), KINDS)
def test_widening_every_pattern(element, dtype, level: str) -> None:
    x = np.arange(65536, dtype=np.uint16)
    out = np.empty(65536, np.float32)
    run(widen, element, x, out, level)
    np.testing.assert_array_equal(out, x.view(dtype).astype(np.float32))


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(("element", "dtype"), KINDS)
def test_narrowing_rounds_to_nearest_even(element, dtype, level: str) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(65536, dtype=np.uint16).view(dtype).astype(np.float32)
    bits = every.view(np.uint32)
    # Each 16-bit number, the middle to the next, and the neighbours of the middle.
    shift = 13 if element is F16 else 16
    middle = bits + np.uint32(1 << (shift - 1))
    parts = [bits, middle, middle - 1, middle + 1, rng.integers(0, 2**32, 65536, np.uint32)]
    x = np.concatenate(parts).astype(np.uint32).view(np.float32)
    out = np.empty(x.size, np.uint16)
    run(lambda f, v, c: narrow(f, v, element, c), F32, x, out, level)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    nan = np.isnan(x)
    np.testing.assert_array_equal(np.isnan(out.view(dtype).astype(np.float32)), nan)
    np.testing.assert_array_equal(out[~nan], wanted.view(np.uint16)[~nan])


@pytest.mark.parametrize(("element", "dtype"), KINDS)
def test_narrowing_f64_rounds_once(element, dtype) -> None:
    rng = np.random.default_rng(0)
    every = np.arange(0x7C00 if element is F16 else 0x7F80, dtype=np.uint16).view(dtype)
    every = every.astype(np.float64)
    middle = (every[:-1] + every[1:]) / 2
    x = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    x = np.concatenate([x, -x, rng.normal(size=5000)])
    x = x[: x.size // CONVERTED_LANES * CONVERTED_LANES]
    out = np.empty(x.size, np.uint16)
    run(lambda f, v, c: narrow_f64(f, v, element, c), F64, x, out, "plain")
    lower = np.searchsorted(every, np.abs(x), side="right") - 1
    upper = np.minimum(lower + 1, every.size - 1)
    below, above = np.abs(x) - every[lower], every[upper] - np.abs(x)
    up = (above < below) | ((above == below) & (lower % 2 == 1))
    wanted = np.where(up, upper, lower) + np.where(x < 0, 0x8000, 0)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("level", host_levels())
def test_rounding_results_to_bf16(level: str) -> None:
    every = np.arange(65536, dtype=np.uint32) << 16
    parts = [every + low for low in (0, 0x7FFF, 0x8000, 0x8001)]
    x = np.concatenate(parts).astype(np.uint32).view(np.float32)
    # NaN as arithmetic on bf16 makes it.
    x = np.where(np.isnan(x), (x.view(np.uint32) & 0xFFFF0000 | 0x400000).view(np.float32), x)
    out = np.empty(x.size, np.float32)
    run(lambda f, v, _: round_to_bf16(f, v), F32, x, out, level)
    wanted = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(wanted))
