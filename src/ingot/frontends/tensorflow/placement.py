"""Which nodes of a function stay with TensorFlow: ops that only the host can do.

Strings, files, printing, Python functions, tables, iterators and other libraries' ops have no
meaning in HLO. A node of such an op stays a node of TensorFlow (`partition`), and so does a call, a
branch or a loop with such a node inside, whose own functions are cut in the same way.

Invariant: a node that is on the host has a kernel for CPU. An op with neither rule nor kernel is
left to the compiler, whose error names it.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.frontends.tensorflow.capture import called_functions
from ingot.frontends.tensorflow.captured import (
    Attribute,
    CapturedFunction,
    TensorRef,
    TypeName,
)
from ingot.frontends.tensorflow.lowering import rules
from ingot.frontends.tensorflow.modules import kernels
from ingot.frontends.tensorflow.variables import CALLS, PASSES_ON

TAKES_TEXT = frozenset({"Assert", "Const"})
"""Ops with a rule that takes or gives constant strings."""

_PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless"})


@lru_cache(maxsize=4096)
def has_kernel(op: str) -> bool:
    """Whether TensorFlow has a kernel of an op for CPU."""
    if op in _PYTHON:
        return True
    found = kernels.get_registered_kernels_for_op(op)
    return any(item.device_type in ("CPU", "DEFAULT") for item in found.kernel)


def on_host(function: CapturedFunction) -> dict[str, frozenset[str]]:
    """Return the names of the nodes that stay with TensorFlow, by function.

    Functions without one are left out; `function` and what it calls are looked at.
    """
    everything = {**function.library, function.name: function}
    found: dict[str, frozenset[str]] = {}
    pending = True
    while pending:
        pending = False
        for name, item in everything.items():
            nodes = _nodes_on_host(item, found)
            if nodes and nodes != found.get(name):
                found[name] = nodes
                pending = True
    return found


def _nodes_on_host(function: CapturedFunction, known: dict[str, frozenset[str]]) -> frozenset[str]:
    found = _marked(function, known, cut=False)
    return _marked(function, known, cut=True) if found else found


def _marked(
    function: CapturedFunction, known: dict[str, frozenset[str]], *, cut: bool
) -> frozenset[str]:
    """Return the nodes on the host; `cut`: of a function that has some for sure."""
    found: set[str] = set()
    # Handles that compiled code can use, and constant strings.
    variables = {TensorRef(item.name) for item in function.inputs if item.is_variable}
    texts: set[TensorRef] = set()
    types = {TensorRef(item.name): item.type.dtype for item in function.inputs}
    for node in function.nodes:
        outputs = [TensorRef(node.name, at) for at in range(len(node.outputs))]
        types.update(zip(outputs, (item.dtype for item in node.outputs), strict=True))
        given = [(ref, types.get(ref, "")) for ref in node.inputs]
        strange = any(
            (kind == "resource" and ref not in variables)
            or (kind == "string" and not (ref in texts and node.op in TAKES_TEXT))
            or (cut and kind == "variant" and node.op not in CALLS)
            for ref, kind in given
        )
        made = {item.dtype for item in node.outputs}
        strange |= "string" in made and node.op != "Const"
        # Lists stay where somebody else has them in hand: they would be stacked at every cut.
        strange |= cut and "variant" in made and node.op not in CALLS
        # What a branch gives in place of a value that nobody uses may have no shape.
        strange |= cut and node.op == "FakeParam"
        strange |= node.op not in TAKES_TEXT and any(map(_is_text, node.attributes.values()))
        strange |= node.op not in rules.table() and has_kernel(node.op)
        strange |= any(name in known for name in called_functions(node.attributes))
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
