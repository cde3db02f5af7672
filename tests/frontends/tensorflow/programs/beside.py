# SPDX-License-Identifier: Apache-2.0
"""Runs a program twice: as plain TensorFlow, and compiled by Ingot. The results must be the same.

A program is a function of `jit`, the value that it hands to `jit_compile`: None for plain
TensorFlow, True for Ingot. It starts from the same seeds both times and returns numbers, arrays or
structures of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.keras.which import keras

from ingot.frontends.tensorflow import hook
from ingot.frontends.tensorflow.compiler import compile_with_ingot

Program = Callable[[Any], Any]

SEED = 7


@dataclass(frozen=True)
class Compilation:
    """A function that was compiled, and what came out."""

    name: str
    executable: Any


COMPILED: list[Compilation] = []
"""Every compilation since the test began."""


def counting_compiler(captured, binding, name, arguments):
    """Compile as Ingot does, and note it."""
    executable = compile_with_ingot(captured, binding, name, arguments)
    COMPILED.append(Compilation(captured.name, executable))
    return executable


@pytest.fixture(autouse=True)
def compiled():
    """Compile with Ingot the functions marked `jit_compile=True`; the value lists them."""
    hook.disable()
    hook.enable(counting_compiler)
    COMPILED.clear()
    yield COMPILED
    hook.disable()


def numbers(*dims: int, seed: int = 0) -> np.ndarray:
    """Return random f32 numbers, the same for the same sizes and seed."""
    return np.random.default_rng([seed, *dims]).normal(size=dims).astype(np.float32)


def compilations_of(part: str) -> list[Compilation]:
    """Return the compilations of functions whose name has `part` in it."""
    return [item for item in COMPILED if part in item.name]


def run(program: Program, jit: Any) -> list[np.ndarray]:
    """Run `program` from fresh seeds and return its results, flat."""
    keras.utils.set_random_seed(SEED)
    results = tf.nest.flatten(program(jit), expand_composites=True)
    return [np.asarray(item.numpy() if hasattr(item, "numpy") else item) for item in results]


def check(program: Program, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Hold what Ingot computes against plain TensorFlow; something must have been compiled."""
    wanted = run(program, None)
    assert not COMPILED, "plain TensorFlow was compiled"
    got = run(program, True)
    assert COMPILED, "nothing was compiled"
    assert_same(got, wanted, rtol, atol)


def assert_same(got, wanted, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Hold two lists of arrays against each other; integers must be equal."""
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        if want.dtype.kind in "fcV":
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            have, want = have.astype(wide), want.astype(wide)
            np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(have, want)
