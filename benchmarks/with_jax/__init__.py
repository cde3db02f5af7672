# SPDX-License-Identifier: Apache-2.0
"""Whole JAX programs on Ingot and on JAX's own CPU backend: `make bench-jax`."""
