# SPDX-License-Identifier: Apache-2.0
"""From a TensorFlow FuncGraph to a `CapturedFunction`: plain records, made once.

`capture` runs when TensorFlow registers a function (FuncGraphs are changed later by gradient
construction). It walks the graph's protos once, in the order of what needs what, with the functions
that the graph calls. From here on nobody reads a proto again.

Invariant: whatever happens to the FuncGraph afterwards, the records stay as they are; functions
that were captured before (nested jit functions) are taken as they were.
Source: TensorFlow's `framework/graph.proto`, `attr_value.proto`, `function.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ingot.frontends.tensorflow.api.locations import Locations
from ingot.frontends.tensorflow.api.modules import (
    atomic_function,
    context,
    dtypes,
    function_def_to_graph,
    handle_data_util,
    op_def_registry,
    ops,
)
from ingot.frontends.tensorflow.graphs.captured import (
    Attribute,
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    TensorRef,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.old_calls import with_calls_by_name
from ingot.frontends.tensorflow.graphs.proto_values import read_attribute, read_shape, type_name
from ingot.frontends.tensorflow.graphs.symbolic_gradient import (
    differentiated,
    gradient_graph,
    gradient_name,
)
from ingot.support.diagnostics import InternalError

_XLA_LAUNCHES = frozenset({"XlaLaunch", "XlaLaunchV2"})
"""Calls that TensorFlow's clustering made for the built-in XLA."""


def capture(
    name: str, graph: Any, originals: Mapping[str, CapturedFunction] | None = None
) -> CapturedFunction:
    """Return `graph` (a FuncGraph) and everything it calls, as they are now.

    `originals` are functions whose bodies in TensorFlow's runtime are no longer their own: nested
    jit functions.
    """
    # Not `originals or {}`: a mapping over what lives says nothing by its length.
    known: Mapping[str, CapturedFunction] = {} if originals is None else originals
    library: dict[str, CapturedFunction] = {}
    locations = Locations()
    root = _capture_one(name, graph, library, locations)
    pending = [(root, graph)]
    while pending:
        current, owner = pending.pop()
        for callee in [n for node in current.nodes for n in called_functions(node.attributes)]:
            if callee in library:
                continue
            if callee in known:
                library[callee] = _adopt(known[callee], library)
                continue
            callee_graph = graph_of(owner, callee)
            library[callee] = _capture_one(callee, callee_graph, library, locations)
            pending.append((library[callee], callee_graph))
    return root


def _adopt(original: CapturedFunction, library: dict[str, CapturedFunction]) -> CapturedFunction:
    for name, item in original.library.items():
        library.setdefault(name, item)
    return original


def _capture_one(
    name: str, graph: Any, library: Mapping[str, CapturedFunction], locations: Locations
) -> CapturedFunction:
    inputs = tuple(
        CapturedInput(tensor.op.name, tensor_type(tensor), handle_type(tensor))
        for tensor in graph.inputs
    )
    outputs = tuple(TensorRef(tensor.op.name, tensor.value_index) for tensor in graph.outputs)
    control_outputs = tuple(operation.name for operation in graph.control_outputs)
    needed = [item.node for item in outputs] + list(control_outputs)
    given = {item.name for item in inputs}
    nodes = _ordered_nodes(graph.as_graph_def(add_shapes=True), needed, given)
    return CapturedFunction(
        name=name,
        inputs=inputs,
        nodes=tuple(_capture_node(graph, node, locations) for node in nodes),
        outputs=outputs,
        output_types=tuple(tensor_type(tensor) for tensor in graph.outputs),
        output_handles=tuple(handle_type(tensor) for tensor in graph.outputs),
        control_outputs=control_outputs,
        library=library,
    )


def graph_of(owner: Any, name: str) -> Any:
    """Return the FuncGraph of the function `name` that `owner` calls, true to its definition."""
    primal = differentiated(name)
    if primal is not None:
        return gradient_graph(owner, _old_definition(owner, definition_of(owner, primal)))
    function = _find_function(owner, name)
    if function is None:
        raise InternalError(f"the graph '{owner.name}' calls '{name}', which it does not hold")
    if isinstance(function, _Registered):
        with ops.init_scope():
            return function_def_to_graph.function_def_to_graph(
                function.definition, include_library_functions=True
            )
    if not hasattr(function, "graph"):
        # Made by TensorFlow's old `Defun`, as a few of its own ops are.
        with owner.as_default():
            definition = _old_definition(owner, function.definition)
            return function_def_to_graph.function_def_to_graph(definition)
    cached = function.graph
    signature = function.cached_definition.signature
    same_inputs = len(cached.inputs) == len(signature.input_arg)
    if same_inputs and len(cached.outputs) == len(signature.output_arg) and cached.name == name:
        return cached
    if same_inputs and len(cached.outputs) == len(signature.output_arg):
        # Concrete functions keep the Python name; bodies rewritten by a gradient change it.
        return cached
    return atomic_function.to_func_graph(function)


