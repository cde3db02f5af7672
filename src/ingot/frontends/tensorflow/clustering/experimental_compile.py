# SPDX-License-Identifier: Apache-2.0
"""`tf.xla.experimental.compile`: a computation as a function that Ingot compiles whole.

TensorFlow marks the ops of the computation and makes an `XlaLaunch` of them when the graph runs,
which the built-in XLA compiles. Here the computation is traced into a function with
`jit_compile=True`, called in its place: in sessions, in functions, and eagerly. What it returns and
which errors it raises are TensorFlow's: its own functions check the outputs. Gradients of it are
computed, which TensorFlow refuses.

Invariant: everything that the computation returns is computed by the one call, returned operations
too; an operation that it does not return is run only inside of a `tf.function`.
Source: TensorFlow's `python/compiler/xla/xla.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from ingot.frontends.tensorflow.api.modules import (
    attributes,
    auto_control_deps,
    concrete_function,
    control_flow_ops,
    func_graph,
    function_type,
    nest,
    ops,
    polymorphic_function,
    tensorflow,
    trace_type,
    variable_scope,
    xla,
)


class _Computation(func_graph.FuncGraph):
    """The graph of a computation."""

    def capture(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Take a tensor from outside."""
        if tensor.dtype._is_ref_dtype:
            # TensorFlow's own check, which raises.
            reader = SimpleNamespace(type="", name=tensor.op.name, inputs=[tensor])
            xla.XLACompileContext(self.name, pivot=None).AddOp(reader)
        captured: Any = func_graph.FuncGraph.capture(self, tensor, *args, **kwargs)
        return captured


def compile_internal(original: Any) -> Any:
    """Return the `_compile_internal` behind `tf.xla.experimental.compile`."""
    del original  # it makes what the built-in XLA compiles

    def compile_whole(computation: Callable[..., Any], inputs: Any = None) -> Any:
        given: Any = [] if inputs is None else inputs
        if not isinstance(given, Sequence):
            raise TypeError("inputs must be a list")
        outer = ops.get_default_graph()
        _refuse_nesting(outer)
        flat = [ops.convert_to_tensor(item) for item in nest.flatten(given)]
        graph = _Computation(f"{outer.unique_name('cluster')}_{ops.uid()}")
        outputs = _trace(graph, outer, computation, given, flat)
        return _called(graph, outer, outputs)

    return tensorflow.autograph.experimental.do_not_convert(compile_whole)


def _refuse_nesting(graph: Any) -> None:
    while graph is not None:
        if isinstance(graph, _Computation):
            raise ValueError(
                f"XLA compiled computations cannot be nested, (function name: {graph.name})"
            )
        graph = getattr(graph, "outer_graph", None)


def _trace(
    graph: Any, outer: Any, computation: Callable[..., Any], inputs: Any, flat: list[Any]
) -> Any:
    """Build the graph of the computation; return what the computation returned."""
    in_function = isinstance(outer, func_graph.FuncGraph)
    order = auto_control_deps.AutomaticControlDependencies() if in_function else nullcontext()
    scope = variable_scope.get_variable_scope()
    with graph.as_default(), polymorphic_function.OptionalXlaContext(True), order as found:
        taken = [graph.capture(item) for item in flat]
        uses_resources = scope.use_resource
        scope.set_use_resource(True)
        try:
            with xla._disable_summary_context():
                outputs = computation(*nest.pack_sequence_as(inputs, taken))
        finally:
            scope.set_use_resource(uses_resources)
        if xla.is_flat(outputs):
            tensors, operations = xla._postprocess_flat_outputs(outputs)
        else:
            tensors, operations = xla._postprocess_non_flat_outputs(outputs)
        if found is not None:
            tensors = [found.mark_as_return(item) for item in tensors]
    graph.outputs.extend(tensors)
    graph.control_outputs.extend(operations)
    if found is not None:
        graph.control_outputs.extend(found.ops_which_must_run)
    return outputs


def _called(graph: Any, outer: Any, outputs: Any) -> Any:
    """Call the function of `graph` in `outer`; return what stands for `outputs`."""
    results = tuple(trace_type.from_value(item) for item in graph.outputs)
    kind = function_type.from_structured_signature(
        ((), {}), results, graph.function_captures.capture_types
    )
    function = concrete_function.ConcreteFunction.from_func_graph(
        graph, kind, {attributes.XLA_COMPILE: True}
    )
    made = function._call_flat([], graph.external_captures)
    if not graph.outputs:
        return control_flow_ops.group(outer.get_operations()[-1], name="output_0")
    tensors = nest.flatten(made)
    return tensors if xla.is_flat(outputs) else nest.pack_sequence_as(outputs, tensors)
