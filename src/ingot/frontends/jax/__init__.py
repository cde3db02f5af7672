# SPDX-License-Identifier: Apache-2.0
"""JAX on Ingot: `JAX_PLATFORMS=ingot python any_jax_program.py`.

JAX finds this module through the entry-point group `jax_plugins` and calls `initialize()`. The
device is Ingot's PJRT client (`ingot.client.pjrt`). Invariant: importing this module imports
neither JAX nor the compiler, and a process whose JAX uses other platforms is not changed.
"""

from __future__ import annotations


def initialize() -> None:
    """Register the platform `ingot`, unless JAX was told to use others only."""
    from ingot.frontends.jax.platforms import is_wanted

    if is_wanted():
        from ingot.support.collector import importing
        from ingot.support.quick_exit import exit_quickly

        with importing():
            from ingot.frontends.jax.registration import register

        register()
        exit_quickly()


__all__ = ["initialize"]
