# SPDX-License-Identifier: Apache-2.0
"""Compiled programs beside the evaluator: compile, run, and compare every result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.module import Module
from ingot.llvm.target import TargetSpec

Array = np.ndarray[Any, Any]
Exactness = Literal["values", "signs", "bits"]


class Agreed(NamedTuple):
    """What was compiled, and its results with tuples flattened, which are the evaluator's."""

    executable: Any
    results: list[Array]


def agrees(
    module: Module,
    inputs: Sequence[Any],
    *,
    rtol: float = 0,
    atol: float = 0,
    of_largest: float = 0,
    exact: Exactness = "values",
    names: Sequence[str] = (),
    level: str = "",
    executable: Any = None,
) -> Agreed:
    """Assert that a module compiled for the CPU gives what the evaluator gives.

    Args:
        module: What both run.
        inputs: One array for each parameter; both get the same.
        rtol: See `assert_same`.
        atol: See `assert_same`.
        of_largest: See `assert_same`.
        exact: See `assert_same`.
        names: See `assert_same`.
        level: An x86-64 level to compile for ("avx2"), else the host.
        executable: What to run if the test has compiled the module already.

    Raises:
        AssertionError: The results differ.
    """
    if executable is None:
        target = TargetSpec.host(level) if level else None
        executable = ingot.compile(module, target=target)
    found, wanted = executable(*inputs), evaluate(module, list(inputs))
    how = {"rtol": rtol, "atol": atol, "of_largest": of_largest}
    assert_same(found, wanted, **how, exact=exact, names=names)
    return Agreed(executable, leaves(found))


def assert_same(
    found: Any,
    wanted: Any,
    *,
    rtol: float = 0,
    atol: float = 0,
    of_largest: float = 0,
    exact: Exactness = "values",
    names: Sequence[str] = (),
) -> None:
    """Compare arrays, or nested tuples of them: as many, the same element types and shapes.

    Elements are equal by default. A tolerance applies to floating-point and complex elements
    alone; integers and booleans are always equal. NaN equals NaN, whatever its bits, and -0.0
    equals 0.0 unless `exact` asks for more:

    - "values": as above;
    - "signs": also the signs of zeros and of all other real numbers but NaN, without tolerance;
    - "bits": every bit, with those of NaN, without tolerance.

    Args:
        found: What is tested.
        wanted: What it must be.
        rtol: The largest difference relative to each element.
        atol: The largest difference, to which those of `rtol` and `of_largest` are added.
        of_largest: The largest difference relative to the largest finite element of the array.
        exact: What equality means.
        names: What a message calls each array, else its number.

    Raises:
        AssertionError: They differ.
    """
    assert exact == "values" or not (rtol or atol or of_largest), "bits know no tolerance"
    pairs = zip(leaves(found), leaves(wanted), strict=True)
    for number, (got, want) in enumerate(pairs):
        message = f"result {names[number] if names else number}"
        assert got.dtype == want.dtype, message
        assert got.shape == want.shape, message
        if exact == "bits":
            got, want = _bits(got), _bits(want)
        mine, other = _wide(got), _wide(want)
        if not _is_inexact(want):
            np.testing.assert_array_equal(mine, other, message)
            continue
        if exact == "signs":
            numbers = ~np.isnan(other)
            signs = [np.signbit(one[numbers]) for one in (mine, other)]
            np.testing.assert_array_equal(*signs, f"signs of {message}")
        largest = np.max(np.abs(other), initial=0, where=np.isfinite(other))
        limit = atol + of_largest * float(largest)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=limit, err_msg=message)


def leaves(value: Any) -> list[Array]:
    """Return the arrays of nested tuples in order; an array alone is one."""
    found, rest = [], [value]
    while rest:
        item = rest.pop()
        if isinstance(item, tuple | list):
            rest.extend(reversed(item))
        else:
            found.append(np.asarray(item))
    return found


def agrees_on_normal_numbers(module: Module, of_largest: float, level: str = "") -> None:
    """Call `agrees` with normally distributed numbers, always the same."""
    generator = np.random.default_rng(0)
    inputs = [
        generator.standard_normal(item.shape.dims).astype(item.shape.dtype.numpy)
        for item in module.entry.parameters
    ]
    agrees(module, inputs, of_largest=of_largest, level=level)


def _bits(array: Array) -> Array:
    return np.frombuffer(array.tobytes(), np.uint8)


def _is_inexact(array: Array) -> bool:
    return array.dtype.kind in "fc" or "float" in array.dtype.name


def _wide(array: Array) -> Array:
    """Return what NumPy's comparisons know: the narrow types of ml_dtypes as float64."""
    is_known = array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1
    return array if is_known else array.astype(np.float64)
