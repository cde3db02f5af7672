# SPDX-License-Identifier: Apache-2.0
"""Floats to integers: truncated, held within range, NaN to 0; every width, signed and not."""

import numpy as np
import pytest
from tests.llvm.math_harness import run

from ingot.llvm.math.saturating import to_integer
from ingot.llvm.target import host_levels
from ingot.llvm.types import F32, F64, I8, I16, I32, I64

FLOATS = [(F32, np.float32), (F64, np.float64)]
INTEGERS = [(I8, "int8"), (I16, "int16"), (I32, "int32"), (I64, "int64")]


def awkward(kind: type) -> np.ndarray:
    """Specials, and the neighbours of every power of two up to 2^65, of both signs."""
    powers = 2.0 ** np.arange(-2, 66)
    powers = powers.astype(kind)
    near = [powers, np.nextafter(powers, kind(0)), np.nextafter(powers, kind(np.inf)), powers - 1]
    some = np.random.default_rng(0).uniform(-300, 300, 500).astype(kind)
    ends = np.array([np.nan, np.inf, 0.0, np.finfo(kind).max, np.finfo(kind).tiny], kind)
    values = np.concatenate([*near, some, ends])
    values = np.concatenate([values, -values])
    return np.resize(values, -(-values.size // 16) * 16)


def saturated(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return the same in Python's integers."""
    ends = np.iinfo(kind)
    held = [0 if np.isnan(v) else max(min(v, 1e30), -1e30) for v in map(float, x)]
    return np.array([max(ends.min, min(ends.max, int(v))) for v in held], kind)


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize(("integer", "name"), INTEGERS)
@pytest.mark.parametrize(("element", "kind"), FLOATS)
def test_integers_are_held_in_range(element, kind, integer, name, is_signed, level) -> None:
    x = awkward(kind)
    out = np.empty(x.size, np.dtype(name if is_signed else "u" + name))

    def emit(f, value, _):
        return to_integer(f, value, value.type.with_element(integer), is_signed=is_signed)

    run(emit, element, x, out, level)
    np.testing.assert_array_equal(out, saturated(x, out.dtype))
