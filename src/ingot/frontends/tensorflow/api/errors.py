# SPDX-License-Identifier: Apache-2.0
"""From Ingot's errors to TensorFlow's, text and all.

Inside a kernel an error is a status: `status_of` gives code and text, and TensorFlow makes of it
the exception of `tf.errors` that its code stands for. The text is the whole diagnostic: the op, the
node, the user's file and line, why, and what to do.

Invariant: no exception leaves a trampoline; what is not an `IngotError` is reported as a bug of
Ingot with its traceback.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from ingot.artifact.abi import ProgramInfo
from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.api.locations import Locations
from ingot.frontends.tensorflow.api.modules import errors
from ingot.runtime.executor.execute import FIRST_CONSTRAINT, OUT_OF_MEMORY
from ingot.runtime.programs.execution import largest_note, sizes_error
from ingot.support.diagnostics import ExecutionError, IngotError, InternalError, ResourceError
from ingot.support.regex import regex

CANNOT_COMPILE = "Ingot cannot compile"
CANNOT_RUN = "Ingot cannot run"

_MOST_INPUTS = 8
"""Inputs whose shapes a message shows."""

_TRACED_NAME = regex(r"__(?:inference|forward|inference___backward)_(.+)_\d+(?:_part\d+)?")
_OWN_NODE = regex(r"(part\d+_)?launch")
_NO_TRACE = "<stack traces unavailable>"
_HEADLINES = regex(
    rf"^Graph execution error:\n\n(?:Detected at node .*:\n(?:{_NO_TRACE}|  File .*)\n)*"
)
_WRAPPER = regex(
    r"^(?:\{\{function_node [^}]*\}\} )+|\s*\[\[\{*(?:function_)?node [^\]]*\]\]|\s*\[Op:\w*\]$"
)


def function_text(name: str) -> str:
    """Return how messages call a function that TensorFlow named.

    Example (of a forward function that was made for a tape):
        `__forward_step_12` -> "the function 'step' (__forward_step_12)"
    """
    match = _TRACED_NAME.fullmatch(name)
    return f"the function '{name}'" if match is None else f"the function '{match[1]}' ({name})"


def status_of(error: BaseException, function: str, *, has_run: bool = False) -> tuple[int, str]:
    """Return TensorFlow's status code and the text for an error of `function`.

    `has_run`: its program was compiled, and failed.
    """
    if isinstance(error, MemoryError):
        error = ResourceError(
            f"the memory is too small to compile it: {error}",
            hint="look for a size that is larger than meant",
        )
    if isinstance(error, IngotError):
        is_of_run = has_run or isinstance(error, ExecutionError)
        headline = CANNOT_RUN if is_of_run else CANNOT_COMPILE
        text = f"{headline} {function_text(function)}:\n{error.diagnostic.render()}"
        return _code(error), text
    lines = "".join(traceback.format_exception(error))
    return (
        capi.INTERNAL,
        f"Ingot failed on {function_text(function)}. This is a bug in Ingot.\n{lines}",
    )


def run_error(info: ProgramInfo, code: int, sizes: Sequence[Sequence[int]]) -> IngotError:
    """Return the error for what a compiled program returned on inputs of these sizes."""
    given = [
        f"{param.name or f'input {number}'} is {param.dtype}[{','.join(map(str, dims))}]"
        for number, (param, dims) in enumerate(zip(info.params, sizes, strict=True))
        if None in param.dims
    ]
    more = f" and {len(given) - _MOST_INPUTS} more" if len(given) > _MOST_INPUTS else ""
    notes = (", ".join(given[:_MOST_INPUTS]) + more,) if given else ()
    if code == OUT_OF_MEMORY:
        return ResourceError(
            "there is not enough memory for its temporary buffers",
            code="INGOT0401",
            notes=(*notes, *largest_note(info)),
            hint="use smaller sizes, or free tensors of earlier calls",
        )
    if code <= FIRST_CONSTRAINT:
        return sizes_error(info, code, notes)
    error = ExecutionError(info.run_errors[code - 1], code="INGOT0505", notes=notes)
    error.status = info.run_status(code)
    return error


def _code(error: IngotError) -> int:
    if isinstance(error, ResourceError):
        return capi.RESOURCE_EXHAUSTED
    if isinstance(error, ExecutionError) and error.status:
        return int(getattr(errors, error.status))
    return capi.INTERNAL if isinstance(error, InternalError) else capi.INVALID_ARGUMENT


def status_error(code: int, text: str) -> Exception:
    """Return the exception of `tf.errors` for a status."""
    return errors.exception_type_from_error_code(code)(None, None, text)


def without_wrapper(text: str) -> str:
    """Return a message without what TensorFlow puts around it: names of ops and functions."""
    return _WRAPPER.sub("", text)


def keep_own_text(interpolate: Any) -> Any:
    """Return TensorFlow's `InterpolateRuntimeError.interpolate` that leaves Ingot's text alone.

    TensorFlow adds where the failing node was made, which for a launch is nowhere; the diagnostic
    names the user's own line.
    """

    def interpolated(scope: Any, message: str, node_names: Any, debug_info: Any) -> str:
        is_own = all(_OWN_NODE.fullmatch(name) for name in node_names)
        if CANNOT_COMPILE in message or CANNOT_RUN in message or is_own:
            return without_wrapper(message.strip())
        text = str(interpolate(scope, message, node_names, debug_info))
        return _with_locations(text, scope._func, node_names) if _NO_TRACE in text else text

    return interpolated


def _with_locations(text: str, function: Any, names: Sequence[str]) -> str:
    """Return a message with the user's lines where TensorFlow has no stack traces of nodes.

    It has none of a body that Ingot wrote, in which a node on the host has the name that it had.
    """
    graphs, locations = {id(function): function.graph}, Locations()
    pending = [function.graph]
    while pending:
        for inner in pending.pop()._functions.values():
            graph = getattr(inner, "graph", None)
            if graph is not None and id(inner) not in graphs:
                graphs[id(inner)] = graph
                pending.append(graph)
    for name in names:
        found = next(filter(None, (locations.of(item, name) for item in graphs.values())), None)
        if found is not None:
            headline = f"Detected at node {name} defined at (most recent call last):\n"
            line = f'  File "{found.file}", line {found.line}'
            text = text.replace(f"{headline}{_NO_TRACE}", f"{headline}{line}")
    return text


def without_headlines(text: str) -> str:
    """Return TensorFlow's words of a message, without where it found the node."""
    return without_wrapper(_HEADLINES.sub("", text))
