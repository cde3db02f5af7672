# SPDX-License-Identifier: Apache-2.0
"""Runs a TensorFlow function twice, as TensorFlow and as lowered HLO in the evaluator.

Tables of cases are checked by `check`: same dtypes, same shapes, same values within a tolerance.
With `open_sizes`, the same is done once more with every size over 1 unknown at trace time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ingot.evaluator.interpreter import evaluate
from ingot.frontends.tensorflow.graphs.binding import LoweredFunction
from ingot.frontends.tensorflow.graphs.capture import capture
from ingot.frontends.tensorflow.graphs.variables import bind
from ingot.frontends.tensorflow.lowering import lower
from ingot.hlo.verifier import verify

TOLERANCES = {
    np.dtype(np.float64): 1e-12,
    np.dtype(np.float32): 2e-6,
    np.dtype(np.float16): 2e-3,
    np.dtype(tf.bfloat16.as_numpy_dtype): 2e-2,
    np.dtype(np.complex64): 2e-6,
    np.dtype(np.complex128): 1e-12,
}


@dataclass(frozen=True)
class Program:
    """A traced function and its lowering."""

    concrete: Any
    lowered: LoweredFunction

    def arguments(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Return the entry's arguments: inputs, and the present values of variables."""
        values = [*inputs, *self.concrete.captured_inputs]
        by_handle = {id(v.handle): v for v in self.concrete.graph.variables}
        found = (values[parameter.input] for parameter in self.lowered.binding.parameters)
        return [np.asarray(by_handle.get(id(value), value)) for value in found]

    def evaluate(self, inputs: Sequence[Any]) -> tuple[list[Any], list[tuple[tf.Variable, Any]]]:
        """Return the function's outputs and its variables' new values, as HLO says."""
        results = evaluate(self.lowered.module, self.arguments(inputs))
        values = [*inputs, *self.concrete.captured_inputs]
        outputs: list[Any] = [None] * len(self.concrete.graph.outputs)
        for output, source in self.lowered.binding.handed_on:
            outputs[output] = values[source]
        variables: list[tuple[tf.Variable, Any]] = []
        by_handle = {id(v.handle): v for v in self.concrete.graph.variables}
        for binding, value in zip(self.lowered.binding.results, results, strict=True):
            if binding.output is not None:
                outputs[binding.output] = value
            else:
                variables.append((by_handle[id(values[binding.variable])], value))
        return outputs, variables


def trace(
    function: Callable[..., Any], specs: Sequence[tf.TensorSpec], *, autograph: bool = False
) -> Program:
    """Trace, capture and lower a function; the module is verified."""
    concrete = tf.function(function, autograph=autograph).get_concrete_function(*specs)
    source, binding = bind(capture(concrete.name, concrete.graph))
    lowered = lower(source, binding, "test")
    verify(lowered.module)
    return Program(concrete, lowered)


def specs_of(inputs: Sequence[Any], *, open_sizes: bool = False) -> list[tf.TensorSpec]:
    """Return the inputs' specs; with `open_sizes`, sizes over 1 are unknown."""
    return [
        tf.TensorSpec(
            [None if open_sizes and size > 1 else size for size in np.shape(item)],
            tf.as_dtype(np.asarray(item).dtype),
        )
        for item in inputs
    ]


def check(
    function: Callable[..., Any],
    *inputs: Any,
    open_sizes: bool = False,
    specs: Sequence[tf.TensorSpec] | None = None,
    tolerance: float | None = None,
    autograph: bool = False,
) -> Program:
    """Hold the lowered function against TensorFlow's own result on `inputs`."""
    arrays = [np.asarray(item) for item in inputs]
    program = trace(function, specs or specs_of(arrays, open_sizes=open_sizes), autograph=autograph)
    got, variables = program.evaluate(arrays)
    results = program.concrete(*map(tf.constant, arrays))
    wanted = tf.nest.flatten(results, expand_composites=True)
    for have, want in zip(got, wanted, strict=True):
        assert_same(have, np.asarray(want), tolerance)
    for variable, value in variables:
        assert_same(value, variable.numpy(), tolerance)
    return program


def assert_same(have: Any, want: np.ndarray, tolerance: float | None = None) -> None:
    """Hold two arrays against each other; integers and bools must be equal."""
    have = np.asarray(have)
    assert have.dtype == want.dtype
    assert have.shape == want.shape
    limit = TOLERANCES.get(want.dtype, 0.0) if tolerance is None else tolerance
    if want.dtype.kind in "fc" or want.dtype.kind == "V" or limit:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            have.astype(wide), want.astype(wide), rtol=limit, atol=limit, equal_nan=True
        )
    else:
        np.testing.assert_array_equal(have, want)


def numbers(*dims: int, dtype: Any = np.float32, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Return repeatable numbers of both signs."""
    generator = np.random.default_rng([seed, *dims])
    if np.dtype(dtype).kind in "iu":
        low = -9 if np.dtype(dtype).kind == "i" else 0
        return generator.integers(low, 10, dims).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return generator.integers(0, 2, dims).astype(bool)
    values = generator.standard_normal(dims) * scale
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(dims)
    return np.asarray(values).astype(dtype)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, -1e30, np.inf, -np.inf, np.nan]
"""Values at which elementwise ops differ from each other."""


def gradient_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the gradient of a function of one operand."""

    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return run


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives the value and the gradients for each operand."""

    def run(*operands: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = function(*operands)
            total = tf.reduce_sum(y * y)
        return y, *tape.gradient(total, operands)

    return run
