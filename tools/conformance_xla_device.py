# SPDX-License-Identifier: Apache-2.0
"""The device XLA_CPU of TensorFlow's own tests: Ingot compiles what is placed on it.

`conformance_tensorflow.py` puts this in before it runs a file. With Ingot there is no XLA device,
so each way in which a test uses it becomes a function with `jit_compile=True`:

* A session's run that needs an op of the device: all that it computes is one function. Placeholders
  and variables stay outside of it.
* An eager op: a function of this op alone.
* A `tf.function` that is called on the device: the function itself.

Invariant: an op of the device that was not compiled is an error of its test, never run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any

from tensorflow.core.framework import attr_value_pb2, graph_pb2
from tensorflow.core.function import trace_type
from tensorflow.core.function.polymorphism import function_type
from tensorflow.core.protobuf import config_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import device_lib, session
from tensorflow.python.eager import context, core, execute, record
from tensorflow.python.eager.polymorphic_function import (
    attributes,
    concrete_function,
    polymorphic_function,
)
from tensorflow.python.framework import (
    dtypes,
    func_graph,
    importer,
    op_def_library,
    op_def_registry,
    ops,
)
from tensorflow.python.util import nest

MARK = "_OnXlaDevice"
_OUTSIDE = frozenset(
    [
        *("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "VarHandleOp", "VariableV2"),
        *("Variable", "FIFOQueueV2", "StatelessRandomGetAlg"),
    ]
)
"""Op types that the function of a run takes from outside of it."""
_INTERNAL = frozenset([dtypes.resource, dtypes.variant, dtypes.string])

counts = SimpleNamespace(depth=0, runs=0, ops=0, functions=0)
"""How deep eager code is on the device, and how much was handed to Ingot."""


def put_in() -> None:
    """Replace the XLA device in this process."""
    ops.device = partial(_device, ops.device)
    session.BaseSession.__init__ = _session_made(session.BaseSession.__init__)
    session.Session.run = _session_run(session.Session.run)
    pywrap_tfe.TFE_Py_FastPathExecute = _fast_path(pywrap_tfe.TFE_Py_FastPathExecute)
    execute.execute = partial(_execute, execute.execute)
    call = polymorphic_function.Function.__call__
    polymorphic_function.Function.__call__ = _function_call(call)
    context.Context.enable_xla_devices = lambda _: None
    device_lib.list_local_devices = _local_devices(device_lib.list_local_devices)


def _local_devices(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the list of devices with XLA_CPU in it."""

    def devices(*args: Any) -> list[Any]:
        found = original(*args)
        made = type(found[0])()
        made.CopyFrom(found[0])
        made.name, made.device_type = "/device:XLA_CPU:0", "XLA_CPU"
        return [*found, made]

    return devices


@contextmanager
def _device(original: Callable[[Any], Any], name: Any) -> Generator[None]:
    """The device of this name; XLA_CPU is the CPU, with what is placed on it marked."""
    if not isinstance(name, str) or "XLA_CPU" not in name.upper():
        with original(name):
            yield
        return
    eager = context.executing_eagerly()
    counts.depth += eager
    try:
        with ExitStack() as stack:
            stack.enter_context(original("/device:CPU:0"))
            if not eager:
                mark = attr_value_pb2.AttrValue(b=True)
                stack.enter_context(ops.get_default_graph()._attr_scope({MARK: mark}))
            yield
    finally:
        counts.depth -= eager


