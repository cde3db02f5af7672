# SPDX-License-Identifier: Apache-2.0
"""Ops of JAX that Ingot is given whole, where JAX's CPU lowering writes something slower.

`ragged_dot` is lowered on CPUs to one product of all groups, of masked rows: each row is multiplied
once per group. Here it is the composite `chlo.ragged_dot`, which Ingot reads as HLO's `ragged-dot`;
its decomposition is what JAX would have written, so anything else can read the program too. With 8
groups of f32 it takes 0.2 to 0.35 of the time, with 64 groups 0.06, of bf16 with 8 groups 0.25 to
0.4 (AVX-512 and AMX, one thread, 2026-11-30).

A program that a partitioner divides over devices keeps JAX's lowering, whose products it can
divide, and so does one of symbolic sizes, which JAX's composites cannot have. Within `shard_map`
each device has an op of its own.

Source: jax/_src/lax/lax.py (_ragged_dot_general_lower).
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def install_lowerings(platform: str) -> None:
    """Register the lowerings for a platform of JAX."""
    lax: Any = importlib.import_module("jax._src.lax.lax")
    mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    is_known: Any = importlib.import_module("jax._src.core").is_constant_shape
    written_out = mlir.lower_fun(lax._ragged_dot_general_impl, multiple_results=False)

    def lowered(ctx: Any, *operands: Any, **given: Any) -> Any:
        has_vector = ctx.avals_in[2].ndim == 1
        is_preset = isinstance(given["precision"], lax.DotAlgorithm | lax.DotAlgorithmPreset)
        is_static = all(is_known(aval.shape) for aval in ctx.avals_in)
        is_whole = has_vector and is_static and not is_preset
        if not (is_whole and _is_of_one_device(ctx.module_context.axis_context)):
            return written_out(ctx, *operands, **given)

        def whole(*arrays: Any) -> Any:
            def decomposition(*parts: Any, **_: Any) -> Any:
                return lax._ragged_dot_general_impl(*parts, **given)

            attributes = _attributes(given["ragged_dot_dimension_numbers"])
            return lax.composite(decomposition, "chlo.ragged_dot")(*arrays, **attributes)

        return mlir.lower_fun(whole, multiple_results=False)(ctx, *operands)

    mlir.register_lowering(lax.ragged_dot_general_p, lowered, platform=platform)


def _is_of_one_device(context: Any) -> bool:
    """Whether no partitioner divides what is lowered in this context."""
    if hasattr(context, "manual_axes"):
        return context.manual_axes == frozenset(context.mesh.axis_names)
    return getattr(context, "num_devices", 0) == 1


def _attributes(numbers: Any) -> dict[str, np.ndarray]:
    """Return the dimensions under the names that `RaggedDotAttributes` has."""
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = numbers.dot_dimension_numbers
    dims = {
        "lhs_batch_dims": lhs_batch,
        "lhs_contracting_dims": lhs_contracting,
        "rhs_batch_dims": rhs_batch,
        "rhs_contracting_dims": rhs_contracting,
        "lhs_ragged_dims": numbers.lhs_ragged_dimensions,
        "rhs_group_dims": numbers.rhs_group_dimensions,
    }
    return {name: np.array(found, np.int64) for name, found in dims.items()}
