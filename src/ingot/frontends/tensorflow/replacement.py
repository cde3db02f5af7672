"""Replaced functions: what TensorFlow registered, what runs instead, and switching between them.

Every jit function that passes the hook gets one `Replacement`. While a SavedModel is written the
original bodies are back in place, so that the file holds the user's functions and can be loaded
where there is no Ingot.

Invariant: `originals` holds the capture of every live replaced function by name, so that a
function that calls it can inline it.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ingot.frontends.tensorflow.body import BodyWriter, launch_output_types, variable_inputs
from ingot.frontends.tensorflow.capture import capture
from ingot.frontends.tensorflow.captured import CapturedFunction
from ingot.frontends.tensorflow.compiler import Compiler, FunctionCompiler
from ingot.frontends.tensorflow.errors import without_wrapper
from ingot.frontends.tensorflow.launch import Launch
from ingot.frontends.tensorflow.launch_op import LAUNCH_OP, PROCESS_MARK, STATEFUL_LAUNCH_OP
from ingot.frontends.tensorflow.modules import context, errors, execute
from ingot.frontends.tensorflow.native_calls import NativeCalls
from ingot.frontends.tensorflow.random_state import without_random_state
from ingot.frontends.tensorflow.variable_access import fits
from ingot.frontends.tensorflow.variable_test import is_available
from ingot.frontends.tensorflow.variables import NOT_NUMBERS, bind
from ingot.support.forking import ForkLock, fork_deferred

_lock = ForkLock()
_live: weakref.WeakValueDictionary[str, Replacement] = weakref.WeakValueDictionary()
_exporting = 0


class Replacement:
    """One function that Ingot runs in TensorFlow's place.

    Attributes:
        function: the original, captured.
        binding: how the launch meets the function's inputs and outputs.
        launch: what runs.
        natives: how it runs eagerly where no op is needed.
    """

    __slots__ = (
        "__weakref__",
        "_atomic",
        "_attributes",
        "_body",
        "_op",
        "_original",
        "binding",
        "function",
        "is_one_op",
        "launch",
        "natives",
    )

    def __init__(self, atomic: Any, function: CapturedFunction, compiler: Compiler) -> None:
        """Replace the body of `atomic`, which was just registered with its original."""
        self.function, self.binding = bind(function)
        direct = is_available() and fits(self.function.inputs, self.binding)
        compiles = FunctionCompiler(self.function, self.binding, compiler)
        weakref.finalize(self, compiles.drop).atexit = False
        self.launch = Launch(
            function.name,
            len(self.binding.parameters),
            launch_output_types(self.function, self.binding, direct),
            compiles,
            variable_inputs(self.function, self.binding) if direct else (),
        )
        self.natives = NativeCalls(self.function, self.binding, self.launch)
        self._atomic = weakref.ref(atomic)
        self._original = atomic.definition
        writer = BodyWriter(self._original, self.function, self.binding, direct)
        stateful = direct or self.binding.has_effects
        self._op = STATEFUL_LAUNCH_OP if stateful else LAUNCH_OP
        self._body = writer.write(self._op, self.launch.address, PROCESS_MARK)
        self.is_one_op = [node.op for node in self._body.node_def] == [self._op]
        self._attributes: Any = None
        if not _exporting:
            self.install()

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the function eagerly, as the one op that it is at most; return its flat outputs."""
        outputs = self.natives.run(inputs)
        return self._execute_op(inputs) if outputs is None else outputs

    def _execute_op(self, inputs: Sequence[Any]) -> list[Any]:
        if self._attributes is None:
            attributes = self._body.node_def[0].attr
            kinds = [list(attributes[name].list.type) for name in ("Tin", "Tout")]
            numbers = ("process", PROCESS_MARK, "launch", self.launch.address)
            self._attributes = ("Tin", kinds[0], "Tout", kinds[1], *numbers)
        given = [inputs[item.input] for item in self.binding.parameters]
        count = len(self._attributes[3])
        try:
            results = execute.execute(self._op, count, given, self._attributes, context.context())
        except errors.OpError as error:
            error._message = without_wrapper(error.message)
            raise
        except RuntimeError as error:
            # Ctrl-C ended the function; TensorFlow made this of its own error and Python's.
            if "REPLACED BY KeyboardInterrupt" in str(error):
                raise KeyboardInterrupt from None
            raise
        if not self.binding.handed_on:
            return results
        outputs: list[Any] = [None] * len(self.function.outputs)
        for result, value in zip(self.binding.results, results, strict=False):
            assert result.output is not None
            outputs[result.output] = value
        for output, source in self.binding.handed_on:
            # Never the very tensor: a tape takes outputs for new ones.
            kind = ("T", inputs[source].dtype.as_datatype_enum)
            (outputs[output],) = execute.execute(
                "Identity", 1, [inputs[source]], kind, context.context()
            )
            if self.function.inputs[source].type.dtype in NOT_NUMBERS:
                outputs[output]._handle_data = inputs[source]._handle_data
        return outputs

    def install(self) -> None:
        """Let TensorFlow's runtime run the launch."""
        self._define(self._body)

    def restore(self) -> None:
        """Let TensorFlow's runtime hold the original again."""
        self._define(self._original)

    def _define(self, definition: Any) -> None:
        atomic = self._atomic()
        if atomic is None:
            return
        runtime = context.context()
        if runtime.has_function(atomic.name):
            runtime.remove_function(atomic.name)
        runtime.add_function_def(definition)
        atomic._cached_definition = definition


def replace_function(atomic: Any, graph: Any, name: str, compiler: Compiler) -> Replacement:
    """Replace the just registered function `name`; the result must live as long as `atomic`."""
    with fork_deferred(), _lock:
        replacement = Replacement(atomic, capture(name, graph, _Originals()), compiler)
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
