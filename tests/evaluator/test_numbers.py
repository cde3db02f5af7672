# SPDX-License-Identifier: Apache-2.0
"""Number formats: conversions, bits and order agree with independent statements of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.evaluator.numbers import bits_of, converted, from_bits, rounded, total_order_key
from ingot.evaluator.random import philox, threefry
from ingot.hlo.dtype import DTYPES, dtype

_INTEGERS = [name for name, row in DTYPES.items() if row.is_integer]
_FLOATS = [name for name, row in DTYPES.items() if row.is_float]


@given(st.floats(allow_nan=True), st.sampled_from(_INTEGERS))
def test_float_to_integer_saturates(value: float, name: str) -> None:
    element = dtype(name)
    low = -(1 << (element.bits - 1)) if element.is_signed else 0
    high = (1 << (element.bits - 1)) - 1 if element.is_signed else (1 << element.bits) - 1
    if math.isnan(value):
        want = 0
    elif math.isinf(value):
        want = high if value > 0 else low
    else:
        want = min(max(math.trunc(value), low), high)
    assert int(converted(np.array(value), element)) == want


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(_INTEGERS))
def test_integer_to_integer_wraps(value: int, name: str) -> None:
    element = dtype(name)
    want = value & ((1 << element.bits) - 1)
    if element.is_signed and want >> (element.bits - 1):
        want -= 1 << element.bits
    assert int(converted(np.array(value, np.int64), element)) == want


@pytest.mark.parametrize("name", _FLOATS)
def test_rounding_keeps_exact_values(name: str) -> None:
    storage = dtype(name).numpy
    exact = np.array([0.5, 1.0, 2.0, 4.0]).astype(storage)
    np.testing.assert_array_equal(rounded(exact.astype(np.float32), dtype(name)), exact)


@pytest.mark.parametrize("name", [n for n in (*_INTEGERS, *_FLOATS) if n not in ("f4e2m1fn",)])
def test_bits_there_and_back(name: str) -> None:
    element = dtype(name)
    raw = np.random.default_rng(1).integers(0, 2, (2, 5, element.bits), dtype=np.uint8)
    np.testing.assert_array_equal(bits_of(from_bits(raw, element)), raw)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_total_order(name: str) -> None:
    ordered = [-np.nan, -np.inf, -2.5, -1e-6, -0.0, 0.0, 1e-6, 1, np.inf, np.nan]
    values = np.array(ordered).astype(dtype(name).numpy)
    values[0] = np.copysign(values[0], -1)
    values[-1] = np.copysign(values[-1], 1)
    keys = total_order_key(values)
    assert (np.diff(keys.astype(object)) > 0).all()


def test_philox_known_answers() -> None:
    # Random123's kat_vectors: philox4x32 10 rounds.
    _, bits = philox(0, 0, (4,), wide=False)
    assert bits.tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = 2**128 - 1
    after, bits = philox(2**64 - 1, ones, (4,), wide=False)
    assert bits.tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert after == 0


def test_threefry_known_answers() -> None:
    # Random123's kat_vectors: threefry2x32 20 rounds.
    _, bits = threefry(0, 0, (2,), wide=False)
    assert bits.tolist() == [0x6B200159, 0x99BA4EFE]
    after, bits = threefry(2**64 - 1, 2**64 - 1, (2,), wide=False)
    assert bits.tolist() == [0x1CB996FC, 0xBB002BE7]
    assert after == 0
