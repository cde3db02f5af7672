# SPDX-License-Identifier: Apache-2.0
"""Lists that are no single array, or may be none: TensorFlow keeps them.

A program takes a list as one array of its elements, which TensorFlow's own `TensorListStack` makes
in front of the launch. That op refuses a list that is empty or has no element written while the
shape of its elements is unknown, elements of several shapes, and lists as elements. What the
function does with such a list then stays with TensorFlow (`placement`), as an op does that a rule
refuses. A call from Python is tried and done again; in a graph that cannot be, so there every list
stays that may have no element yet, or is split into pieces of lengths that the graph does not say.

Invariant: the nodes that stack lists have names that say which parameter of which launch they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.errors import without_wrapper
from ingot.frontends.tensorflow.graphs.capture import graph_of, handle_type
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, TensorRef
from ingot.frontends.tensorflow.launches.launch_writer import LIST_NODE, Program
from ingot.frontends.tensorflow.partitioning.placement import Refused
from ingot.support.diagnostics import Diagnostic
from ingot.support.regex import regex

_IN_MESSAGE = regex(LIST_NODE.format(launch=r"(\d+)", parameter=r"(\d+)"))
_NODE_IN_MESSAGE = regex(r"\s*\[\[\{*(?:function_)?node .*", re.DOTALL)
_UNWRITTEN = frozenset({"EmptyTensorList", "TensorListReserve"})
_SAME = frozenset({"Identity", "StopGradient", "ZerosLike"})
_SPLIT, _LENGTHS = "TensorListSplit", 2
_SAME_LENGTHS = frozenset({"Cast", "Identity"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_STACK = "TensorListStack"

_UNKNOWN = "a list that may have no element yet, of unknown shape, is an argument"
_OF_LISTS = "a list of lists that TensorFlow made is an argument"
_OPEN_LENGTHS = (
    "a tensor is split into pieces whose lengths may differ: the graph does not say them"
)


def is_about_list(message: str) -> bool:
    """Whether an error of TensorFlow comes from a node that stacks a program's list."""
    return _IN_MESSAGE.search(message) is not None


def refused_list(message: str, programs: Sequence[Program]) -> Refused:
    """Return what must stay with TensorFlow after an error: the nodes that take the list.

    Args:
        message: the error's text.
        programs: what the body of the function runs.
    """
    found = _IN_MESSAGE.search(message)
    if found is None:
        return {}
    launch, number = int(found[1]), int(found[2])
    program = next((item for item in programs if item.launch.identifier == launch), None)
    if program is None:
        return {}
    name = program.function.inputs[program.binding.parameters[number].input].name
    return {program.of: _takers(program.function, name, _reason(message))}


def list_error_text(message: str) -> str:
    """Return what the user is told where such a list ends the call: TensorFlow's words first."""
    return (
        f"{_reason(message)}\nIngot takes a TensorList as one array of its elements, and the "
        "function cannot be run again: give the list a whole element shape, or make it in the "
        "function with jit_compile=True"
    )


def open_lists(
    function: CapturedFunction, tensors: Sequence[Any], is_cut: Callable[[str], bool]
) -> Refused:
    """Return what must stay with TensorFlow where a graph calls a function.

    Args:
        function: the function.
        tensors: what it is called with.
        is_cut: whether TensorFlow runs a part of a function: it makes the lists of lists then.
    """
    nodes: dict[str, Diagnostic] = {}
    for item, tensor in zip(function.inputs, tensors, strict=False):
        if item.type.dtype != "variant":
            continue
        if item.of_lists and _is_made_by(tensor, is_cut):
            nodes.update(_takers(function, item.name, _OF_LISTS))
        elif _may_be_unwritten(tensor):
            nodes.update(_takers(function, item.name, _UNKNOWN))
    return {function.name: nodes} if nodes else {}


def open_splits(function: CapturedFunction) -> Refused:
    """Return the splits that must stay with TensorFlow where a graph calls a function.

    The lengths of their pieces are known at the call, which may be refused for them.
    """
    found = {
        item.name: {
            node.name: Diagnostic(
                _OPEN_LENGTHS,
                "INGOT0310",
                op_type=_SPLIT,
                op_name=node.name,
                location=node.location,
            )
            for node in item.nodes
            if node.op == _SPLIT and not _is_constant(item, node.inputs[_LENGTHS])
        }
        for item in (function, *function.library.values())
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def _is_constant(function: CapturedFunction, ref: TensorRef) -> bool:
    nodes = {node.name: node for node in function.nodes}
    while ref.node in nodes and nodes[ref.node].op in _SAME_LENGTHS:
        ref = nodes[ref.node].inputs[0]
    return ref.node in nodes and nodes[ref.node].op == "Const"


def _takers(function: CapturedFunction, name: str, why: str) -> dict[str, Diagnostic]:
    """Return the nodes that take a function's list, with the reason why they are refused."""
    return {
        node.name: Diagnostic(
            why, "INGOT0311", op_type=_STACK, op_name=node.name, location=node.location
        )
        for node in function.nodes
        if TensorRef(name) in node.inputs
    }


def _reason(message: str) -> str:
    """Return TensorFlow's own words."""
    text = _NODE_IN_MESSAGE.sub("", without_wrapper(message)).strip()
    return text.rpartition("\n")[2]


def _is_made_by(tensor: Any, is_cut: Callable[[str], bool]) -> bool:
    """Whether a call of such a function gave a tensor."""
    while hasattr(tensor, "op"):
        tensor = _origin(tensor)
        if tensor.op.type != "Placeholder":
            return tensor.op.type in _CALLS and is_cut(tensor.op.get_attr("f").name)
        tensor = _captured_from(tensor)
    return False


def _may_be_unwritten(tensor: Any) -> bool:
    """Whether a list that a graph hands over may be empty while its elements have no shape.

    A loop's state may be what it was before the loop. What a loop gives back, and what an element
    was just written to, is taken for a list with elements.
    """
    while hasattr(tensor, "op"):
        kind = handle_type(tensor)
        if kind is not None and kind.shape is not None and None not in kind.shape:
            return False
        tensor = _origin(tensor)
        if tensor.op.type != "Placeholder":
            return _is_made_unwritten(tensor)
        tensor = _captured_from(tensor)
    # An argument of the outermost graph, or a value that was there before it.
    return tensor is None


def _is_made_unwritten(tensor: Any) -> bool:
    if tensor.op.type in _CALLS:
        outputs = graph_of(tensor.graph, tensor.op.get_attr("f").name).outputs
        # A forward function has more outputs than the graph once had.
        return tensor.value_index < len(outputs) and _is_unwritten(outputs[tensor.value_index])
    return _is_unwritten(tensor)


def _is_unwritten(tensor: Any) -> bool:
    return _origin(tensor).op.type in _UNWRITTEN


def _origin(tensor: Any) -> Any:
    """Return the list that a tensor passes on."""
    while tensor.op.type in _SAME:
        tensor = tensor.op.inputs[0]
    return tensor


def _captured_from(tensor: Any) -> Any:
    """Return the tensor of the outer graph that a graph's input stands for, or None."""
    captures = getattr(tensor.graph, "captures", ())
    return next((outer for outer, inner in captures if inner is tensor), None)
