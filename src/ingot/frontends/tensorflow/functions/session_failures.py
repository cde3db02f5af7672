# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own words for a check that failed while a session ran compiled code.

The part of the session's graph that the failing node needs becomes a function. Its inputs are what
the caller fed, and variables with the values of the session's. `failure_texts` finds out
what TensorFlow says of it.

Invariant: the session's graph stays as it is, for it may be finalized. Of the session nothing runs
but reads of variables, and only of those that the failed run did not write.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ingot.frontends.tensorflow.api.errors import without_wrapper
from ingot.frontends.tensorflow.api.modules import (
    context,
    errors,
    function_pb2,
    ops,
    pywrap_tf_session,
    resource_variable_ops,
    tensorflow,
)
from ingot.frontends.tensorflow.functions.failure_texts import (
    Originals,
    is_of_program,
    names_op_of,
    with_words,
)
from ingot.frontends.tensorflow.graphs.variables import may_repeat

_VARIABLE, _READ = "VarHandleOp", "ReadVariableOp"
_HEADLINE = "Graph execution error:\n\n"
"""What a session puts before each message."""
_numbers = itertools.count(1)

Fed = Mapping[Any, Any]
"""From references of tensors to the values that the caller fed."""
Makers = dict[Any, Callable[[], Any]]
"""From references of tensors to what makes eager tensors or variables of the same values."""


def explained_run(original: Any, original_of: Originals) -> Any:
    """Return the `BaseSession._do_run` whose errors have TensorFlow's words first."""

    def _do_run(
        session: Any,
        handle: Any,
        target_list: Any,
        fetch_list: Any,
        feed_dict: Any,
        options: Any,
        run_metadata: Any,
    ) -> Any:
        def read(tensors: list[Any]) -> Sequence[Any]:
            values: Sequence[Any] = original(session, None, [], tensors, {}, None, None)
            return values

        try:
            return original(
                session, handle, target_list, fetch_list, feed_dict, options, run_metadata
            )
        except errors.OpError as error:
            # What was fed earlier in a partial run is not known here.
            if handle is None and is_of_program(error.message):
                wanted = [*target_list, *(tensor.op for tensor in fetch_list)]
                find = _definitions_of(session.graph, original_of)
                failed = _FailedRun(session.graph, wanted, feed_dict, read, find)
                text = without_wrapper(error.message.removeprefix(_HEADLINE))
                error._message = _HEADLINE + failed.with_words(text)
            raise

    return _do_run


def _definitions_of(graph: Any, original_of: Originals) -> Originals:
    """Return what finds the bodies of functions that a graph calls, as they were traced."""

    def find(name: str) -> Any:
        found = original_of(name)
        if found is None and name in graph._functions:
            found = graph._functions[name].cached_definition
        return found

    return find


class _FailedRun:
    """A session's run that failed in a compiled program."""

    def __init__(
        self,
        graph: Any,
        wanted: Iterable[Any],
        fed: Fed,
        read: Callable[[list[Any]], Sequence[Any]],
        original_of: Originals,
    ) -> None:
        """Start with the run of the operations `wanted`; `read` runs fetches in the session."""
        self._graph, self._ran = graph, _needed(wanted, fed)
        self._fed, self._read, self._original_of = fed, read, original_of

    def with_words(self, message: str) -> str:
        """Return a message with TensorFlow's words first; the same if TensorFlow says nothing."""
        for operation in self._ran:
            if not names_op_of(message, operation.node_def, self._original_of):
                continue
            needed = _needed([operation], self._fed)
            makers = self._inputs(needed)
            if makers is None:
                continue
            try:
                definition = _function_of(self._graph, needed, list(makers))
            except errors.OpError:  # It needs something that no function can hold.
                continue
            with ops.init_scope(), context.eager_mode():
                made = [make() for make in makers.values()]
                values = [getattr(item, "handle", item) for item in made]
                find = self._original_of
                found = with_words(message, definition, values, find, of_refusals=True)
            if found != message:
                return found
        return message

    def _inputs(self, needed: Iterable[Any]) -> Makers | None:
        """Return the inputs of the function of some operations.

        None if they need a variable that cannot be read as it was when the run failed.
        """
        taken = (tensor for operation in needed for tensor in operation.inputs)
        makers: Makers = {
            tensor.ref(): partial(tensorflow.constant, self._fed[tensor.ref()], tensor.dtype)
            for tensor in taken
            if tensor.ref() in self._fed
        }
        holders = [operation for operation in needed if _is_state(operation)]
        reads = [self._read_of(operation) for operation in holders]
        if any(read is None for read in reads):
            return None
        for holder, value in zip(holders, self._read(reads) if reads else (), strict=True):
            make = (
                resource_variable_ops.ResourceVariable
                if holder.type == _VARIABLE
                else tensorflow.constant
            )
            makers[holder.outputs[0].ref()] = partial(make, value)
        return makers

    def _read_of(self, holder: Any) -> Any:
        """Return a tensor that is the value of `_is_state`, None if there is none that is sure.

        The failed run may have written it.
        """
        is_handle = holder.type == _VARIABLE
        users = (holder.outputs if is_handle else holder.inputs)[0].consumers()
        reads = [user for user in users if user.type == _READ or _is_state(user)]
        writes = (user for user in users if user in self._ran and user not in reads)
        if any(not is_handle or not may_repeat(user.type) for user in writes):
            return None
        return reads[0].outputs[0] if reads else None


def _is_state(operation: Any) -> bool:
    """Whether an operation gives a variable's handle, or the value of a TensorFlow 1 one."""
    reads = operation.type == "Identity" and operation.inputs[0].dtype._is_ref_dtype
    return reads or operation.type == _VARIABLE


def _needed(wanted: Iterable[Any], fed: Fed) -> dict[Any, None]:
    """Return operations and those that they need, or wait for, of what is not fed."""
    pending = list(wanted)
    found = dict.fromkeys(pending)
    while pending:
        operation = pending.pop()
        if _is_state(operation):
            continue
        inputs = (tensor.op for tensor in operation.inputs if tensor.ref() not in fed)
        for before in itertools.chain(inputs, operation.control_inputs):
            if before not in found:
                found[before] = None
                pending.append(before)
    return found


def _function_of(graph: Any, operations: Iterable[Any], inputs: Sequence[Any]) -> Any:
    """Return a FunctionDef without outputs that does what operations of a graph do.

    Args:
        graph: the graph.
        operations: all that it does, and what holds the variables.
        inputs: references of the tensors that it takes: those of variables, and values.
    """
    name = f"ingot_session_check_{next(_numbers)}"
    body = [item._c_op for item in operations if not _is_state(item)]
    taken = [reference.deref()._as_tf_output() for reference in inputs]
    with graph._c_graph.get() as c_graph:
        made = pywrap_tf_session.TF_GraphToFunction_wrapper(
            c_graph, name, False, body, taken, [], [], [], [], None, ""
        )
    buffer = pywrap_tf_session.TF_NewBuffer()
    try:
        pywrap_tf_session.TF_FunctionToFunctionDef(made, buffer)
        definition: Any = function_pb2.FunctionDef()
        definition.ParseFromString(pywrap_tf_session.TF_GetBuffer(buffer))
    finally:
        pywrap_tf_session.TF_DeleteBuffer(buffer)
        pywrap_tf_session.TF_DeleteFunction(made)
    return definition
