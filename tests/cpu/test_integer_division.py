# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders of integers in lanes: any numbers, edges among them, by the integers."""

import numpy as np
import pytest

import ingot
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec, host_levels

COUNT = 700
DIVISORS = ("y = T[N] parameter(1)", "c = T[] constant(7)\n  y = T[N] broadcast(c), dimensions={}")


def numbers(name, seed):
    """Return numbers of all lengths, and the greatest, the least and those about halfway."""
    info, generator = np.iinfo(dtype(name).numpy), np.random.default_rng(seed)
    found = generator.integers(info.min, info.max, COUNT, dtype=info.dtype, endpoint=True)
    found >>= generator.integers(0, info.bits, COUNT).astype(info.dtype)
    edges = (0, 1, 2, info.max, info.max - 1, info.min, info.min + 1, info.max // 2 + 1)
    edges += (-1,) if info.min else ()
    places = generator.integers(0, COUNT, COUNT // 3)
    found[places] = generator.choice(np.array(edges, info.dtype), places.size)
    return found


def divided(x, y, least):
    """Return quotient and remainder of Python integers as HLO has them."""
    if y == 0:
        return -1, x
    if y == -1:
        return (x if x == least else -x), 0
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
def test_quotients_and_remainders(name, level):
    x, y = numbers(name, 0), numbers(name, 1)
    x[::5] = y[::5] * 3 - 1
    for divisor in DIVISORS:
        text = f"""HloModule m
ENTRY e {{
  x = T[N] parameter(0)
  {divisor}
  q = T[N] divide(x, y)
  r = T[N] remainder(x, y)
  ROOT both = (T[N], T[N]) tuple(q, r)
}}"""
        module = ingot.parse_hlo(text.replace("T[", f"{name}[").replace("N]", f"{COUNT}]"))
        inputs = (x, y) if "parameter(1)" in divisor else (x,)
        found = ingot.compile(module, target=TargetSpec.host(level))(*inputs)
        by = y if len(inputs) == 2 else np.full_like(x, 7)
        least = np.iinfo(x.dtype).min
        pairs = [divided(int(a), int(b), least) for a, b in zip(x, by, strict=True)]
        for got, wanted in zip(found, zip(*pairs, strict=True), strict=True):
            np.testing.assert_array_equal(
                got, np.array([w % (1 << 64) for w in wanted], np.uint64).astype(x.dtype)
            )
