# SPDX-License-Identifier: Apache-2.0
"""`import ingot.jax`: the public name of the JAX front end.

JAX itself finds it through an entry point, so `JAX_PLATFORMS=ingot python program.py` needs no
import. A program that chooses its platform in code calls `ingot.jax.initialize()` before the first
computation, then `jax.config.update("jax_platforms", "ingot")`.
"""

from ingot.frontends.jax import initialize

__all__ = ["initialize"]
