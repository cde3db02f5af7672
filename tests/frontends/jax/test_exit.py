# SPDX-License-Identifier: Apache-2.0
"""The end of a process whose program does not end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

PROGRAM = """
import jax, jax.numpy as jnp
jax.jit(lambda x: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: c * 1.0, x))(jnp.ones(1000))
print("on its way")
"""


def test_an_endless_program_is_cut_off() -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "ingot", "INGOT_EXIT_TIMEOUT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "on its way\n"), done.stderr
