# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's functions for `ingot.diff`: compiled by Ingot, and run by TensorFlow.

The reference is the Python function, run eagerly. The variables of the function are restored before
each run and afterwards; the values that a run leaves in them count as results too. Ops are compared
in copies of the function's graph that return every value, the modules that Ingot compiled on random
inputs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ingot.hlo.literal import Array
from ingot.support.diagnostics import UnsupportedError
from ingot.tools.diffs.function_diff import Function, Op, on_random_inputs

if TYPE_CHECKING:
    from ingot.client.executables.executable import Executable
    from ingot.client.executables.staged import StagedExecutable

_BINDING = "tensorflow.python.eager.polymorphic_function.function_type_utils"


def run_both(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """Run a `tf.function` compiled by Ingot and eagerly.

    Raises:
        UnsupportedError: INGOT0363, Ingot does not compile it.
    """
    from ingot.frontends.tensorflow.export.compiler_ir import executables_of

    tf: Any = sys.modules["tensorflow"]
    concrete: Any = function.get_concrete_function(*args, **kwargs)
    variables: Sequence[Any] = concrete.variables
    before = [variable.numpy() for variable in variables]

    def run(call: Callable[..., Any]) -> list[Array]:
        found: Any = call(*args, **kwargs)
        leaves: list[Any] = tf.nest.flatten(found, expand_composites=True)
        after = [variable.numpy() for variable in variables]
        _assign(variables, before)
        return [*(np.asarray(leaf) for leaf in leaves if leaf is not None), *after]

    with _eager(tf):
        want = run(function.python_function)
    got = run(function)
    executables = cast("Sequence[Executable | StagedExecutable]", executables_of(concrete))
    if not executables:
        raise UnsupportedError(
            f"Ingot did not compile the tf.function {function.__name__}",
            code="INGOT0363",
            hint="call ingot.tensorflow.enable() first, and give tf.function(jit_compile=True)",
        )

    def ops() -> list[Op]:
        leaves = _leaves(function, concrete, args, kwargs)
        return _ops(tf, concrete, leaves, lambda: _assign(variables, before))

    return Function(
        title=str(function.__name__),
        reference="TensorFlow run eagerly",
        got=got,
        want=want,
        ops=ops,
        cases=[on_random_inputs(executable.source) for executable in executables],
    )


def _assign(variables: Sequence[Any], values: Sequence[Array]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


@contextmanager
def _eager(tf: Any) -> Generator[None]:
    """Run every tf.function as Python."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _ops(tf: Any, concrete: Any, leaves: Sequence[Any], reset: Callable[[], None]) -> list[Op]:
    """Return every op of a function's graph with its values, compiled and not.

    Args:
        tf: the package.
        concrete: the function.
        leaves: its arguments.
        reset: restores the variables.
    """
    graph = concrete.graph
    tensors = [
        tensor
        for op in graph.get_operations()
        if op.type not in ("Placeholder", "Const")
        for tensor in op.outputs
        if tensor.dtype.is_numpy_compatible and tensor.dtype not in (tf.string, tf.resource)
    ]
    definition, names = graph.as_graph_def(), [tensor.name for tensor in tensors]
    inputs = [tensor.name for tensor in concrete.inputs]

    def every(*given: Any) -> Any:
        here: Any = tf.compat.v1.get_default_graph()
        captured = [here.capture(one) for one in concrete.captured_inputs]
        values = dict(zip(inputs, [*given, *captured], strict=True))
        return tf.graph_util.import_graph_def(
            definition, input_map=values, return_elements=names, name=""
        )

    found: list[list[Array]] = []
    for compiled in (True, False):
        made: Any = tf.function(every, jit_compile=compiled, autograph=False)
        found.append([np.asarray(value) for value in made(*leaves)])
        reset()
    return [
        Op(f"{tensor.op.type} {tensor.name}", _location(tensor.op), *values)
        for tensor, *values in zip(tensors, *found, strict=True)
    ]


def _leaves(
    function: Any, concrete: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Sequence[Any]:
    """Return the arguments as the graph's function takes them, without its captures."""
    util: Any = importlib.import_module(_BINDING)
    spec = function.function_spec
    bound = util.canonicalize_function_inputs(
        tuple(args), kwargs, spec.function_type, spec.default_values
    )
    return concrete.function_type.unpack_inputs(bound)


def _location(op: Any) -> str:
    """Return the user's line of an op: the innermost frame outside of TensorFlow."""
    for frame in reversed(op.traceback or ()):
        if "/tensorflow/" not in frame.filename and "/keras/" not in frame.filename:
            return f"{frame.filename}:{frame.lineno}"
    return ""
