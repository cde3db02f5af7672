# SPDX-License-Identifier: Apache-2.0
"""Bodies of functions with nodes that stay with TensorFlow: launches, and the nodes between them.

    x -> launch of part 0 -> EagerPyFunc -> launch of part 1 -> y

The function is cut (`partition`), each part becomes a launch, and a node on the host is written as
it was, with TensorFlow's own kernel: at its place, in its order with other effects. A branch or
loop with such a node inside stays TensorFlow's too, and what it calls is written in the same way
under a name of its own.

Invariant: a tensor between a launch and a node is TensorFlow's own; nothing is copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.modules import attributes, context
from ingot.frontends.tensorflow.functions.list_forms import as_lists
from ingot.frontends.tensorflow.graphs.capture import (
    called_functions,
    definition_of,
    function_attributes,
    graph_of,
    handle_type,
    op_output_names,
)
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedNode,
    TensorRef,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.list_types import ListTypes
from ingot.frontends.tensorflow.launches.body import Body, type_number
from ingot.frontends.tensorflow.launches.launch_writer import LaunchWriter, Program
from ingot.frontends.tensorflow.partitioning.constant_folding import constant_proto
from ingot.frontends.tensorflow.partitioning.partition import Part, Partition, cut
from ingot.support.records import record

_numbers = itertools.count(1)
_DROPPED = ("_class", attributes.XLA_COMPILE)
_CONTROL_FLOW = frozenset({"Case", "If", "StatelessCase", "StatelessIf", "StatelessWhile", "While"})
_LOWERS = "_lower_using_switch_merge"


def _lowers_control_flow() -> bool:
    """Whether TensorFlow takes loops and branches apart before it places their nodes.

    Where a function is traced for XLA it does not ask for that, and a loop or branch that takes
    handles of several devices cannot be placed whole. One of its executors cannot run the parts.
    """
    executor = context.context().function_call_options.executor_type
    return executor != "SINGLE_THREADED_EXECUTOR"


def _called(proto: Any) -> frozenset[str]:
    """Return the functions that a NodeDef's attributes name."""
    return frozenset(item.name for item in function_attributes(proto))


@record
class HostedBody:
    """What runs in place of a function with nodes on the host.

    Attributes:
        definition: its FunctionDef.
        inner: the FunctionDefs of what its branches and loops call.
        programs: what is compiled.
    """

    definition: Any
    inner: tuple[Any, ...]
    programs: tuple[Program, ...]


def write_hosted(
    original: Any,
    function: CapturedFunction,
    graph: Any,
    hosted: Mapping[str, frozenset[str]],
    make_program: Callable[[CapturedFunction, str], Program],
    is_replaced: Callable[[str], bool],
) -> HostedBody:
    """Write the body of a function some of whose nodes stay with TensorFlow.

    Args:
        original: its FunctionDef.
        function: the function, captured from `graph`.
        graph: its FuncGraph.
        hosted: the nodes that stay, by function (`placement.on_host`).
        make_program: lets a part be compiled, given the name of the function that it is from.
        is_replaced: whether a function that is called has a body of its own, cut in the same way.
    """
    names: dict[str, str] = {}
    programs: list[Program] = []
    whole = _Whole(hosted, make_program, ListTypes.of(function))
    body = Body(original)
    as_lists(body, function, whole.types)
    pending = [(body, function, graph)]
    definitions: list[Any] = []
    for body, item, owner in pending:
        writer = _Writer(body, item, owner, whole)
        for callee in writer.called():
            if callee in names or is_replaced(callee):
                continue
            names[callee] = f"{callee}_ingot_{next(_numbers)}"
            inner = Body(definition_of(owner, callee), names[callee])
            pending.append((inner, function.library[callee], graph_of(owner, callee)))
        definitions.append(writer.write(names))
        programs += writer.programs
    return HostedBody(definitions[0], tuple(definitions[1:]), tuple(programs))


@record
class _Whole:
    """What holds for a function and all that it calls.

    Attributes:
        hosted: the nodes that stay, by function.
        make_program: lets a part be compiled, given the name of the function that it is from.
        types: what lists hold.
    """

    hosted: Mapping[str, frozenset[str]]
    make_program: Callable[[CapturedFunction, str], Program]
    types: ListTypes


