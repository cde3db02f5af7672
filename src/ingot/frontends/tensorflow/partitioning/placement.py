# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a function stay with TensorFlow: ops that only the host can do.

Strings, files, printing, Python functions, tables, iterators and other libraries' ops have no
meaning in HLO. A node of such an op stays a node of TensorFlow (`partition`), and so does a call, a
branch or a loop with such a node inside, whose own functions are cut in the same way.

Invariant: a node that is on the host has a kernel for CPU. An op with neither rule nor kernel is
left to the compiler, whose error names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from ingot.frontends.tensorflow.api.modules import kernels
from ingot.frontends.tensorflow.graphs.capture import called_functions
from ingot.frontends.tensorflow.graphs.captured import (
    Attribute,
    CapturedFunction,
    CapturedNode,
    TensorRef,
    TensorType,
    TypeName,
)
from ingot.frontends.tensorflow.graphs.list_types import ListTypes
from ingot.frontends.tensorflow.graphs.variables import CALLS, PASSES_ON
from ingot.frontends.tensorflow.partitioning.list_groups import compiled_lists
from ingot.frontends.tensorflow.partitioning.op_families import is_compiled
from ingot.support.diagnostics import Diagnostic
from ingot.support.records import record

TAKES_TEXT = frozenset({"Assert", "Const"})
"""Ops with a rule that takes or gives constant strings."""

Refused = Mapping[str, Mapping[str, Diagnostic]]
"""By function and node: why a rule refuses the node."""

_NONE: Refused = MappingProxyType({})
_PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


def is_compiled_alone(op: str) -> bool:
    """Whether TensorFlow's kernel of an op has the built-in XLA compile it when it runs."""
    return op.startswith("Xla")


def calls_python(op: str) -> bool:
    """Whether an op calls a Python function of the user."""
    return op in _PYTHON


@lru_cache(maxsize=4096)
def has_kernel(op: str) -> bool:
    """Whether TensorFlow has a kernel of an op for CPU, one that does not call its own XLA."""
    if calls_python(op):
        return True
    if is_compiled_alone(op):
        return False
    found = kernels.get_registered_kernels_for_op(op)
    return any(item.device_type in ("CPU", "DEFAULT") for item in found.kernel)


def on_host(function: CapturedFunction, refused: Refused = _NONE) -> dict[str, frozenset[str]]:
    """Return the names of the nodes that stay with TensorFlow, by function.

    Functions without one are left out; `function` and what it calls are looked at.

    Args:
        function: the function.
        refused: nodes that a rule refused.
    """
    everything = {**function.library, function.name: function}
    found: dict[str, frozenset[str]] = {}
    types: ListTypes | None = None
    pending = True
    while pending:
        pending = False
        called = _called_from_host(everything, found)
        for name, item in everything.items():
            nodes = _marked(item, found, refused, None)
            if nodes or name in called:
                types = ListTypes.of(function) if types is None else types
                lists = _Lists(compiled_lists(item, nodes), types)
                nodes = _marked(item, found, refused, lists)
            if nodes and nodes != found.get(name):
                found[name] = nodes
                pending = True
    return found


