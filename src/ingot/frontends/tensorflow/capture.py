"""From a TensorFlow FuncGraph to a `CapturedFunction`, in two steps.

`snapshot` runs when TensorFlow registers a function: it takes the graph as an immutable GraphDef
(FuncGraphs are changed later by gradient construction) with the functions that it calls.
`capture` runs at the first launch and turns the protos into plain records. Neither executes a
TensorFlow op, so `capture` may run inside an op's kernel.

Invariant: whatever happens to the FuncGraph after `snapshot`, `capture` gives the same function;
only source locations are looked up late, and are None once TensorFlow has dropped the graph.
Source: TensorFlow's `framework/graph.proto`, `attr_value.proto`, `function.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.captured import (
    Attribute,
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    PartialShape,
    Shape,
    TensorRef,
    TensorType,
    TypeName,
)
from ingot.frontends.tensorflow.locations import Locations
from ingot.frontends.tensorflow.modules import (
    atomic_function,
    dtypes,
    handle_data_util,
    op_def_registry,
    tensor_util,
)
from ingot.support.diagnostics import InternalError


@dataclass(frozen=True, slots=True)
class FunctionSnapshot:
    """A function as it was when TensorFlow registered it.

    `graph_def` is TensorFlow's proto with static shapes; `library` is shared with the callees;
    `functions` lists the functions that this very graph names.
    """

    name: str
    graph_def: Any
    inputs: tuple[CapturedInput, ...]
    outputs: tuple[TensorRef, ...]
    output_types: tuple[TensorType, ...]
    output_handles: tuple[TensorType | None, ...]
    control_outputs: tuple[str, ...]
    library: dict[str, FunctionSnapshot]
    locations: Locations

    def nodes(self) -> list[Any]:
        """Return the NodeDefs that matter, each after what it needs."""
        return _ordered_nodes(self)


def snapshot(
    name: str, graph: Any, originals: Mapping[str, FunctionSnapshot] | None = None
) -> FunctionSnapshot:
    """Return `graph` (a FuncGraph) and everything it calls, as they are now.

    `originals` are snapshots of functions whose bodies in TensorFlow's runtime are no longer their
    own: nested jit functions.
    """
    # Not `originals or {}`: a mapping over what lives says nothing by its length.
    known: Mapping[str, FunctionSnapshot] = {} if originals is None else originals
    library: dict[str, FunctionSnapshot] = {}
    root = _snapshot_one(name, graph, library)
    pending = [(root, graph)]
    while pending:
        current, owner = pending.pop()
        for callee in _called_functions(current.graph_def):
            if callee in library:
                continue
            if callee in known:
                library[callee] = _adopt(known[callee], library)
                continue
            callee_graph = _graph_of(owner, callee)
            library[callee] = _snapshot_one(callee, callee_graph, library)
            pending.append((library[callee], callee_graph))
    return root


def _adopt(original: FunctionSnapshot, library: dict[str, FunctionSnapshot]) -> FunctionSnapshot:
    for name, item in original.library.items():
        library.setdefault(name, item)
    return original


def _snapshot_one(name: str, graph: Any, library: dict[str, FunctionSnapshot]) -> FunctionSnapshot:
    return FunctionSnapshot(
        name=name,
        graph_def=graph.as_graph_def(add_shapes=True),
        inputs=tuple(
            CapturedInput(tensor.op.name, tensor_type(tensor), handle_type(tensor))
            for tensor in graph.inputs
        ),
        outputs=tuple(TensorRef(tensor.op.name, tensor.value_index) for tensor in graph.outputs),
        output_types=tuple(tensor_type(tensor) for tensor in graph.outputs),
        output_handles=tuple(handle_type(tensor) for tensor in graph.outputs),
        control_outputs=tuple(operation.name for operation in graph.control_outputs),
        library=library,
        locations=Locations(graph),
    )


def _graph_of(owner: Any, name: str) -> Any:
    """Return the FuncGraph of the function `name` that `owner` calls, true to its definition."""
    function = _find_function(owner, name)
    if function is None:
        raise InternalError(f"the graph '{owner.name}' calls '{name}', which it does not hold")
    cached = function.graph
    signature = function.cached_definition.signature
    same_inputs = len(cached.inputs) == len(signature.input_arg)
    if same_inputs and len(cached.outputs) == len(signature.output_arg) and cached.name == name:
        return cached
    if same_inputs and len(cached.outputs) == len(signature.output_arg):
        # Concrete functions keep the Python name; bodies rewritten by a gradient change it.
        return cached
    return atomic_function.to_func_graph(function)


def _find_function(owner: Any, name: str) -> Any:
    graph = owner
    while graph is not None:
        functions = graph._functions
        found = functions.get(name) or functions.get(name.encode())
        if found is not None:
            return found
        graph = getattr(graph, "outer_graph", None)
    return None


def _called_functions(graph_def: Any) -> Iterable[str]:
    for node in graph_def.node:
        for key, value in node.attr.items():
            if key.startswith("_"):
                continue
            if value.HasField("func"):
                yield value.func.name
            elif value.HasField("list"):
                yield from (item.name for item in value.list.func)


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
    return TensorType(dtypes.as_dtype(item.dtype).name, _shape(item.shape))


def capture(source: FunctionSnapshot) -> CapturedFunction:
    """Return the snapshot and its library as plain records."""
    library: dict[str, CapturedFunction] = {}
    for name, item in source.library.items():
        library[name] = _capture_one(item, library)
    return _capture_one(source, library)


def _capture_one(
    source: FunctionSnapshot, library: Mapping[str, CapturedFunction]
) -> CapturedFunction:
    nodes = source.nodes()
    return CapturedFunction(
        name=source.name,
        inputs=source.inputs,
        nodes=tuple(_capture_node(node, source.locations) for node in nodes),
        outputs=source.outputs,
        output_types=source.output_types,
        control_outputs=source.control_outputs,
        library=library,
    )


def _ordered_nodes(source: FunctionSnapshot) -> list[Any]:
    """Return the nodes that outputs or control outputs need, each after what it needs."""
    by_name = {node.name: node for node in source.graph_def.node}
    done = {item.name for item in source.inputs}
    needed = _needed(source, by_name, done)
    ordered: list[Any] = []
    for node in source.graph_def.node:
        if node.name in needed:
            _place(node, by_name, done, ordered)
    return ordered


def _dependencies(node: Any) -> Iterable[str]:
    return (name.removeprefix("^").partition(":")[0] for name in node.input)


def _needed(source: FunctionSnapshot, by_name: Mapping[str, Any], given: set[str]) -> set[str]:
    pending = [item.node for item in source.outputs] + list(source.control_outputs)
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name in needed or name in given:
            continue
        needed.add(name)
        pending.extend(_dependencies(by_name[name]))
    return needed


def _place(node: Any, by_name: Mapping[str, Any], done: set[str], ordered: list[Any]) -> None:
    """Append `node` after what it depends on; a depth-first walk without recursion."""
    stack = [node]
    while stack:
        current = stack[-1]
        if current.name in done:
            stack.pop()
            continue
        missing = [name for name in _dependencies(current) if name not in done]
        if missing:
            stack.extend(by_name[name] for name in reversed(missing))
        else:
            done.add(current.name)
            ordered.append(current)
            stack.pop()


def _capture_node(node: Any, locations: Locations) -> CapturedNode:
    data = [name for name in node.input if not name.startswith("^")]
    return CapturedNode(
        name=node.name,
        op=node.op,
        inputs=tuple(_tensor_ref(name) for name in data),
        control_inputs=tuple(name[1:] for name in node.input if name.startswith("^")),
        attributes={
            key: _attribute(value) for key, value in node.attr.items() if not key.startswith("_")
        },
        outputs=tuple(_output_types(node)),
        location=locations.of(node.name),
    )


def _tensor_ref(text: str) -> TensorRef:
    name, _, index = text.partition(":")
    return TensorRef(name, int(index or 0))


def _output_types(node: Any) -> Iterable[TensorType]:
    shapes = [_shape(item) for item in node.attr["_output_shapes"].list.shape]
    names = op_output_types(node)
    shapes.extend([None] * (len(names) - len(shapes)))
    return (TensorType(name, shape) for name, shape in zip(names, shapes, strict=False))


def op_output_types(node: Any) -> list[str]:
    """Return the element type of each output of a NodeDef, from the op's definition."""
    definition = op_def_registry.get(node.op)
    if definition is None:
        raise InternalError(f"TensorFlow has no op '{node.op}' (node '{node.name}')")
    names: list[str] = []
    for argument in definition.output_arg:
        if argument.type_list_attr:
            enums = list(node.attr[argument.type_list_attr].list.type)
        else:
            enum = argument.type or node.attr[argument.type_attr].type
            enums = [enum] * (node.attr[argument.number_attr].i if argument.number_attr else 1)
        names.extend(dtypes.as_dtype(enum).base_dtype.name for enum in enums)
    return names


def _shape(proto: Any) -> Shape:
    if proto.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in proto.dim)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _tensor(proto: Any) -> np.ndarray:
    return np.asarray(tensor_util.MakeNdarray(proto))


def _type_name(value: Any) -> TypeName:
    return TypeName(str(dtypes.as_dtype(value).base_dtype.name))


def _partial_shape(value: Any) -> PartialShape:
    return PartialShape(_shape(value))


def _function(value: Any) -> FunctionRef:
    return FunctionRef(str(value.name))


_READERS: dict[str, Any] = {
    "s": _text,
    "i": int,
    "f": float,
    "b": bool,
    "type": _type_name,
    "shape": _partial_shape,
    "tensor": _tensor,
    "func": _function,
}
"""How each kind of attribute value becomes a plain value; a list has fields of the same names."""


def _attribute(proto: Any) -> Attribute:
    kind = proto.WhichOneof("value")
    if kind == "list":
        for name, reader in _READERS.items():
            items = getattr(proto.list, name)
            if len(items):
                return tuple(reader(item) for item in items)
        return ()
    if kind is None or kind == "placeholder":
        return ()
    return _READERS[kind](getattr(proto, kind))
