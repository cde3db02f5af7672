# SPDX-License-Identifier: Apache-2.0
"""`jit(f).lower(...).cost_analysis()` on Ingot: the costs of the compiled program.

JAX's own backends count the operations of the uncompiled program; for backends behind the PJRT C
API JAX returns None. Invariant: other backends keep their result.

Source: jax/_src/interpreters/pxla.py (MeshComputation.cost_analysis).
"""

from __future__ import annotations

import functools
from typing import Any


def install_costs() -> None:
    """Make a lowered program for Ingot return the costs of its compiled one."""
    from jax._src.interpreters import pxla

    computation: Any = pxla.MeshComputation
    original = computation.cost_analysis

    @functools.wraps(original)
    def cost_analysis(lowered: Any) -> dict[str, float]:
        if "ingot" not in lowered.compile_args["backend"].platform_version:
            return original(lowered)
        return lowered.compile().cost_analysis()

    computation.cost_analysis = cost_analysis
