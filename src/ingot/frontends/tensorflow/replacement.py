"""Replaced functions: what TensorFlow registered, what runs instead, and switching between them.

Every jit function that passes the hook gets one `Replacement`. While a SavedModel is written the
original bodies are back in place, and a GraphDef is given with them, so that what is exported holds
the user's functions, can be differentiated, and can be loaded where there is no Ingot.

Invariant: `originals` holds the capture of every live replaced function by name, so that a
function that calls it can inline it.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ingot.frontends.tensorflow.body import INGOT_COMPILE, launch_output_types, variable_inputs
from ingot.frontends.tensorflow.capture import capture
from ingot.frontends.tensorflow.captured import CapturedFunction
from ingot.frontends.tensorflow.compiler import Compiler, FunctionCompiler
from ingot.frontends.tensorflow.host_report import report_hosted
from ingot.frontends.tensorflow.hosting import write_hosted
from ingot.frontends.tensorflow.launch import Launch
from ingot.frontends.tensorflow.launch_writer import Program, write_body
from ingot.frontends.tensorflow.modules import context
from ingot.frontends.tensorflow.one_op import OneOp
from ingot.frontends.tensorflow.placement import on_host
from ingot.frontends.tensorflow.random_state import without_random_state
from ingot.frontends.tensorflow.variable_access import fits
from ingot.frontends.tensorflow.variable_test import is_available
from ingot.frontends.tensorflow.variables import bind
from ingot.support.forking import ForkLock, fork_deferred

_lock = ForkLock()
_live: weakref.WeakValueDictionary[str, Replacement] = weakref.WeakValueDictionary()
_exporting = 0


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
        "_inner",
        "_original",
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
        self._inner: tuple[Any, ...] = ()
        self.function = function
        self.one_op: OneOp | None = None
        hosted = {} if strict else on_host(function)
        if function.name in hosted:
            self._write_hosted(graph, hosted)
        else:
            self._write_whole()
        if not _exporting:
            self.install()

    def _write_whole(self) -> None:
        program = self._make_program(self.function)
        self.function, self.programs = program.function, (program,)
        self._body = write_body(self._original, program)
        if [node.op for node in self._body.node_def] == [program.op]:
            self.one_op = OneOp(program, self._body)

    def _write_hosted(self, graph: Any, hosted: Mapping[str, frozenset[str]]) -> None:
        written = write_hosted(
            self._original, self.function, graph, hosted, self._make_program, _is_replaced
        )
        self._body, self._inner, self.programs = (
            written.definition,
            written.inner,
            written.programs,
        )
        report_hosted(self.function, hosted, len(self.programs))
        names = [item.signature.name for item in self._inner]
        weakref.finalize(self, _forget, names).atexit = False

    def _make_program(self, function: CapturedFunction) -> Program:
        """Return a function, or a part of one, as a launch."""
        function, binding = bind(function)
        direct = is_available() and fits(function.inputs, binding)
        compiles = FunctionCompiler(function, binding, self._compiler)
        weakref.finalize(self, compiles.drop).atexit = False
        launch = Launch(
            function.name,
            len(binding.parameters),
            launch_output_types(function, binding, direct),
            compiles,
            variable_inputs(function, binding) if direct else (),
        )
        return Program(function, binding, direct, launch)

    def install(self) -> None:
        """Let TensorFlow's runtime run the launch."""
        runtime = context.context()
        for definition in self._inner:
            if not runtime.has_function(definition.signature.name):
                runtime.add_function_def(definition)
        self._define(self._body)

    def restore(self) -> None:
        """Let TensorFlow's runtime hold the original again."""
        self._define(self._original)

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


def _forget(names: Sequence[str]) -> None:
    """Remove functions that only a replaced function called."""
    runtime = context.context()
    for name in names:
        if runtime.has_function(name):
            runtime.remove_function(name)


def _is_replaced(name: str) -> bool:
    return name in _live


def replace_function(
    atomic: Any, graph: Any, name: str, compiler: Compiler, *, strict: bool
) -> Replacement:
    """Replace the just registered function `name`; the result must live as long as `atomic`."""
    with fork_deferred(), _lock:
        captured = capture(name, graph, _Originals())
        replacement = Replacement(atomic, graph, captured, compiler, strict)
        _live[name] = replacement
        return replacement


def find_replacement(name: str) -> Replacement | None:
    """Return the live replacement of the function `name`, if it has one."""
    return _live.get(name)


def live_replacements() -> list[Replacement]:
    """Return every replacement whose function TensorFlow still holds."""
    return list(_live.values())


class _Originals(dict[str, CapturedFunction]):
    """The captures of replaced functions, as a mapping over what lives now."""

    def __contains__(self, name: object) -> bool:
        return name in _live

    def __missing__(self, name: str) -> CapturedFunction:
        return without_random_state(_live[name].function)


def with_original_bodies(graph_def: Any) -> Any:
    """Return a GraphDef with the original bodies of the functions in its library."""
    for definition in graph_def.library.function:
        replacement = find_replacement(definition.signature.name)
        if replacement is not None and INGOT_COMPILE in definition.attr:
            replacement.write_original(definition)
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