def definition_of(owner: Any, name: str) -> Any:
    """Return the FunctionDef of the function `name` that `owner` calls."""
    if differentiated(name) is not None:
        return atomic_function.from_func_graph(name, graph_of(owner, name), {}).cached_definition
    function = _find_function(owner, name)
    return getattr(function, "cached_definition", None) or function.definition


def _old_definition(owner: Any, definition: Any) -> Any:
    """Return the FunctionDef of a function that `owner` calls, whose calls name what they call."""

    def signature_of(op: str) -> Any:
        function = None if op_def_registry.get(op) else _find_function(owner, op)
        return None if function is None else function.definition.signature

    return with_calls_by_name(definition, signature_of)


def _find_function(owner: Any, name: str) -> Any:
    graph = owner
    while graph is not None:
        functions = graph._functions
        found = functions.get(name) or functions.get(name.encode())
        if found is not None:
            return found
        graph = getattr(graph, "outer_graph", None)
    # A node that was copied out of another graph (`tf.vectorized_map` does so) names a function
    # that only the runtime holds.
    runtime = context.context()
    return _Registered(runtime.get_function_def(name)) if runtime.has_function(name) else None


class _Registered(NamedTuple):
    """A function that no graph in reach holds."""

    definition: Any


def called_functions(attributes: Mapping[str, Attribute]) -> Iterator[str]:
    """Yield the functions that a node's attributes name."""
    for value in attributes.values():
        if isinstance(value, FunctionRef):
            yield value.name
        elif isinstance(value, tuple):
            yield from (item.name for item in value if isinstance(item, FunctionRef))


def function_attributes(proto: Any) -> list[Any]:
    """Return the NameAttrLists among the attributes of a NodeDef, which name functions."""
    values = proto.attr.values()
    return [item for value in values for item in (value.func, *value.list.func) if item.name]


def tensor_type(tensor: Any) -> TensorType:
    """Return a symbolic tensor's element type and static shape."""
    rank = tensor.shape.rank
    return TensorType(tensor.dtype.name, None if rank is None else tuple(tensor.shape.as_list()))


def handle_type(tensor: Any) -> TensorType | None:
    """Return the type of what a resource or variant tensor stands for, if TensorFlow knows it."""
    if tensor.dtype.name not in ("resource", "variant"):
        return None
    data = handle_data_util.get_resource_handle_data(tensor)
    if not data.is_set or len(data.shape_and_type) != 1:
        return None
    item = data.shape_and_type[0]
    if not item.dtype:
        # Branches that give handles of different things.
        return None
    return TensorType(dtypes.as_dtype(item.dtype).name, read_shape(item.shape))


def _ordered_nodes(graph_def: Any, needed: list[str], given: set[str]) -> list[Any]:
    """Return the NodeDefs that `needed` names or needs, each after what it needs."""
    nodes = list(graph_def.node)
    by_name = {node.name: node for node in nodes}
    before = {node.name: _dependencies(node) for node in nodes}
    wanted = _with_dependencies(needed, before, given)
    done = set(given)
    ordered: list[Any] = []
    for name in by_name:
        if name in wanted:
            ordered.extend(by_name[item] for item in _placed(name, before, done))
    return ordered


def _dependencies(node: Any) -> list[str]:
    return [name.removeprefix("^").partition(":")[0] for name in node.input]


def _with_dependencies(
    names: list[str], before: Mapping[str, list[str]], given: set[str]
) -> set[str]:
    pending = list(names)
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found and name not in given:
            found.add(name)
            pending.extend(before[name])
    return found


def _placed(name: str, before: Mapping[str, list[str]], done: set[str]) -> list[str]:
    """Return `name` after what it depends on and is not done; a walk without recursion."""
    placed: list[str] = []
    stack = [name]
    while stack:
        current = stack[-1]
        missing = [item for item in before[current] if item not in done]
        if current not in done and missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if current not in done:
            done.add(current)
            placed.append(current)
    return placed


