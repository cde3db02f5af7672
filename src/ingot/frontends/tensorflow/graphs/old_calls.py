# SPDX-License-Identifier: Apache-2.0
"""Calls of TensorFlow 1's functions: nodes whose op is the function's name, made calls by name.

`Defun` makes such nodes. No op of TensorFlow's takes part in them: a graph that has one needs the
function in its own library, with the function's gradient, which
`function_def_to_graph` leaves out. `PartitionedCall` finds functions where all others do.

Invariant: a call that was rewritten has the outputs, the inputs and the attributes that it had.
Source: TensorFlow's `python/framework/function.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CALL = {False: "PartitionedCall", True: "StatefulPartitionedCall"}


def make_call(node: Any, signature: Any) -> None:
    """Make a NodeDef whose op is the name of a function of `signature` a call by name."""
    node.attr["f"].func.name = node.op
    for name, arguments in (("Tin", signature.input_arg), ("Tout", signature.output_arg)):
        node.attr[name].list.SetInParent()
        node.attr[name].list.type.extend(item.type for item in arguments)
    node.op = _CALL[signature.is_stateful]


def with_calls_by_name(definition: Any, signature_of: Callable[[str], Any]) -> Any:
    """Return a FunctionDef without nodes whose ops are functions' names: `definition`, or a copy.

    Args:
        definition: a FunctionDef.
        signature_of: from the name of an op to the function's signature; None if it is no function.
    """
    found = {node.op: signature_of(node.op) for node in definition.node_def}
    signatures = {name: item for name, item in found.items() if item is not None}
    if not signatures:
        return definition
    made = type(definition)()
    made.CopyFrom(definition)
    renamed: dict[str, str] = {}
    for node in made.node_def:
        signature = signatures.get(node.op)
        if signature is not None:
            for index, item in enumerate(signature.output_arg):
                renamed[f"{node.name}:{item.name}:0"] = f"{node.name}:output:{index}"
            make_call(node, signature)
    for node in made.node_def:
        node.input[:] = [renamed.get(item, item) for item in node.input]
    for key, tensor in list(made.ret.items()):
        made.ret[key] = renamed.get(tensor, tensor)
    return made
