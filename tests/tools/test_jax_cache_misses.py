# SPDX-License-Identifier: Apache-2.0
"""JAX's explanations of cache misses become observations; its settings are as before."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ingot.support.observing import COMPILED_AGAIN, observed
from ingot.tools.jax_cache_misses import explained_misses


def test_the_argument_that_differs_is_named() -> None:
    jax: Any = pytest.importorskip("jax")

    @jax.jit
    def grows(x: Any, other: Any) -> Any:
        return x + other

    numpy, before = jax.numpy, jax.config.jax_explain_cache_misses
    with observed() as found, explained_misses():
        grows(numpy.ones(3), 1)
        assert found == []
        grows(numpy.ones(4), 1)
        grows(numpy.ones(4), 2)
    grows(numpy.ones(5), 1)
    (miss,) = found
    assert miss.kind == COMPILED_AGAIN
    assert miss.function.startswith(f"grows defined at {__file__}:")
    assert miss.reasons[0] == "at x, now f32[4] and before f32[3]"
    assert miss.reasons[-1].startswith(f"called at {__file__}:")
    assert jax.config.jax_explain_cache_misses == before
    assert "JAX_EXPLAIN_CACHE_MISSES" not in os.environ
