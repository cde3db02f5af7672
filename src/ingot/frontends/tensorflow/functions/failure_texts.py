# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own words for a check that failed while a compiled function ran.

A program's messages are texts that are known when it is compiled: they have no values, and are one
for several of the checks of TensorFlow's kernels. When an eager call fails in a program, TensorFlow
runs the op that the message names once more, with what it needs of the function's graph, as a
function of its own on the inputs of that call. What it says comes first, and then Ingot's message.
The function may be one that is not compiled and calls one that is.

Invariant: nothing runs again that has effects or draws random numbers. Variables are as they were
before the call, because a program that fails changes none; `Replacement` and `with_words_of_calls`
ask for no words where other parts of the function may have changed some.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ingot.frontends.tensorflow.api.errors import (
    CANNOT_COMPILE,
    CANNOT_RUN,
    without_headlines,
    without_wrapper,
)
from ingot.frontends.tensorflow.api.modules import context, errors, execute, function_pb2
from ingot.frontends.tensorflow.graphs.capture import (
    function_attributes,
    op_output_names,
    op_output_types,
)
from ingot.frontends.tensorflow.graphs.proto_values import read_attribute
from ingot.frontends.tensorflow.graphs.variables import may_repeat
from ingot.frontends.tensorflow.launches.body import DROPPED_ATTRIBUTES, type_number
from ingot.frontends.tensorflow.partitioning.op_families import HOST_HINT
from ingot.frontends.tensorflow.variants.specialisation import COMPUTED_VALUE
from ingot.support.regex import regex

_CHECK = "error[INGOT0505]"
"""The code of checks at run time. What fails with another code does not run again: kernels of
TensorFlow's end the process over some operands of a wrong rank (`lowering.walk.ranks`)."""
_ASSERTION = regex(r"assertion failed: .*?(?=\n  op: |\n\s*\[\[|\Z)", re.DOTALL)
_HOST_HINTS = regex(rf"\n  hint: [^\n]*{re.escape(HOST_HINT)}[^\n]*")
_TAGS = regex(r"\s*\[Op:[^\]]*\]\Z")
_OP = regex(r"^  op: (\w+) \(node '([^']*)'\)$", re.MULTILINE)
_AROUND = regex(
    r"^\d+ root error\(s\) found\.\n  \(0\) [A-Z_]+: |\{\{function_node [^}]*\}\} ?"
    r"|\n\s*\[\[\{*(?:function_)?node .*\Z",
    re.DOTALL,
)
_numbers = itertools.count(1)

Originals = Callable[[str], Any]
"""From a function's name to its FunctionDef as it was traced; None for one that is not compiled."""


def call_attributes(runtime: Any) -> tuple[Any, ...]:
    """Return the attributes of a call of a function by name."""
    options = runtime.function_call_options.as_attrs()
    return tuple(part for item in options.items() for part in item)


def with_words(
    message: str,
    definition: Any,
    inputs: Sequence[Any],
    original_of: Originals,
    *,
    of_refusals: bool = False,
) -> str:
    """Return the message of a failed call with TensorFlow's words first.

    A message that is no program's, or of which TensorFlow says nothing, stays as it is.

    Args:
        message: what the compiled program said.
        definition: the FunctionDef of the function as it was traced.
        inputs: the flat inputs of the call.
        original_of: finds the bodies of compiled functions that it calls.
        of_refusals: also where the call was not compiled. An eager call hands such a node to
            TensorFlow and goes on; a graph that runs already cannot.
    """
    named = _OP.search(message)
    is_check = CANNOT_RUN in message and _CHECK in message
    if named is None or not (is_check or (of_refusals and CANNOT_COMPILE in message)):
        return message
    message = without_wrapper(message)  # TensorFlow leaves it where a lambda is the function.
    ours = _ASSERTION.search(message)
    for check in _checks(definition, named[1], named[2], original_of):
        words = _AROUND.sub("", _failure(check, inputs, original_of)).strip()
        if not words or CANNOT_RUN in words or CANNOT_COMPILE in words:
            continue
        if ours is None:
            return f"{words}\n{_HOST_HINTS.sub('', message)}"
        theirs = _ASSERTION.search(words)
        if theirs is not None and _is_like(theirs[0], ours[0]):
            return f"{words}\n{message.replace(ours[0], theirs[0])}"
    return message


def with_words_of_calls(
    message: str, definition: Any, inputs: Sequence[Any], original_of: Originals
) -> str:
    """Return `with_words` for a function that is not compiled itself, unless it has effects."""
    if not is_of_program(message):
        return message
    inside = (item for node in definition.node_def for item in _inside(node, original_of))
    if not all(may_repeat(item.op) for item in inside):
        return message
    return with_words(message, definition, inputs, original_of, of_refusals=True)


def is_of_program(message: str) -> bool:
    """Whether a message is Ingot's, of a program that failed or of a call that is none."""
    return CANNOT_RUN in message or CANNOT_COMPILE in message


def names_op_of(message: str, node: Any, original_of: Originals) -> bool:
    """Whether a message names an op that is a node, or is in a function that the node calls."""
    named = _OP.search(message)
    return named is not None and _holds(node, named[1], named[2], original_of)


