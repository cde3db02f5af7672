# SPDX-License-Identifier: Apache-2.0
"""Replaced functions: what TensorFlow registered, what runs instead, and switching between them.

Every jit function that passes the hook gets one `Replacement`. While a SavedModel is written the
original bodies are back in place, and a GraphDef is given with them, so that what is exported holds
the user's functions, can be differentiated, and can be loaded where there is no Ingot.

Invariant: `originals` holds the capture of every live replaced function by name, so that a
function that calls it can inline it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ingot.frontends.tensorflow.api.errors import CANNOT_COMPILE
from ingot.frontends.tensorflow.api.modules import (
    atomic_function,
    context,
    errors,
    nest,
    pywrap_tf_session,
)
from ingot.frontends.tensorflow.compiler import Compiler, FunctionCompiler
from ingot.frontends.tensorflow.functions.dropped_launches import drop, release_dropped
from ingot.frontends.tensorflow.functions.failure_texts import refused_by_both, with_words
from ingot.frontends.tensorflow.functions.list_arguments import (
    is_about_list,
    list_error_text,
    open_lists,
    open_splits,
    refused_list,
)
from ingot.frontends.tensorflow.functions.one_op import OneOp
from ingot.frontends.tensorflow.graphs.capture import capture, function_attributes
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction
from ingot.frontends.tensorflow.graphs.random_state import has_seeds, restart, without_random_state
from ingot.frontends.tensorflow.graphs.variable_access import fits
from ingot.frontends.tensorflow.graphs.variables import bind, may_repeat
from ingot.frontends.tensorflow.launches.body import (
    INGOT_COMPILE,
    launch_output_types,
    variable_inputs,
)
from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.launches.launch_writer import Program, write_body
from ingot.frontends.tensorflow.launches.variable_test import is_available
from ingot.frontends.tensorflow.partitioning.constant_folding import fold_on_host
from ingot.frontends.tensorflow.partitioning.host_report import report_hosted
from ingot.frontends.tensorflow.partitioning.placement import Refused, find_refused, on_host
from ingot.support.diagnostics import Diagnostic
from ingot.support.forking import ForkLock, defers_fork, fork_deferred

_lock = ForkLock()
_live: weakref.WeakValueDictionary[str, Replacement] = weakref.WeakValueDictionary()
_exporting = 0

_STATE = (
    "_body",
    "_compilers",
    "_hosted",
    "_inner",
    "_is_repeatable",
    "_refused",
    "function",
    "one_op",
    "programs",
)
"""Attributes of a replacement that follow from which nodes are refused."""

_MOST_RETURNS = 16

_FORWARD, _BACKWARD = "__forward_", "__backward_"
"""How TensorFlow starts the names of the functions that it makes for a gradient."""


def _count(refused: Refused) -> int:
    return sum(map(len, refused.values()))


class Replacement:
    """One function that Ingot runs in TensorFlow's place.

    Attributes:
        function: the original, captured.
        programs: what is compiled: the whole function, or its parts between nodes on the host.
        one_op: how it runs eagerly, if it is a single launch.
    """

    __slots__ = (
        "__weakref__",
        "_atomic",
        "_body",
        "_compiler",
        "_compilers",
        "_hosted",
        "_inner",
        "_is_repeatable",
        "_is_settled",
        "_is_strict",
        "_original",
        "_refused",
        "_returns",
        "function",
        "one_op",
        "programs",
    )

    def __init__(
        self, atomic: Any, graph: Any, function: CapturedFunction, compiler: Compiler, strict: bool
    ) -> None:
        """Replace the body of `atomic`, which was just registered with its original.

        `strict`: the function is compiled whole, or an error when it runs.
        """
        self._atomic = weakref.ref(atomic)
        self._original = atomic.definition
        self._compiler = compiler
        self._is_strict = self._is_settled = strict
        self._refused: Refused = {}
        self._returns = 0
        self._compilers: list[FunctionCompiler] = []
        self._inner: tuple[Any, ...] = ()
        self.function = function
        self.one_op: OneOp | None = None
        self.programs: tuple[Program, ...] = ()
        self._write(graph)
        self._report()

    def run(self, atomic: Any, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
        """Run the function eagerly; return its flat outputs.

        Args:
            atomic: the function that was replaced.
            inputs: its flat inputs.
            call: has TensorFlow's runtime run the function.
        """
        first: Mapping[str, Any] | None = None
        refusals: list[str] = []
        while True:
            programs = self.programs
            try:
                outputs = self._run_once(atomic, inputs, call)
            except errors.OpError as error:
                # What was not compiled has done nothing, and what came before it has no effects.
                is_of_list = is_about_list(error.message)
                is_refusal = is_of_list or CANNOT_COMPILE in error.message
                state = self._state()
                if (
                    self._is_repeatable
                    and is_refusal
                    and self._keep_refused(programs, error.message if is_of_list else "")
                ):
                    first = state if first is None else first
                    refusals.append(error.message)
                    continue
                if is_of_list:
                    error._message = list_error_text(error.message)
                if self._is_repeatable:
                    error._message = with_words(error.message, self._original, inputs, original_of)
                if first is not None:
                    # TensorFlow refuses this call too: it says nothing about other calls.
                    self._return_to(first)
                    error._message = refused_by_both(error.message, refusals[::-1])
                raise
            if refusals:
                self._report()
            return outputs

    def _run_once(self, atomic: Any, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
        launch = self.one_op
        if launch is not None and len(inputs) == len(self.function.inputs):
            try:
                return launch.execute(inputs)
            except errors.OpError as error:
                # Without tags there is nothing to put in, and TensorFlow looks for them for 0.5 ms.
                if "{{" not in error.message:
                    raise
                with atomic_function.InterpolateRuntimeError(atomic):
                    raise
        self.settle()
        return call()

    @property
    def original(self) -> Any:
        """The FunctionDef of the function as it was traced."""
        return self._original

    @defers_fork
    def settle(self, tensors: Sequence[Any] = ()) -> None:
        """Let TensorFlow run the ops that the compiler refuses in every call.

        For what runs as a part of a graph, where nothing can be tried and then done otherwise.

        Args:
            tensors: what a graph calls the function with.
        """
        with _lock:
            is_new = not self._is_strict and self._keep(
                [open_lists(self.function, tensors, _is_cut)]
            )
            if not self._is_settled:
                self._is_settled = is_new = True
                self._keep([open_splits(self.function)])
                while self._keep(self._found([item.find_refusal() for item in self._compilers])):
                    pass
            if is_new:
                self._report()

    @defers_fork
    def _keep_refused(self, programs: Sequence[Program], list_error: str) -> bool:
        """Let TensorFlow run what a call of `programs` was refused for; whether that is new.

        Args:
            programs: what the body of that call ran.
            list_error: what TensorFlow said of a list that it was called with, if it did.
        """
        with _lock:
            if self.programs is not programs:
                return True
            if self._is_strict:
                return False
            if list_error:
                return self._keep([refused_list(list_error, programs)])
            return self._keep(self._found([item.launch.refusal for item in programs]))

    def _found(self, refusals: Sequence[Diagnostic | None]) -> list[Refused]:
        """Return the nodes that the compiler's errors are about."""
        return [find_refused(self.function, why) for why in refusals if why is not None]

    def _keep(self, found: Sequence[Refused]) -> bool:
        """Let TensorFlow run the nodes that were refused; return whether there are new ones."""
        atomic = self._atomic()
        refused = {name: dict(nodes) for name, nodes in self._refused.items()}
        for item in found:
            for name, nodes in item.items():
                refused.setdefault(name, {}).update(nodes)
        if atomic is None or _count(refused) == _count(self._refused):
            return False
        self._refused = refused
        self.function = without_random_state(self.function)
        self._write(atomic.graph)
        return True

    def inlined(self) -> CapturedFunction:
        """Return the original for a function that calls it, and mostly in its place."""
        for compiles in self._compilers:
            compiles.forget_lowered()
        return without_random_state(self.function)

    def _report(self) -> None:
        report_hosted(self.function, self._hosted, self._refused, len(self.programs))

    def _state(self) -> dict[str, Any]:
        with _lock:
            return {name: getattr(self, name) for name in _STATE}

    @defers_fork
    def _return_to(self, state: Mapping[str, Any]) -> None:
        """Run the body of before again; not endlessly often, because launches live for ever."""
        with _lock:
            if self._returns < _MOST_RETURNS:
                self._returns += 1
                for name, value in state.items():
                    setattr(self, name, value)
                self.install()

    def _write(self, graph: Any) -> None:
        """Write the body, let TensorFlow have it, and only then say what it is made of."""
        hosted = on_host(self.function, self._refused)
        folded = fold_on_host(self.function, hosted, graph)
        if folded is not self.function:
            self.function = folded
            hosted = on_host(folded, self._refused)
        self._hosted = {} if self._is_strict else hosted
        self._compilers = []
        if self.function.name in self._hosted:
            programs, one_op = self._write_hosted(graph), None
        else:
            programs, one_op = self._write_whole()
        # One program that was not compiled, or did not get its lists, has done nothing.
        everything = (self.function, *self.function.library.values())
        self._is_repeatable = not self._hosted or all(
            may_repeat(node.op) for item in everything for node in item.nodes
        )
        if not _exporting:
            self.install()
        self.one_op, self.programs = one_op, programs

    def _write_whole(self) -> tuple[tuple[Program, ...], OneOp | None]:
        program = self._make_program(self.function, self.function.name)
        self.function, self._inner = program.function, ()
        self._body = write_body(self._original, program)
        is_launch = [node.op for node in self._body.node_def] == [program.op]
        return (program,), OneOp(program, self._body) if is_launch else None

    def _write_hosted(self, graph: Any) -> tuple[Program, ...]:
        from ingot.frontends.tensorflow.functions.hosting import write_hosted

        written = write_hosted(
            self._original,
            self.function,
            graph,
            self._hosted,
            self._make_program,
            self._runs_itself,
        )
        self._body, self._inner = written.definition, written.inner
        weakref.finalize(self, _forget, self.inner_names).atexit = False
        return written.programs

    def _runs_itself(self, name: str) -> bool:
        """Whether a function that is called has a body of its own, cut as it is cut here."""
        found = _live.get(name)
        if found is None:
            return False
        if found.takes_own_lists and not found.is_cut:
            return False
        names = (found.function.name, *found.function.library)
        return all(found._hosted.get(item) == self._hosted.get(item) for item in names)

    @property
    def is_cut(self) -> bool:
        """Whether TensorFlow runs a part of it."""
        return self.function.name in self._hosted

    @property
    def takes_own_lists(self) -> bool:
        """Whether it takes or gives lists of lists as compiled code has them."""
        function = self.function
        return bool(function.lists_of_lists) or any(item.of_lists for item in function.inputs)

    @property
    def inner_names(self) -> list[str]:
        """Names of the functions that only the body calls."""
        return [item.signature.name for item in self._inner]

    def _make_program(self, function: CapturedFunction, of: str) -> Program:
        """Return a function, or a part of the function named `of`, as a launch."""
        function, binding = bind(function)
        direct = is_available() and fits(function.inputs, binding)
        compiles = FunctionCompiler(function, binding, self._compiler)
        self._compilers.append(compiles)
        launch = Launch(
            function.name,
            len(binding.parameters),
            launch_output_types(function, binding, direct),
            compiles,
            variable_inputs(function, binding) if direct else (),
        )
        weakref.finalize(self, _drop, compiles, launch).atexit = False
        return Program(of, function, binding, direct, launch)

    def install(self) -> None:
        """Let TensorFlow's runtime run the launch."""
        runtime = context.context()
        for definition in self._inner:
            if not runtime.has_function(definition.signature.name):
                runtime.add_function_def(definition)
        self._define(self._body)

    def add_inner(self, graph: Any) -> None:
        """Give a session's graph what the body calls: the graph has a library of its own.

        What a function of the user's calls in turn is known to the graph, unless a gradient that
        was made later changed the call.
        """
        runtime = context.context()
        with graph._c_graph.get() as c_graph:
            for name in self._called():
                if not graph._is_function(name):
                    with runtime.get_c_function(name).get() as function:
                        pywrap_tf_session.TF_GraphCopyFunction(c_graph, function, None)

    def _called(self) -> list[str]:
        """Return the names of the functions that the body calls, and those that these call."""
        runtime = context.context()
        found: dict[str, None] = {}
        pending = [self._body]
        while pending:
            nodes = pending.pop().node_def
            for name in (item.name for node in nodes for item in function_attributes(node)):
                if name not in found and runtime.has_function(name):
                    found[name] = None
                    pending.append(runtime.get_function_def(name))
        return list(found)

    def show_original(self, graph: Any) -> None:
        """Let TensorFlow's shape inference in this graph, which never runs, see the original."""
        text = self._original.SerializeToString()
        function = pywrap_tf_session.TF_FunctionImportFunctionDef(text)
        try:
            with graph._c_graph.get() as c_graph:
                name = self._original.signature.name.encode()
                pywrap_tf_session.TF_GraphRemoveFunction(c_graph, name)
                pywrap_tf_session.TF_GraphCopyFunction(c_graph, function, None)
        finally:
            pywrap_tf_session.TF_DeleteFunction(function)

    def restore(self) -> None:
        """Let TensorFlow's runtime hold the original again."""
        self._define(self._original)

    def restart_random_numbers(self) -> None:
        """Let the random ops of the function start again, as if it had never run.

        Not if one has no seeds: its numbers must not come again.
        """
        if has_seeds(self.function):
            for definition in (self._body, *self._inner):
                restart(definition)

    def write_original(self, definition: Any) -> None:
        """Make `definition`, a FunctionDef of the body, the original; shapes noted in it stay."""
        noted = dict(definition.attr)
        definition.CopyFrom(self._original)
        for key, value in noted.items():
            if key not in definition.attr:
                definition.attr[key].CopyFrom(value)
        del definition.attr[INGOT_COMPILE]

    def _define(self, definition: Any) -> None:
        atomic = self._atomic()
        if atomic is None:
            return
        runtime = context.context()
        if runtime.has_function(atomic.name):
            runtime.remove_function(atomic.name)
        runtime.add_function_def(definition)
        atomic._cached_definition = definition


