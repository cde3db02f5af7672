# SPDX-License-Identifier: Apache-2.0
"""Which platforms JAX was told to use.

Invariant: it imports no part of the compiler, since every process that uses JAX asks it.
"""

from __future__ import annotations

from typing import Any

NAME = "ingot"


def platforms() -> list[str]:
    """Return the platforms that JAX was told to use; empty if it may choose."""
    import jax

    config: Any = jax.config
    return [name for name in (config.jax_platforms or "").split(",") if name]


def is_wanted() -> bool:
    """Whether JAX was told to use Ingot."""
    return NAME in platforms()
