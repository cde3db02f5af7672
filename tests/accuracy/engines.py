# SPDX-License-Identifier: Apache-2.0
"""One function compiled for whole arrays: by Ingot at an ISA level, by XLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from tests.accuracy.functions import Array, Function

import ingot
from ingot.llvm.target import TargetSpec, host_levels

NUMPY = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
LEVELS = host_levels()
XLA = "XLA"
Engine = Callable[..., Array]


@cache
def engine(name: str, function: Function, element: str, count: int) -> Engine:
    """Return the function compiled by the engine (a level, or "XLA") for arrays of this length."""
    if name == XLA:
        return _xla(function, element, count)
    return ingot.compile(
        ingot.parse_hlo(function.hlo(element, count)), target=TargetSpec.host(name)
    )


def _xla(function: Function, element: str, count: int) -> Engine:
    import jax

    def traced(*args: Any) -> Any:
        if function.name == "round-nearest-even":
            return jax.lax.round(args[0], jax.lax.RoundingMethod.TO_NEAREST_EVEN)
        return getattr(jax.lax, function.jax)(*args)

    device = jax.devices("cpu")[0]
    with jax.enable_x64(True):
        shape = jax.ShapeDtypeStruct((count,), NUMPY[element])
        sharding = jax.sharding.SingleDeviceSharding(device)
        compiled = jax.jit(traced, in_shardings=sharding).lower(*[shape] * function.arity).compile()

    def call(*args: Array) -> Array:
        with jax.enable_x64(True):
            return np.asarray(compiled(*[jax.device_put(item, device) for item in args]))

    return call


def apply(name: str, function: Function, element: str, *args: Array, block: int = 1 << 16) -> Array:
    """Return the engine's results on arrays of any length."""
    count = args[0].size
    compiled = engine(name, function, element, block)
    parts: list[Array] = []
    for start in range(0, count, block):
        pieces = [item[start : start + block] for item in args]
        missing = block - pieces[0].size
        # 1 is in the domain of every function.
        padded = [np.concatenate([item, np.ones(missing, item.dtype)]) for item in pieces]
        parts.append(np.asarray(compiled(*padded))[: pieces[0].size])
    return np.concatenate(parts)
