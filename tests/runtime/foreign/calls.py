# SPDX-License-Identifier: Apache-2.0
"""Call sites made by hand, and matrices to call them with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.hlo.dtype import dtype
from ingot.hlo.shape import Layout, Shape
from ingot.runtime.foreign.lapack.targets import register_lapack, target_name
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite

register_lapack()
ELEMENTS = ("f32", "f64", "c64", "c128")
TOLERANCE = {"f32": 2e-4, "c64": 2e-4, "f64": 1e-11, "c128": 1e-11}


def real_of(element: str) -> str:
    """Return the element type of real parts."""
    return {"c64": "f32", "c128": "f64"}.get(element, element)


def complex_of(element: str) -> str:
    """Return the complex element type of a real one."""
    return {"f32": "c64", "f64": "c128"}.get(element, element)


def shape(element: str, dims: tuple[int, ...], *, columns: bool = False) -> Shape:
    """Return a shape, row-major or (`columns`) with column-major matrices."""
    rank = len(dims)
    layout = (rank - 2, rank - 1, *range(rank - 3, -1, -1)) if columns else range(rank - 1, -1, -1)
    return Shape.array(element, dims, Layout(tuple(layout)))


def call(routine: str, element: str, config: str, *parts: Any) -> tuple[Any, ...]:
    """Run a LAPACK target: operand arrays, then `None`, then (element, dims) of results."""
    split = next(place for place, part in enumerate(parts) if part is None)
    operands, results = parts[:split], parts[split + 1 :]
    rank = max(array.ndim for array in operands)
    site = CallSite(
        target_name(routine, element),
        tuple(
            shape(dtype_name(array), array.shape, columns=array.ndim == rank) for array in operands
        ),
        tuple(shape(name, dims, columns=len(dims) == rank) for name, dims in results),
        config,
        "API_VERSION_TYPED_FFI",
    )
    target = custom_calls.find(site.target)
    assert target is not None
    assert target.evaluate is not None
    return target.evaluate(site, *operands)


def dtype_name(array: Any) -> str:
    """Return XLA's name of an array's element type."""
    names = ("f32", "f64", "c64", "c128", "s32", "s64")
    return next(name for name in names if dtype(name).numpy == array.dtype)


def matrices(element: str, dims: tuple[int, ...], seed: int = 0) -> Any:
    """Return normal random matrices."""
    generator = np.random.default_rng(seed)
    value = generator.standard_normal(dims)
    if element.startswith("c"):
        value = value + 1j * generator.standard_normal(dims)
    return value.astype(dtype(element).numpy)


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def assert_close(element: str, found: Any, expected: Any, who: str = "") -> None:
    """Demand equality up to the element type's precision; `who` is said where it fails."""
    tolerance = TOLERANCE[element]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=who)