def _function_call(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not (counts.depth and context.executing_eagerly()):
            return original(function, *args, **kwargs)
        if function._jit_compile is None:
            function._jit_compile = True
        counts.functions += 1
        return original(function, *args, **kwargs)

    return call


def _fast_path(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        if counts.depth and context.executing_eagerly():
            raise core._FallbackException("the op goes through execute.execute")
        return original(*args)

    return run


def _execute(
    original: Callable[..., Any],
    op_name: Any,
    num_outputs: int,
    inputs: Sequence[Any],
    attrs: Any,
    ctx: Any,
    name: Any = None,
) -> Any:
    text = op_name.decode() if isinstance(op_name, bytes) else op_name
    definition = op_def_registry.get(text)
    if not counts.depth or definition is None or _is_hosted(definition, inputs):
        return original(op_name, num_outputs, inputs, attrs, ctx, name)
    values = dict(zip(attrs[::2], attrs[1::2], strict=True)) if attrs else {}
    given, depth = [item for item in inputs if item.dtype not in _INTERNAL], counts.depth

    def one_op(*tensors: Any) -> Any:
        found = iter(tensors)
        taken = [item if item.dtype in _INTERNAL else next(found) for item in inputs]
        results = op_def_library.apply_op(text, **_keywords(definition, taken, values))
        made = nest.flatten(results)  # An output may be a list of its own.
        return [item for item in made if not isinstance(item, ops.Operation)]

    counts.depth = 0
    try:
        with record.stop_recording():
            counts.ops += 1
            function = polymorphic_function.function(one_op, jit_compile=True, autograph=False)
            return list(function(*given) or ())[:num_outputs]
    finally:
        counts.depth = depth


def _is_hosted(definition: Any, inputs: Sequence[Any]) -> bool:
    """Whether an eager op makes a handle, or takes strings: no XLA device runs that."""
    if any(item.type in (dtypes.resource, dtypes.variant) for item in definition.output_arg):
        return True
    return definition.name.startswith(("Destroy", "_Eager")) or any(
        item.dtype == dtypes.string for item in inputs
    )


def _keywords(definition: Any, inputs: Sequence[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return inputs and attributes as `apply_op` takes them."""
    rest, keywords, inferred = list(inputs), {}, set()
    for item in definition.input_arg:
        inferred |= {item.type_attr, item.number_attr, item.type_list_attr}
        if item.number_attr or item.type_list_attr:
            counted = values[item.number_attr or item.type_list_attr]
            count = counted if item.number_attr else len(counted)
            keywords[item.name], rest = rest[:count], rest[count:]
        else:
            keywords[item.name] = rest.pop(0)
    return keywords | {key: value for key, value in values.items() if key not in inferred}


def _session_made(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor of sessions that need no kernel for ops that they do not run."""

    def make(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        pruned = config_pb2.ConfigProto()
        if config is not None:
            pruned.CopyFrom(config)
        pruned.graph_options.place_pruned_graph = True
        original(self, target, graph, pruned)

    return make


def _session_run(original: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[Any, Any] = {}
    making = Lock()  # Making a function adds to the graph, which tests run from many threads.

    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        graph = self.graph
        with graph.as_default():
            mapper = session._FetchMapper.for_fetch(fetches)
            wanted = [graph.as_graph_element(item) for item in mapper.unique_fetches()]
            feeds = [graph.as_graph_element(item) for item in feed_dict or ()]
            nodes = _needed(graph, wanted, {item.name for item in feeds})
            if not any(MARK in node.node_def.attr for node in nodes):
                return original(self, fetches, feed_dict, options, run_metadata)
            counts.runs += 1
            key = (graph, *(item.name for item in (*wanted, *feeds)))
            with making:
                if key not in made:
                    made[key] = _compiled(graph, nodes, wanted, {item.name for item in feeds})
            values = original(self, made[key], feed_dict, options, run_metadata)
        return mapper.build_results(
            [
                None if isinstance(item, ops.Operation) else value
                for item, value in zip(wanted, values, strict=True)
            ]
        )

    return run


def _needed(graph: Any, wanted: Sequence[Any], fed: set[str]) -> list[Any]:
    """Return the operations that a run computes, inputs first."""
    found: dict[Any, None] = {}
    pending = [
        item if isinstance(item, ops.Operation) else item.op
        for item in wanted
        if item.name not in fed
    ]
    while pending:
        node = pending.pop()
        if node in found or node.type in _OUTSIDE:
            continue
        found[node] = None
        pending += [item.op for item in node.inputs if item.name not in fed]
        pending += node.control_inputs
    return [node for node in graph.get_operations() if node in found]


def _compiled(graph: Any, nodes: Sequence[Any], wanted: Sequence[Any], fed: set[str]) -> list[Any]:
    """Call a function that computes `nodes` in `graph`; return what stands for `wanted`."""
    names = {node.name for node in nodes}
    body = func_graph.FuncGraph(f"run_{ops.uid()}")
    definition = graph_pb2.GraphDef()
    whole = graph.as_graph_def(add_shapes=False)
    definition.library.CopyFrom(whole.library)
    definition.versions.CopyFrom(whole.versions)
    taken: dict[str, Any] = {}
    with body.as_default():
        for node in nodes:
            copy = definition.node.add()
            copy.CopyFrom(node.node_def)
            del copy.input[:]
            for mark in (MARK, "_class"):
                copy.attr.pop(mark, None)
            for item in node.inputs:
                if item.name in fed or item.op.name not in names:
                    taken[item.name] = body.capture(item)
                copy.input.append(item.name)
            copy.input.extend(f"^{item.name}" for item in node.control_inputs if item.name in names)
        inside = [
            item
            for item in wanted
            if (item.name if isinstance(item, ops.Operation) else item.op.name) in names
            and item.name not in fed
        ]
        results = importer.import_graph_def(
            definition, taken, [item.name for item in inside], name=""
        )
    tensors = [item for item in results if not isinstance(item, ops.Operation)]
    body.outputs.extend(tensors)
    body.control_outputs.extend(item for item in results if isinstance(item, ops.Operation))
    function = concrete_function.ConcreteFunction.from_func_graph(
        body, _function_type(body), {attributes.XLA_COMPILE: True}
    )
    finalized, graph._finalized = graph._finalized, False
    with ops.device(None), ops.control_dependencies(None):
        made = function._call_flat([], body.external_captures)
    call = graph.get_operations()[-1]
    graph._finalized = finalized
    flat = iter(nest.flatten(made) if tensors else ())
    stand_in = {
        item.name: call if isinstance(item, ops.Operation) else next(flat) for item in inside
    }
    return [stand_in.get(item.name, item) for item in wanted]


def _function_type(body: Any) -> Any:
    results = tuple(trace_type.from_value(item) for item in body.outputs)
    captured = body.function_captures.capture_types
    return function_type.from_structured_signature(((), {}), results, captured)
