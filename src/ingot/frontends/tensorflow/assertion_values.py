# SPDX-License-Identifier: Apache-2.0
"""The values that the text of a failed assertion says, found by TensorFlow's own kernel.

A program's messages are texts that are known when it is compiled; a value that the program computes
is `COMPUTED_VALUE` there. When an eager call fails with such a text, the assertion runs once more,
with what it needs of the function's graph, as a function of its own on the inputs of that call:
TensorFlow's text takes the place of ours if it differs in such values only.

Invariant: nothing runs again that has effects or draws random numbers. Variables are as they were
before the call, because a program that fails changes none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ingot.frontends.tensorflow.body import DROPPED_ATTRIBUTES
from ingot.frontends.tensorflow.capture import function_attributes
from ingot.frontends.tensorflow.modules import context, errors, execute, function_pb2
from ingot.frontends.tensorflow.specialisation import COMPUTED_VALUE
from ingot.frontends.tensorflow.variables import CALLS, READS, is_stateful

_ASSERT = "Assert"
_TEXT = re.compile(r"assertion failed: .*?(?=\n  op: |\n\s*\[\[|\Z)", re.DOTALL)
_numbers = itertools.count(1)


def call_attributes(runtime: Any) -> tuple[Any, ...]:
    """Return the attributes of a call of a function by name."""
    options = runtime.function_call_options.as_attrs()
    return tuple(part for item in options.items() for part in item)


def with_values(message: str, definition: Any, inputs: Sequence[Any]) -> str:
    """Return the message of a failed call, with the values that a failed assertion says.

    Args:
        message: what the compiled program said.
        definition: the FunctionDef of the function as it was traced.
        inputs: the flat inputs of the call.
    """
    ours = _TEXT.search(message)
    if ours is None or COMPUTED_VALUE not in ours[0]:
        return message
    pieces = map(re.escape, ours[0].split(COMPUTED_VALUE))
    wanted = re.compile(".*".join(pieces), re.DOTALL)
    for check in _checks(definition):
        theirs = _TEXT.search(_failure(check, inputs))
        if theirs is not None and wanted.fullmatch(theirs[0]):
            return message.replace(ours[0], theirs[0])
    return message


def _checks(definition: Any) -> Iterator[Any]:
    """Yield a FunctionDef for each assertion of a function that can run again on its own."""
    nodes = {node.name: node for node in definition.node_def}
    for node in nodes.values():
        if not any(item.op == _ASSERT for item in _inside(node)):
            continue
        needed = _needed(node.name, nodes)
        if all(_may_repeat(item) for one in needed for item in _inside(nodes[one])):
            yield _only(definition, node.name, needed)


def _needed(name: str, nodes: Mapping[str, Any]) -> dict[str, None]:
    """Return a node and those that it needs, or waits for, of a function's nodes."""
    found = {name: None}
    pending = [name]
    while pending:
        for text in nodes[pending.pop()].input:
            before = text.removeprefix("^").partition(":")[0]
            if before in nodes and before not in found:
                found[before] = None
                pending.append(before)
    return found


def _inside(node: Any) -> Iterator[Any]:
    """Yield a node, and those of the functions that it calls."""
    runtime = context.context()
    pending, seen = [node], set[str]()
    while pending:
        item = pending.pop()
        yield item
        for called in (named.name for named in function_attributes(item)):
            if called not in seen and runtime.has_function(called):
                seen.add(called)
                pending.extend(runtime.get_function_def(called).node_def)


def _may_repeat(node: Any) -> bool:
    return node.op == _ASSERT or node.op in CALLS or node.op in READS or not is_stateful(node.op)


def _only(definition: Any, target: str, needed: Mapping[str, None]) -> Any:
    """Return a FunctionDef of the same inputs that does nothing but run `target`."""
    made: Any = function_pb2.FunctionDef()
    made.signature.name = f"ingot_assertion_{next(_numbers)}"
    made.signature.is_stateful = True
    made.signature.input_arg.extend(definition.signature.input_arg)
    made.signature.control_output.append(target)
    made.control_ret[target] = target
    for key, value in definition.attr.items():
        if key not in DROPPED_ATTRIBUTES:
            made.attr[key].CopyFrom(value)
    for key, value in definition.arg_attr.items():
        made.arg_attr[key].CopyFrom(value)
    made.node_def.extend(node for node in definition.node_def if node.name in needed)
    return made


def _failure(check: Any, inputs: Sequence[Any]) -> str:
    """Return what TensorFlow says when it runs a function; "" if the function succeeds."""
    runtime, name = context.context(), check.signature.name
    runtime.add_function_def(check)
    try:
        execute.execute(name, 0, list(inputs), call_attributes(runtime), runtime)
    except errors.OpError as error:
        return str(error.message)
    finally:
        runtime.remove_function(name)
    return ""