def _drop(compiles: FunctionCompiler, launch: Launch) -> None:
    """Let go of a function and of what it was compiled to."""
    compiles.drop()
    drop(launch)


def _forget(names: Sequence[str]) -> None:
    """Remove functions that only a replaced function called."""
    runtime = context.context()
    for name in names:
        if runtime.has_function(name):
            runtime.remove_function(name)


def _is_cut(name: str) -> bool:
    """Whether TensorFlow runs a part of a function."""
    found = _live.get(name)
    return found is not None and found.is_cut


def replace_function(
    atomic: Any, graph: Any, name: str, compiler: Compiler, *, strict: bool
) -> Replacement:
    """Replace the just registered function `name`; the result must live as long as `atomic`."""
    with fork_deferred(), _lock:
        release_dropped()
        captured = replace(capture(name, graph, _Originals()), shown=_outputs_of_user(name, graph))
        replacement = Replacement(atomic, graph, captured, compiler, strict)
        _live[name] = replacement
        return replacement


def _outputs_of_user(name: str, graph: Any) -> int:
    """Return how many outputs of a function are the user's: TensorFlow adds some for gradients."""
    if _BACKWARD in name:
        return 0
    if not name.startswith(_FORWARD):
        return len(graph.outputs)
    outputs = nest.flatten(graph.structured_outputs, expand_composites=True)
    return sum(item is not None for item in outputs)


