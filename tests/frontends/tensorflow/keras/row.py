# SPDX-License-Identifier: Apache-2.0
"""A row of the tables: one class or function of Keras as a program, and how it is compared.

A program is a function of `jit`, the value that it hands to `jit_compile`. It makes everything that
it uses from fresh seeds, so that random layers and initializers give the same numbers both times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.keras.names import is_left_out
from tests.frontends.tensorflow.keras.which import IS_KERAS_2
from tests.frontends.tensorflow.programs.beside import (
    COMPILED,
    Program,
    counting_compiler,
    run,
)
from tests.xla_compilations import on_purpose

from ingot.frontends.tensorflow import hook


@dataclass(frozen=True)
class Row:
    """A class or function of Keras beside plain TensorFlow.

    Attributes:
        name: module and name, `layers.Dense`.
        program: runs it.
        strict: whether everything must be compiled; else the host may run what only it can do.
    """

    name: str
    program: Program
    strict: bool = True


ROWS: dict[str, Row] = {}
"""All rows, by name; `table` fills it."""


def enter(name: str, program: Program, strict: bool = True) -> None:
    """Enter a row into the table, if this Keras has what it runs and no row of its own for it."""
    assert IS_KERAS_2 or name not in ROWS, name
    if not is_left_out(name) and name not in ROWS:
        ROWS[name] = Row(name, program, strict)


def check_row(row: Row) -> None:
    """Hold results, dtypes, shapes and gradients of a row against plain TensorFlow's."""
    hook.disable()
    with on_purpose():  # TensorFlow's own kernel of XlaDynamicUpdateSlice is its XLA
        wanted = run(row.program, None)
    hook.enable(counting_compiler, strict=row.strict)
    COMPILED.clear()
    got = run(row.program, True)
    assert COMPILED or not row.strict, "nothing was compiled"
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        if want.dtype.kind in "fcV":
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            have, want = have.astype(wide), want.astype(wide)
            finite = np.abs(want[np.isfinite(want)])
            scale = max(1.0, float(finite.max(initial=0.0)))
            np.testing.assert_allclose(have / scale, want / scale, rtol=3e-4, atol=3e-5)
        else:
            np.testing.assert_array_equal(have, want)


def weighted(results: Any) -> Any:
    """Return a sum of the floating-point results with fixed weights."""
    total = tf.constant(0.0)
    for result in tf.nest.flatten(results):
        if not tf.is_tensor(result) or not (result.dtype.is_floating or result.dtype.is_complex):
            continue
        real = tf.cast(tf.abs(result) if result.dtype.is_complex else result, tf.float32)
        flat = tf.reshape(real, [-1])
        total += tf.reduce_sum(flat * tf.cos(tf.cast(tf.range(tf.size(flat)), tf.float32) * 1.3))
    return total


def with_gradients(function: Callable[..., Any], *arguments: Any, variables: Any = ()) -> Any:
    """Return results of a function and gradients by its floating-point tensors and variables."""
    sources = [item for item in tf.nest.flatten(list(arguments)) if item.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = function(*arguments)
        total = weighted(results)
    sources.extend(variables)
    return results, tape.gradient(total, sources, unconnected_gradients="zero")


def calling(function: Callable[..., Any], arguments: tuple[Any, ...], differentiable: bool) -> Any:
    """Return the program that calls a function; arrays are arguments, the rest is written in it."""
    flat = tf.nest.flatten(arguments)
    places = [index for index, item in enumerate(flat) if isinstance(item, np.ndarray)]

    def call(*tensors: Any) -> Any:
        filled = list(flat)
        for index, tensor in zip(places, tensors, strict=True):
            filled[index] = tensor
        return function(*tf.nest.pack_sequence_as(arguments, filled))

    def program(jit: Any) -> Any:
        body = (lambda *tensors: with_gradients(call, *tensors)) if differentiable else call
        compiled = tf.function(body, jit_compile=jit, autograph=False)
        return compiled(*[tf.constant(flat[index]) for index in places])

    return program
