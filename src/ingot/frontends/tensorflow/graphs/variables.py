# SPDX-License-Identifier: Apache-2.0
"""Which inputs a function reads and writes, and the binding that follows.

A TensorFlow function reads and writes variables through resource handles; a compiled program is a
pure function. `bind` finds which variables the function (with all that it calls) reads and writes,
and so what goes into the program and what comes out: variable values in, new values out.

Invariant: what may be written is written back. A write inside a branch or a loop counts as a read
too, because the variable keeps its old value if the branch is not taken; a read after a write that
always happens does not count, so a variable that has no value yet can be given one. An op that
takes a variable and is not in the tables below counts as both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from ingot.frontends.tensorflow.api.modules import op_def_registry
from ingot.frontends.tensorflow.graphs.binding import Binding, Parameter, Result
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    FunctionRef,
    TensorRef,
    TensorType,
    TypeName,
)
from ingot.frontends.tensorflow.graphs.list_types import ListTypes
from ingot.frontends.tensorflow.graphs.random_state import has_random_state, with_random_state
from ingot.support.records import record

READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"})
WRITES = frozenset({"AssignVariableOp"})
TOUCHES_NOT = frozenset({"VarIsInitializedOp"})
PASSES_ON = frozenset({"Identity", "IdentityN"})

NOT_NUMBERS = frozenset({"string", "resource", "variant"})


@record
class _Call:
    """How an op calls functions: attribute, first input that is handed in, whether always run."""

    attributes: tuple[str, ...]
    first_input: int = 0
    always: bool = False
    outputs_are_inputs: bool = False


_WHILE = _Call(("body", "cond"), outputs_are_inputs=True)
_IF = _Call(("then_branch", "else_branch"), first_input=1)
_CASE = _Call(("branches",), first_input=1)
_PARTITIONED = _Call(("f",), always=True)
CALLS: dict[str, _Call] = {
    "While": _WHILE,
    "StatelessWhile": _WHILE,
    "If": _IF,
    "StatelessIf": _IF,
    "Case": _CASE,
    "StatelessCase": _CASE,
    "XlaIf": _IF,
    "XlaWhile": _WHILE,
    "PartitionedCall": _PARTITIONED,
    "StatefulPartitionedCall": _PARTITIONED,
    "SymbolicGradient": _PARTITIONED,
}
"""Ops with functions as attributes."""


class Effects:
    """What a function does to its inputs; indices are those of the function's inputs.

    Attributes:
        reads: whose value before the call is asked for.
        writes: what may be given a new value.
        assigned: what is given a new value whatever happens.
        types: the element types of variables.
        has_others: whether there are effects on something else.
        output_inputs: by output, the input that it is.
    """

    __slots__ = ("assigned", "has_others", "output_inputs", "reads", "types", "writes")

    def __init__(self) -> None:
        """Start with none."""
        self.reads: set[int] = set()
        self.assigned: set[int] = set()
        self.writes: set[int] = set()
        self.types: dict[int, str] = {}
        self.has_others = False
        self.output_inputs: list[int | None] = []


class EffectsAnalysis:
    """Effects of the functions of one library, each analysed once."""

    def __init__(self, library: Mapping[str, CapturedFunction]) -> None:
        """Start with a library that holds every function that is called."""
        self._library = library
        self._done: dict[str, Effects] = {}

    def of(self, function: CapturedFunction) -> Effects:
        """Return what a function does to its inputs."""
        found = self._done.get(function.name)
        if found is None:
            found = self._done[function.name] = Effects()
            self._analyse(function, found)
        return found

    def _analyse(self, function: CapturedFunction, effects: Effects) -> None:
        origin: dict[TensorRef, int] = {
            TensorRef(item.name): index for index, item in enumerate(function.inputs)
        }
        for node in function.nodes:
            inputs = [origin.get(ref) for ref in node.inputs]
            if node.op in PASSES_ON:
                _record_outputs(origin, node.name, inputs)
            elif node.op in CALLS:
                self._call(node, CALLS[node.op], inputs, effects, origin)
            else:
                handles = [
                    index
                    for index in inputs
                    if index is not None and function.inputs[index].type.dtype == "resource"
                ]
                _touch(node, handles, effects)
        effects.output_inputs = [origin.get(ref) for ref in function.outputs]

    def _call(
        self,
        node: CapturedNode,
        call: _Call,
        inputs: list[int | None],
        effects: Effects,
        origin: dict[TensorRef, int],
    ) -> None:
        handed = inputs[call.first_input :]
        before = frozenset(effects.assigned)
        results: list[list[int | None]] = []
        for name in _callees(node, call):
            inner = self.of(self._library[name])
            effects.has_others |= inner.has_others
            written = {handed[index] for index in inner.writes}
            read = {handed[index] for index in inner.reads}
            effects.writes.update(index for index in written if index is not None)
            touched = read if call.always else read | written
            effects.reads.update(
                index for index in touched if index is not None and index not in before
            )
            if call.always:
                assigned = {handed[index] for index in inner.assigned}
                effects.assigned.update(index for index in assigned if index is not None)
            effects.types.update(
                (outer, dtype)
                for index, dtype in inner.types.items()
                if (outer := handed[index]) is not None
            )
            results.append(
                [None if index is None else handed[index] for index in inner.output_inputs]
            )
        # The first function listed is the body of a loop; branches must agree.
        for index, sources in enumerate(
            zip(*results, strict=False)
            if not call.outputs_are_inputs
            else ((source,) for source in results[0])
        ):
            source = sources[0]
            same = all(item == source for item in sources)
            unchanged = not call.outputs_are_inputs or source == handed[index]
            if source is not None and same and unchanged:
                origin[TensorRef(node.name, index)] = source


def _callees(node: CapturedNode, call: _Call) -> Iterable[str]:
    for key in call.attributes:
        value = node.attributes[key]
        several = value if isinstance(value, tuple) else (value,)
        yield from (item.name for item in several if isinstance(item, FunctionRef))


def _record_outputs(origin: dict[TensorRef, int], name: str, inputs: Iterable[int | None]) -> None:
    for index, source in enumerate(inputs):
        if source is not None:
            origin[TensorRef(name, index)] = source


def _touch(node: CapturedNode, handles: list[int], effects: Effects) -> None:
    if node.op in TOUCHES_NOT:
        return
    if node.op in WRITES:
        effects.assigned.update(handles)
    else:
        effects.reads.update(set(handles) - effects.assigned)
    if node.op not in READS:
        effects.writes.update(handles)
        effects.has_others |= not handles and is_stateful(node.op)
    dtype = node.attributes.get("dtype") if handles else None
    if isinstance(dtype, TypeName):
        effects.types.update((handle, dtype.name) for handle in handles)


@lru_cache(maxsize=4096)
def is_stateful(op: str) -> bool:
    """Whether TensorFlow says that an op has effects; one that it does not know may have some."""
    definition = op_def_registry.get(op)
    return definition is None or bool(definition.is_stateful)


_CHECKS = frozenset({"Assert", "CheckNumerics", "CheckNumericsV2"})


def may_repeat(op: str) -> bool:
    """Whether an op, less the functions that it calls, may run twice: it checks or reads at most.

    Example:
        `Assert` and `ReadVariableOp` may, `AssignVariableOp` and `RandomUniform` may not.
    """
    return op in _CHECKS or op in CALLS or op in READS or not is_stateful(op)


def bind(function: CapturedFunction) -> tuple[CapturedFunction, Binding]:
    """Return the binding, and the function with every variable's type known where used."""
    effects = EffectsAnalysis(function.library).of(function)
    function = _with_list_types(with_random_state(function))
    if has_random_state(function.inputs):
        effects.reads.add(len(function.inputs) - 1)
        effects.writes.add(len(function.inputs) - 1)
    inputs = tuple(
        _with_handle(item, effects.types.get(index)) for index, item in enumerate(function.inputs)
    )
    parameters = tuple(
        Parameter(index, is_lengths)
        for index, item in enumerate(inputs)
        if _is_parameter(index, item, effects)
        for is_lengths in ((False, True) if item.of_lists else (False,))
    )
    handed_on = tuple(
        (output, source)
        for output, source in enumerate(effects.output_inputs)
        if source is not None
    )
    results: list[Result] = []
    for output, source in enumerate(effects.output_inputs):
        if source is None:
            results.append(Result(output=output))
            if function.output_types[output].dtype == "variant":
                of_lists = output in function.lists_of_lists
                results.append(Result(output=output, is_length=True, of_lists=of_lists))
    written = sorted(index for index in effects.writes if inputs[index].is_variable)
    results.extend(Result(variable=index) for index in written)
    has_effects = bool(effects.writes) or effects.has_others
    binding = Binding(parameters, tuple(results), handed_on, has_effects)
    return replace(function, inputs=inputs), binding


