# SPDX-License-Identifier: Apache-2.0
"""Functions that call themselves: nothing hangs or overflows, and TensorFlow is left with the call.

TensorFlow traces no such function (Python would recurse), but graphs that others made hold them.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format

from ingot.frontends.tensorflow.api.modules import function_pb2, node_def_pb2
from ingot.frontends.tensorflow.clustering.candidates import has_pure_rule
from ingot.frontends.tensorflow.graphs.captured import (
    Attribute,
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    TensorRef,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.list_types import ListTypes
from ingot.frontends.tensorflow.graphs.variables import bind
from ingot.frontends.tensorflow.lowering import lower
from ingot.frontends.tensorflow.partitioning.partition import cut
from ingot.frontends.tensorflow.partitioning.placement import find_refused, on_host
from ingot.support.diagnostics import UnsupportedError

FLOAT = TensorType("float32", (3,))
TRUTH = TensorType("bool", ())


def node(name: str, op: str, *inputs: str, kind: TensorType = FLOAT, **called: str) -> CapturedNode:
    attributes: dict[str, Attribute] = {key: FunctionRef(item) for key, item in called.items()}
    return CapturedNode(name, op, tuple(map(TensorRef, inputs)), (), attributes, (kind,))


def function(library: dict[str, CapturedFunction], name: str, *nodes: CapturedNode) -> None:
    given = CapturedInput("go", TRUTH), CapturedInput("x", FLOAT)
    result = (TensorRef(nodes[-1].name),)
    library[name] = CapturedFunction(name, given, nodes, result, (FLOAT,), (None,), (), library)


def recursive(*in_between: CapturedNode) -> CapturedFunction:
    """Return `f(go, x) = f(go, sin(x)) if go else x`."""
    library: dict[str, CapturedFunction] = {}
    again = node("again", "PartitionedCall", "go", "sin", f="f")
    function(library, "then", node("sin", "Sin", "x"), *in_between, again)
    function(library, "else", node("same", "Identity", "x"))
    branches = {"then_branch": "then", "else_branch": "else"}
    branch = node("branch", "StatelessIf", "go", "go", "x", **branches)
    function(library, "f", branch, node("end", "Exp", "branch"))
    return library["f"]


def test_lowering_refuses_the_call_which_then_stays_with_tensorflow() -> None:
    captured = recursive()
    bound, binding = bind(captured)
    with pytest.raises(UnsupportedError, match="the function 'f' calls itself") as caught:
        lower(bound, binding, "f")
    refused = find_refused(captured, caught.value.diagnostic)
    hosted = on_host(captured, refused)
    assert hosted == {"then": {"again"}, "f": {"branch"}}
    ((part, kept),) = cut(captured.library["then"], hosted["then"], lambda ref: None).levels
    assert part is not None
    assert [item.op for item in part.function.nodes] == ["Sin"]
    assert [item.op for item in kept] == ["PartitionedCall"]


def test_placement_ends_where_the_host_is_needed_in_the_recursion() -> None:
    text = TensorType("string", ())
    captured = recursive(node("text", "AsString", "sin", kind=text))
    assert on_host(captured) == {"then": {"text", "again"}, "f": {"branch"}}
    assert ListTypes.of(captured) is not None


@pytest.mark.parametrize("callee", ["f", "g", "h"])
def test_clusters_hold_no_recursion(callee: str) -> None:
    """`f` calls itself, `g` calls `f`, and `h` calls `leaf` twice."""
    bodies = {"f": ["f"], "g": ["f"], "h": ["leaf", "leaf"], "leaf": []}
    called = "attr {{ key: 'f' value {{ func {{ name: '{1}' }} }} }}"
    call = "name: '{0}' op: 'PartitionedCall' input: 'x' " + called
    library: dict[str, Any] = {}
    for name, callees in bodies.items():
        calls = "".join(f"node_def {{ {call.format(f'c{n}', c)} }}" for n, c in enumerate(callees))
        library[name] = text_format.Parse(
            f"signature {{ name: '{name}' input_arg {{ name: 'x' type: DT_FLOAT }} "
            f"output_arg {{ name: 'y' type: DT_FLOAT }} }} ret {{ key: 'y' value: 'x' }} {calls}",
            function_pb2.FunctionDef(),
        )
    caller = text_format.Parse(call.format("call", callee), node_def_pb2.NodeDef())
    assert has_pure_rule(caller, library) is (callee == "h")