def capture_now(name: str, graph: Any) -> CapturedFunction:
    """Return what `graph` computes, with the original bodies of replaced functions."""
    with fork_deferred(), _lock:
        return capture(name, graph, _Originals())


def find_replacement(name: str) -> Replacement | None:
    """Return the live replacement of the function `name`, if it has one."""
    return _live.get(name)


def original_of(name: str) -> Any:
    """Return the FunctionDef of a replaced function as it was traced; None for any other."""
    replacement = find_replacement(name)
    return None if replacement is None else replacement.original


def live_replacements() -> list[Replacement]:
    """Return every replacement whose function TensorFlow still holds."""
    return list(_live.values())


def live_replacement(name: str) -> Replacement | None:
    """Return the replacement of the function that TensorFlow calls `name`, if it has one."""
    return _live.get(name)


class _Originals(dict[str, CapturedFunction]):
    """The captures of replaced functions, as a mapping over what lives now."""

    def __contains__(self, name: object) -> bool:
        return name in _live

    def __missing__(self, name: str) -> CapturedFunction:
        return _live[name].inlined()


def with_original_bodies(graph_def: Any) -> Any:
    """Return a GraphDef with the original bodies of the functions in its library."""
    functions, inner = graph_def.library.function, set[str]()
    for definition in functions:
        replacement = find_replacement(definition.signature.name)
        if replacement is not None and INGOT_COMPILE in definition.attr:
            replacement.write_original(definition)
            inner.update(replacement.inner_names)
    if inner:
        kept = [item for item in functions if item.signature.name not in inner]
        del functions[:]
        functions.extend(kept)
    return graph_def


@contextmanager
def original_bodies() -> Generator[None]:
    """Hold the original bodies in TensorFlow's runtime within this block."""
    global _exporting
    with fork_deferred(), _lock:
        _exporting += 1
        for replacement in live_replacements():
            replacement.restore()
        try:
            yield
        finally:
            _exporting -= 1
            if not _exporting:
                for replacement in live_replacements():
                    replacement.install()
