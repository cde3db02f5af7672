# SPDX-License-Identifier: Apache-2.0
"""Functions of `custom_partitioning` on Ingot: lowered as any other function.

On several devices JAX lowers them to a custom call that names a Python object by its address, for
jaxlib's partitioner. Ingot partitions the function's own ops instead, and does not call the user's
partitioners. Invariant: JAX's own CPU backend keeps its lowering, since this one is installed only
if Ingot is the only CPU.

Source: jax/_src/custom_partitioning.py (_custom_partitioning_lowering_rule).
"""

from __future__ import annotations

from typing import Any


def install_partitioning() -> None:
    """Make JAX lower `custom_partitioning` functions to their own ops."""
    from jax._src import core, custom_partitioning
    from jax._src.interpreters import mlir

    internal: Any = mlir
    jaxpr_function: Any = core.jaxpr_as_fun
    primitive: Any = custom_partitioning.custom_partitioning_p

    def lower(context: Any, *values: Any, call: Any, **_: Any) -> Any:
        return internal.lower_fun(jaxpr_function(call), multiple_results=True)(context, *values)

    internal.register_lowering(primitive, lower)