def capture_operation(operation: Any) -> CapturedNode:
    """Return one operation of a graph."""
    return _capture_node(operation.graph, operation.node_def, Locations())


def _capture_node(graph: Any, node: Any, locations: Locations) -> CapturedNode:
    data: list[TensorRef] = []
    control: list[str] = []
    for name in node.input:
        if name.startswith("^"):
            control.append(name[1:])
        else:
            data.append(_tensor_ref(name))
    attributes = {
        key: read_attribute(value) for key, value in node.attr.items() if not key.startswith("_")
    }
    op = node.op
    if op == "SymbolicGradient":
        (primal,) = called_functions(attributes)
        attributes["f"] = FunctionRef(_gradient_of(graph, primal))
    if op in _XLA_LAUNCHES:
        attributes = {"f": attributes["function"], "Tout": attributes["Tresults"]}
        op = "StatefulPartitionedCall"
    if op_def_registry.get(op) is None:
        op, attributes = _old_call(graph, op)
    return CapturedNode(
        name=node.name,
        op=op,
        inputs=tuple(data),
        control_inputs=tuple(control),
        attributes=attributes,
        outputs=_output_types(op, node, attributes),
        location=locations.of(graph, node.name),
    )


def _tensor_ref(text: str) -> TensorRef:
    name, _, index = text.partition(":")
    return TensorRef(name, int(index or 0))


def _gradient_of(graph: Any, primal: str) -> str:
    """Return the name of the function that gives the gradient of `primal`, which `graph` calls.

    `Defun(grad_func=...)` names one. Graphs of sessions hold it; TensorFlow's eager runtime is not
    told of it, and differentiates the function itself.
    """
    if not ops.executing_eagerly_outside_functions():
        given = getattr(_find_function(graph, primal), "grad_func_name", None)
        if given:
            return given
    return gradient_name(primal)


def _old_call(graph: Any, name: str) -> tuple[str, dict[str, Attribute]]:
    """Return op and attributes of a node whose op is a function's name, as TensorFlow 1 had it."""
    function = _find_function(graph, name)
    if function is None:
        raise InternalError(f"TensorFlow has no op '{name}'")
    signature = function.definition.signature
    kinds = tuple(type_name(item.type) for item in signature.output_arg)
    return "PartitionedCall", {"f": FunctionRef(name), "Tout": kinds}


def _output_types(
    op: str, node: Any, attributes: Mapping[str, Attribute]
) -> tuple[TensorType, ...]:
    names = op_output_types(op, attributes)
    shapes = [read_shape(item) for item in node.attr["_output_shapes"].list.shape]
    shapes.extend([None] * (len(names) - len(shapes)))
    return tuple([TensorType(name, shape) for name, shape in zip(names, shapes, strict=False)])


class _OutputArgument(NamedTuple):
    """An output argument of an op, and where it has its element types from."""

    name: str
    type_name: str
    type_attribute: str
    number_attribute: str
    list_attribute: str


@lru_cache(maxsize=4096)
def _output_arguments(op: str) -> tuple[_OutputArgument, ...]:
    definition = op_def_registry.get(op)
    if definition is None:
        raise InternalError(f"TensorFlow has no op '{op}'")
    return tuple(
        _OutputArgument(
            item.name,
            type_name(item.type).name if item.type else "",
            item.type_attr,
            item.number_attr,
            item.type_list_attr,
        )
        for item in definition.output_arg
    )


def op_output_types(op: str, attributes: Mapping[str, Any]) -> list[str]:
    """Return the element type of each output of a node, from the op's definition."""
    return [kind for _, kind in _op_outputs(op, attributes)]


def op_output_names(op: str, attributes: Mapping[str, Any]) -> list[str]:
    """Return what a FunctionDef calls each output of a node, `argument:index`."""
    return [name for name, _ in _op_outputs(op, attributes)]


def _op_outputs(op: str, attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and element type of each output."""
    for argument in _output_arguments(op):
        if argument.list_attribute:
            kinds = [item.name for item in attributes[argument.list_attribute]]
        else:
            kind = argument.type_name or attributes[argument.type_attribute].name
            count = attributes[argument.number_attribute] if argument.number_attribute else 1
            kinds = [kind] * count
        for index, kind in enumerate(kinds):
            yield f"{argument.name}:{index}", kind