def _with_list_types(function: CapturedFunction) -> CapturedFunction:
    """Return the function with what TensorFlow does not say of its lists: what they hold."""
    given = ((item.type, item.handle) for item in function.inputs)
    made = zip(function.output_types, function.output_handles, strict=True)
    if not any(
        kind.dtype == "variant" and (handle is None or handle.dtype == "variant")
        for kind, handle in (*given, *made)
    ):
        return function
    types = ListTypes.of(function)
    inner = [types.of_elements(function, ref) for ref in function.outputs]
    return replace(
        function,
        inputs=tuple(_with_elements(item, types, function) for item in function.inputs),
        output_handles=tuple(
            _held_type(types, function, ref, handle)
            for ref, handle in zip(function.outputs, function.output_handles, strict=True)
        ),
        lists_of_lists=frozenset(n for n, kind in enumerate(inner) if kind is not None),
    )


def _held_type(
    types: ListTypes, function: CapturedFunction, ref: TensorRef, handle: TensorType | None
) -> TensorType | None:
    """Return the type of the numbers in a list, or in its lists; `handle` if it says as much."""
    kind = types.of_elements(function, ref)
    if kind is None and handle is None:
        kind = types.of_numbers(function, ref)
    return handle if kind is None else TensorType(kind, None)


def _with_elements(
    item: CapturedInput, types: ListTypes, function: CapturedFunction
) -> CapturedInput:
    if item.type.dtype != "variant":
        return item
    ref = TensorRef(item.name)
    of_lists = types.of_elements(function, ref) is not None
    return replace(item, handle=_held_type(types, function, ref, item.handle), of_lists=of_lists)


def _with_handle(item: CapturedInput, dtype: str | None) -> CapturedInput:
    if item.type.dtype != "resource" or item.handle is not None or dtype is None:
        return item
    return replace(item, handle=TensorType(dtype, None))


def _is_parameter(index: int, item: CapturedInput, effects: Effects) -> bool:
    if item.type.dtype == "resource":
        return item.is_variable and index in effects.reads
    if item.type.dtype == "variant":
        return item.handle is not None and item.handle.dtype not in NOT_NUMBERS
    return item.type.dtype not in NOT_NUMBERS