class _Writer:
    """Writes the body of one function."""

    def __init__(self, body: Body, function: CapturedFunction, graph: Any, whole: _Whole) -> None:
        self.programs: list[Program] = []
        self._body = body
        # As they were: a gradient that is made later changes them in the graph.
        self._control_flow = {
            _called(node): node for node in body.original.node_def if node.op in _CONTROL_FLOW
        }
        self._function = function
        self._graph = graph
        hosted = whole.hosted.get(function.name, frozenset[str]())
        self._partition: Partition = cut(function, hosted, self._handle_of)
        self._whole = whole
        self._tensors = dict(
            zip((TensorRef(item.name) for item in function.inputs), body.arguments, strict=False)
        )
        self._effects: dict[int, list[str]] = {}
        self._hosted: dict[str, CapturedNode] = {
            node.name: node for _, nodes in self._partition.levels for node in nodes
        }

    def called(self) -> list[str]:
        """Return the functions whose bodies must be written too; conditions stay as they are.

        Other ops with functions than calls, branches and loops are those of datasets.
        """
        conditions = {
            name
            for node in self._hosted.values()
            for name in called_functions({"cond": node.attributes.get("cond", ())})
        }
        found = [n for node in self._hosted.values() for n in called_functions(node.attributes)]
        return [name for name in dict.fromkeys(found) if name not in conditions]

    def write(self, names: Mapping[str, str]) -> Any:
        """Return the FunctionDef; `names`: functions that are called under other names."""
        protos = {node.name: node for node in self._graph.as_graph_def().node}
        for level, (part, nodes) in enumerate(self._partition.levels):
            if part is not None:
                self._write_part(level, part)
            for node in nodes:
                found = self._control_flow.get(frozenset(called_functions(node.attributes)))
                proto = found or protos.get(node.name) or constant_proto(node)
                self._write_node(node, proto, names)
        for output, ref in enumerate(self._function.outputs):
            self._body.set_output(output, self._tensors[ref])
        # All that was captured is needed, though no control output may say so: a function that is
        # made of an imported graph has none, and what it writes hangs on its outputs.
        for effect in self._names_of(self._function.control_outputs):
            self._body.add_effect(effect)
        for effects in self._effects.values():
            for effect in effects:
                self._body.add_effect(effect)
        return self._body.definition

    def _write_part(self, level: int, part: Part) -> None:
        program = self._whole.make_program(part.function, self._function.name)
        arguments = [self._tensors[ref] for ref in part.sources]
        waits_for = self._names_of(sorted(part.waits_for))
        writer = LaunchWriter(self._body, program, arguments, f"part{level}_", waits_for)
        self._tensors.update(zip(part.outputs, writer.write(), strict=True))
        self._effects[level] = writer.effects
        if program.runs:
            self.programs.append(program)

    def _write_node(self, node: CapturedNode, proto: Any, names: Mapping[str, str]) -> None:
        if node.op == "FakeParam" and node.outputs[0].dtype == "variant":
            self._write_empty(node)
            return
        inputs = [self._tensors[ref] for ref in node.inputs]
        inputs += [f"^{name}" for name in self._names_of(node.control_inputs)]
        written = self._body.add_node(node.name, proto.op, inputs)
        written.device = proto.device
        if proto.op != node.op or node.op == "SymbolicGradient":
            self._make_call(written, node)
        else:
            for key, value in proto.attr.items():
                if key not in _DROPPED:
                    written.attr[key].CopyFrom(value)
            if proto.op in _CONTROL_FLOW and _LOWERS not in proto.attr:
                written.attr[_LOWERS].b = _lowers_control_flow()
        for called in function_attributes(written):
            called.name = names.get(called.name, called.name)
        for index, name in enumerate(op_output_names(node.op, node.attributes)):
            self._tensors[TensorRef(node.name, index)] = f"{node.name}:{name}"

    def _write_empty(self, node: CapturedNode) -> None:
        """Write an empty list for one that another branch makes.

        TensorFlow stands nothing in for it, of which its kernels for lists take no zeros.
        """
        ref = TensorRef(node.name)
        size = self._body.add_integers(f"{node.name}/size", -1)
        made = self._body.add_node(node.name, "EmptyTensorList", [size, size])
        dtype = self._whole.types.of_numbers(self._function, ref) or "variant"
        made.attr["element_dtype"].type = type_number(dtype)
        made.attr["shape_type"].type = type_number("int32")
        self._tensors[ref] = f"{node.name}:handle:0"

    def _make_call(self, written: Any, node: CapturedNode) -> None:
        """Let a node that calls a function without naming it as calls do be a call by name.

        Such are nodes of TensorFlow 1, named after a function or its gradient, and XLA's launches.
        """
        (called,) = called_functions(node.attributes)
        operation = self._graph.get_operation_by_name(node.name)
        written.op = "StatefulPartitionedCall"
        written.attr["f"].func.name = called
        written.attr["Tin"].list.type.extend(x.dtype.as_datatype_enum for x in operation.inputs)
        written.attr["Tout"].list.type.extend(type_number(item.dtype) for item in node.outputs)

    def _names_of(self, names: Sequence[str]) -> list[str]:
        """Return the nodes of the body that stand for nodes of the function."""
        found: list[str] = []
        for name in names:
            if name in self._hosted:
                found.append(name)
            elif name in self._partition.part_of:
                found += self._effects.get(self._partition.part_of[name], [])
        return list(dict.fromkeys(found))

    def _handle_of(self, ref: TensorRef) -> TensorType | None:
        operation = self._graph.get_operation_by_name(ref.node)
        return handle_type(operation.outputs[ref.output])