def refused_by_both(words: str, refusals: Sequence[str]) -> str:
    """Return the message of a call that TensorFlow refuses too, whose words come first.

    Args:
        words: what TensorFlow said.
        refusals: why Ingot did not compile the call, the last reason first.
    """
    # It is no help that the host may do it.
    reasons = [_HOST_HINTS.sub("", text) for text in refusals]
    theirs = _TAGS.sub("", _AROUND.sub("", without_headlines(words))).strip()
    return "\n".join([theirs, *reasons])


def _is_like(theirs: str, ours: str) -> bool:
    """Whether the text of an assertion differs from ours in computed values only."""
    pieces = map(re.escape, ours.split(COMPUTED_VALUE))
    return re.fullmatch(".*".join(pieces), theirs, re.DOTALL) is not None


def _checks(definition: Any, op: str, name: str, original_of: Originals) -> Iterator[Any]:
    """Yield a FunctionDef for each node that is an op, or calls it, and can run again on its own.

    Args:
        definition: the FunctionDef that they are in.
        op: the type of the op.
        name: of its node.
        original_of: finds the bodies of compiled functions.
    """
    nodes = {node.name: node for node in definition.node_def}
    for node in nodes.values():
        if not _holds(node, op, name, original_of):
            continue
        needed = _needed(node.name, nodes)
        inside = (item for one in needed for item in _inside(nodes[one], original_of))
        if all(may_repeat(item.op) for item in inside):
            yield _only(definition, node, needed)


def _holds(node: Any, op: str, name: str, original_of: Originals) -> bool:
    """Whether a node is an op of some type and name, or one of the functions that it calls has it.

    Where TensorFlow put a function's nodes in the place of its call, the call's name comes first.
    """
    is_below = name.startswith(f"{node.name}/")
    return any(
        item.op == op and (item.name == name or (is_below and name.endswith(f"/{item.name}")))
        for item in _inside(node, original_of)
    )


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


def _inside(node: Any, original_of: Originals) -> Iterator[Any]:
    """Yield a node, and those of the functions that it calls, as they were traced."""
    pending, seen = [node], set[str]()
    while pending:
        item = pending.pop()
        yield item
        for called in (named.name for named in function_attributes(item)):
            if called in seen:
                continue
            seen.add(called)
            definition = _traced(called, original_of)
            if definition is not None:
                pending.extend(definition.node_def)


def _traced(name: str, original_of: Originals) -> Any:
    """Return the FunctionDef of a function as it was traced; None if the runtime has none."""
    original, runtime = original_of(name), context.context()
    if original is not None:
        return original
    return runtime.get_function_def(name) if runtime.has_function(name) else None


def _only(definition: Any, target: Any, needed: Mapping[str, None]) -> Any:
    """Return a FunctionDef of the same inputs that does nothing but run the node `target`.

    It gives what the node does: of a call whose results nobody takes, nothing runs.
    """
    made: Any = function_pb2.FunctionDef()
    made.signature.name = f"ingot_check_{next(_numbers)}"
    made.signature.is_stateful = True
    made.signature.input_arg.extend(definition.signature.input_arg)
    made.signature.control_output.append(target.name)
    made.control_ret[target.name] = target.name
    values = {key: read_attribute(value) for key, value in target.attr.items()}
    names, types = op_output_names(target.op, values), op_output_types(target.op, values)
    for index, (name, dtype) in enumerate(zip(names, types, strict=True)):
        made.signature.output_arg.add(name=f"output_{index}", type=type_number(dtype))
        made.ret[f"output_{index}"] = f"{target.name}:{name}"
    for key, value in definition.attr.items():
        if key not in DROPPED_ATTRIBUTES:
            made.attr[key].CopyFrom(value)
    for key, value in definition.arg_attr.items():
        made.arg_attr[key].CopyFrom(value)
    made.node_def.extend(node for node in definition.node_def if node.name in needed)
    return made


def _copies_of(traced: Any) -> list[Any]:
    """Return a copy of a function under a name of its own; none if there is no function."""
    if traced is None:
        return []
    copy: Any = function_pb2.FunctionDef()
    copy.CopyFrom(traced)
    copy.signature.name = f"ingot_check_{next(_numbers)}"
    for attribute in DROPPED_ATTRIBUTES:
        copy.attr.pop(attribute, None)
    return [copy]


def _with_traced_calls(check: Any, original_of: Originals) -> list[Any]:
    """Let a function call others as they were traced; return it after copies of those.

    The copies have names of their own: what the runtime has under the old ones is compiled code.
    """
    names: dict[str, str] = {}
    made, pending = [check], [check]
    while pending:
        for node in pending.pop().node_def:
            for attribute in DROPPED_ATTRIBUTES:
                node.attr.pop(attribute, None)
            for called in function_attributes(node):
                if called.name not in names:
                    copies = _copies_of(_traced(called.name, original_of))
                    names[called.name] = copies[0].signature.name if copies else called.name
                    made += copies
                    pending += copies
                called.name = names[called.name]
    return made[::-1]


def _failure(check: Any, inputs: Sequence[Any], original_of: Originals) -> str:
    """Return what TensorFlow says when it runs a function; "" if the function succeeds."""
    runtime, name = context.context(), check.signature.name
    definitions = _with_traced_calls(check, original_of)
    for definition in definitions:
        runtime.add_function_def(definition)
    try:
        count = len(check.signature.output_arg)
        execute.execute(name, count, list(inputs), call_attributes(runtime), runtime)
    except errors.OpError as error:
        return str(error.message)
    finally:
        for definition in definitions:
            runtime.remove_function(definition.signature.name)
    return ""
