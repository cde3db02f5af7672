# SPDX-License-Identifier: Apache-2.0
"""Cuts a function at the nodes that stay with TensorFlow: what lies between them are parts.

    x -> [part 0] -> py_function -> [part 1] -> y
             `-----> print

A part is a function of its own, which is compiled whole. Parts and nodes on the host follow each
other in levels, so that there are as few parts as the nodes allow.

Invariant: constants and the arithmetic of shapes are in every part that needs them, so that sizes
known while compiling stay known behind a cut. So are lists without elements: there would be
nothing to hand over, and nothing that tells the shape of their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    TensorRef,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.variables import is_stateful
from ingot.support.levels import assign_levels
from ingot.support.records import record

HandleOf = Callable[[TensorRef], "TensorType | None"]

_SHAPES = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_EMPTY_LISTS = frozenset({"EmptyTensorList", "TensorListReserve"})
_ARITHMETIC = frozenset(
    {
        "AddV2",
        "Cast",
        "ConcatV2",
        "ExpandDims",
        "Fill",
        "FloorDiv",
        "FloorMod",
        "GatherV2",
        "Maximum",
        "Minimum",
        "Mul",
        "Pack",
        "Prod",
        "Range",
        "Reshape",
        "Slice",
        "Squeeze",
        "StridedSlice",
        "Sub",
    }
)


@record
class Part:
    """One part of a function.

    Attributes:
        function: the part as a function.
        sources: where each of its inputs is from: an input or a node of the whole function.
        outputs: what each of its outputs is in the whole function.
        waits_for: nodes outside that must have run before.
    """

    function: CapturedFunction
    sources: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    waits_for: frozenset[str]


@record
class Partition:
    """A function that is cut.

    Attributes:
        levels: what runs one after the other: a part, if the level has one, then nodes on the host.
        part_of: the level of the part in which each other node runs.
    """

    levels: tuple[tuple[Part | None, tuple[CapturedNode, ...]], ...]
    part_of: Mapping[str, int]


def cut(function: CapturedFunction, hosted: frozenset[str], handle_of: HandleOf) -> Partition:
    """Return the parts of a function between its nodes `hosted`, which stay with TensorFlow.

    Args:
        function: what is cut.
        hosted: names of nodes.
        handle_of: what a resource or list that a node gives stands for.
    """
    return _Cutter(function, hosted, handle_of).run()


class _Cutter:
    def __init__(
        self, function: CapturedFunction, hosted: frozenset[str], handle_of: HandleOf
    ) -> None:
        self._function = function = _with_free_constants(function)
        self._handle_of = handle_of
        self._nodes = {node.name: node for node in function.nodes}
        self._inputs = {item.name: item for item in function.inputs}
        self._cheap = _cheap_nodes(function, hosted)
        # Constants are wherever they are needed, also on the host.
        constants = {node.name for node in function.nodes if is_constant(node)}
        self._hosted = hosted | constants
        self._constants = constants
        self._level = self._levels(hosted)

    def _levels(self, hosted: frozenset[str]) -> dict[str, int]:
        names = [name for name in self._nodes if name not in self._constants]
        needs = {name: self._needs(self._nodes[name]) for name in names}
        fixed = {
            name
            for name in names
            if self._nodes[name].control_inputs or is_stateful(self._nodes[name].op)
        }
        return assign_levels(names, needs, hosted, fixed)

    def _needs(self, node: CapturedNode) -> list[str]:
        found = [*(ref.node for ref in node.inputs), *node.control_inputs]
        return [name for name in found if name in self._nodes and name not in self._constants]

    def run(self) -> Partition:
        count = 1 + max(self._level.values(), default=0)
        members = [
            [n for n in self._nodes if n not in self._hosted and self._level[n] == level]
            for level in range(count)
        ]
        bodies = [self._with_copies(names) for names in members]
        needed = self._needed(bodies)
        rows: list[tuple[Part | None, tuple[CapturedNode, ...]]] = []
        for level in range(count):
            part = self._part(level, members[level], bodies[level], needed)
            hosts = [
                node
                for name, node in self._nodes.items()
                if self._level.get(name, 0) == level and self._stays(name, needed)
            ]
            rows.append((part, tuple(hosts)))
        part_of = {name: level for level, names in enumerate(members) for name in names}
        return Partition(tuple(rows), part_of)

    def _stays(self, name: str, needed: Mapping[TensorRef, None]) -> bool:
        """Whether a node stays with TensorFlow; a constant does where it is needed there."""
        return name in self._hosted and (name not in self._constants or TensorRef(name) in needed)

    def _with_copies(self, names: Sequence[str]) -> dict[str, CapturedNode]:
        """Return nodes by name, with the cheap ones of other levels that they need."""
        found = set(names)
        pending = list(names)
        while pending:
            for ref in self._nodes[pending.pop()].inputs:
                if ref.node in self._cheap and ref.node not in found:
                    found.add(ref.node)
                    pending.append(ref.node)
        return {name: node for name, node in self._nodes.items() if name in found}

    def _needed(self, bodies: Sequence[Mapping[str, CapturedNode]]) -> dict[TensorRef, None]:
        """Return the tensors that somebody needs who does not make them."""
        found: dict[TensorRef, None] = {}
        for body in bodies:
            for node in body.values():
                found.update(dict.fromkeys(ref for ref in node.inputs if ref.node not in body))
        for name in self._hosted:
            found.update(dict.fromkeys(self._nodes[name].inputs))
        found.update(dict.fromkeys(self._function.outputs))
        return found

    def _part(
        self,
        level: int,
        members: Sequence[str],
        body: Mapping[str, CapturedNode],
        needed: Mapping[TensorRef, None],
    ) -> Part | None:
        if not members:
            return None
        own = set(members)
        sources = dict.fromkeys(
            ref for node in body.values() for ref in node.inputs if ref.node not in body
        )
        inputs = {ref: self._input(ref) for ref in sources}
        outputs = tuple(
            ref for name in members for ref in _outputs(self._nodes[name]) if ref in needed
        )
        kinds = [self._nodes[ref.node].outputs[ref.output] for ref in outputs]
        control = {name for name in self._function.control_outputs if name in own}
        waits = {n for name in members for n in self._nodes[name].control_inputs}
        function = replace(
            self._function,
            name=f"{self._function.name}_part{level}",
            inputs=tuple(inputs.values()),
            nodes=tuple(_inside(node, body, inputs) for node in body.values()),
            outputs=outputs,
            output_types=tuple(kinds),
            output_handles=tuple(self._handle_of(ref) for ref in outputs),
            control_outputs=tuple(sorted(control)),
            shown=0,
        )
        return Part(function, tuple(sources), outputs, frozenset(waits - set(body)))

    def _input(self, ref: TensorRef) -> CapturedInput:
        if ref.node in self._inputs:
            return self._inputs[ref.node]
        kind = self._nodes[ref.node].outputs[ref.output]
        return CapturedInput(f"{ref.node}:{ref.output}", kind, self._handle_of(ref))


def _with_free_constants(function: CapturedFunction) -> CapturedFunction:
    """Return a function whose constants wait for nothing.

    Under `tf.control_dependencies` a constant waits for an assertion, say. Its value depends on
    nothing, so it only has to where another node waits for it in turn. TensorFlow lets an op whose
    operand waits not wait itself, so what a constant waited for is handed on to the ops with
    effects that its value reaches.
    """
    awaited = {name for node in function.nodes for name in node.control_inputs}
    awaited.update(function.control_outputs)
    reached: dict[str, dict[str, None]] = {}
    nodes: list[CapturedNode] = []
    for node in function.nodes:
        waits = {name: None for ref in node.inputs for name in reached.get(ref.node, ())}
        if node.op == "Const" and node.control_inputs and node.name not in awaited:
            reached[node.name] = dict.fromkeys(node.control_inputs)
            nodes.append(replace(node, control_inputs=()))
        elif waits and is_stateful(node.op):
            waits |= dict.fromkeys(node.control_inputs)
            nodes.append(replace(node, control_inputs=tuple(waits)))
        else:
            reached[node.name] = waits
            nodes.append(node)
    return replace(function, nodes=tuple(nodes))


def is_constant(node: CapturedNode) -> bool:
    """Whether a node is a constant of numbers or text that nothing comes before."""
    is_opaque = any(item.dtype == "variant" for item in node.outputs)
    return node.op == "Const" and not node.control_inputs and not is_opaque


def _cheap_nodes(function: CapturedFunction, hosted: frozenset[str]) -> frozenset[str]:
    """Return the nodes that are made anew wherever they are needed."""
    found: set[str] = set()
    for node in function.nodes:
        is_list = node.op in _EMPTY_LISTS
        if node.name in hosted and not is_list:
            continue
        inputs = {ref.node for ref in node.inputs}
        arithmetic = (is_list or node.op in _ARITHMETIC) and inputs <= found
        if is_constant(node) or node.op in _SHAPES or (arithmetic and inputs):
            found.add(node.name)
    return frozenset(found)


def _outputs(node: CapturedNode) -> Iterable[TensorRef]:
    return (TensorRef(node.name, at) for at in range(len(node.outputs)))


def _inside(
    node: CapturedNode,
    body: Mapping[str, CapturedNode],
    inputs: Mapping[TensorRef, CapturedInput],
) -> CapturedNode:
    """Return a node as it is in a part: what is from outside are the part's inputs."""
    return replace(
        node,
        inputs=tuple(TensorRef(inputs[ref].name) if ref in inputs else ref for ref in node.inputs),
        control_inputs=tuple(name for name in node.control_inputs if name in body),
    )