def _called_from_host(
    everything: Mapping[str, CapturedFunction], hosted: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the functions that nodes on the host call: their lists come from there."""
    return frozenset(
        callee
        for name, nodes in hosted.items()
        for node in everything[name].nodes
        if node.name in nodes
        for callee in called_functions(node.attributes)
    )


def find_refused(function: CapturedFunction, why: Diagnostic) -> Refused:
    """Return the nodes that an error of the compiler is about, if TensorFlow can run them.

    With the node that it names go those that are like it: of its op, attributes and types.
    """
    if not why.op_type or not has_kernel(why.op_type):
        return _NONE
    everything = {**function.library, function.name: function}
    types = {name: _types_of(item) for name, item in everything.items()}
    alike = {
        _signature(node, types[name])
        for name, item in everything.items()
        for node in item.nodes
        if (node.name, node.op) == (why.op_name, why.op_type)
    }
    found = {
        name: {
            node.name: why
            for node in item.nodes
            if node.op == why.op_type and _signature(node, types[name]) in alike
        }
        for name, item in everything.items()
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def _types_of(function: CapturedFunction) -> dict[TensorRef, TensorType]:
    found = {TensorRef(item.name): item.type for item in function.inputs}
    for node in function.nodes:
        found.update((TensorRef(node.name, at), kind) for at, kind in enumerate(node.outputs))
    return found


def _signature(node: CapturedNode, types: Mapping[TensorRef, TensorType]) -> str:
    """Return what is equal for nodes that a rule takes for the same."""
    given = [types[ref] for ref in node.inputs]
    return repr((node.op, sorted(node.attributes.items()), given, node.outputs))


@record
class _Lists:
    """What is known of the lists of a function that is cut.

    Attributes:
        compiled: its `compiled_lists`.
        types: what lists hold.
    """

    compiled: frozenset[str]
    types: ListTypes

    def stay(self, function: CapturedFunction, node: CapturedNode) -> bool:
        """Whether a node takes or gives a list of lists that stays with TensorFlow.

        Compiled code gives it another form (`launch_writer`), which TensorFlow's ops do not take.
        """
        made = (TensorRef(node.name, at) for at in range(len(node.outputs)))
        return node.name not in self.compiled and any(
            self.types.is_of_lists(function, ref) for ref in (*node.inputs, *made)
        )


def _refuses_lists(refused: Refused) -> bool:
    """Whether there are lists that cannot be stacked, as what hands them to a loop would do."""
    return any(
        why.op_type in CALLS or why.op_type.startswith("TensorList")
        for nodes in refused.values()
        for why in nodes.values()
        if why.op_type
    )


def _marked(
    function: CapturedFunction,
    known: dict[str, frozenset[str]],
    refused: Refused,
    lists: _Lists | None,
) -> frozenset[str]:
    """Return the nodes on the host; `lists`: in a function that has some, what is known of them."""
    cut, own = lists is not None, refused.get(function.name, {})
    whole = _refuses_lists(refused)
    found: set[str] = set()
    # Handles that compiled code can use, and constant strings.
    variables = {TensorRef(item.name) for item in function.inputs if item.is_variable}
    texts: set[TensorRef] = set()
    handed_out = set(function.outputs)
    types = {TensorRef(item.name): item.type.dtype for item in function.inputs}
    for node in function.nodes:
        outputs = [TensorRef(node.name, at) for at in range(len(node.outputs))]
        types.update(zip(outputs, (item.dtype for item in node.outputs), strict=True))
        given = [(ref, types.get(ref, "")) for ref in node.inputs]
        strange = any(
            (kind == "resource" and ref not in variables)
            or (kind == "string" and not (ref in texts and node.op in TAKES_TEXT))
            for ref, kind in given
        )
        made = {item.dtype for item in node.outputs}
        strange |= "string" in made and node.op != "Const"
        strange |= "variant" in made and node.op == "Const"
        strange |= "string" in made and TensorRef(node.name) in handed_out
        if lists is not None and lists.stay(function, node):
            strange = True
        elif lists is not None and (whole or node.op not in CALLS):
            touches = "variant" in made or any(kind == "variant" for _, kind in given)
            strange |= touches and node.name not in lists.compiled
        # What a branch gives in place of a value that nobody uses may have no shape.
        strange |= cut and node.op == "FakeParam"
        strange |= node.op not in TAKES_TEXT and any(map(_is_text, node.attributes.values()))
        strange |= not is_compiled(node.op) and has_kernel(node.op)
        strange |= any(name in known for name in called_functions(node.attributes))
        strange |= node.name in own
        if strange:
            found.add(node.name)
            continue
        if node.op in PASSES_ON:
            passed = zip(outputs, node.inputs, strict=False)
            variables.update([mine for mine, ref in passed if ref in variables])
        elif node.op in CALLS:
            variables.update(ref for ref in outputs if types[ref] == "resource")
        texts.update(ref for ref in outputs if types[ref] == "string")
    return frozenset(found)


def _is_text(value: Attribute) -> bool:
    """Whether an attribute is the type of strings, or a list with it."""
    items = value if isinstance(value, tuple) else (value,)
    return any(isinstance(item, TypeName) and item.name == "string" for item in items)
