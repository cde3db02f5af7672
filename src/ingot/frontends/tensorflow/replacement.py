"""Replaced functions: what TensorFlow registered, what runs instead, and switching between them.

Every jit function that passes the hook gets one `Replacement`. While a SavedModel is written the
original bodies are back in place, so that the file holds the user's functions and can be loaded
where there is no Ingot.

Invariant: `originals` holds the snapshot of every live replaced function by name, so that a
function that calls it can inline it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ingot.frontends.tensorflow.binding import Binding
from ingot.frontends.tensorflow.body import BodyWriter, launch_output_types
from ingot.frontends.tensorflow.capture import FunctionSnapshot, snapshot
from ingot.frontends.tensorflow.compiler import Compiler, FunctionCompiler
from ingot.frontends.tensorflow.launch import Launch
from ingot.frontends.tensorflow.launch_op import LAUNCH_OP, PROCESS_MARK, STATEFUL_LAUNCH_OP
from ingot.frontends.tensorflow.modules import context
from ingot.frontends.tensorflow.variables import bind

_lock = threading.RLock()
_live: weakref.WeakValueDictionary[str, Replacement] = weakref.WeakValueDictionary()
_exporting = 0


class Replacement:
    """One function that Ingot runs in TensorFlow's place.

    Attributes:
        function: the snapshot of the original.
        binding: how the launch meets the function's inputs and outputs.
        launch: what runs.
    """

    __slots__ = ("__weakref__", "_atomic", "_body", "_original", "binding", "function", "launch")

    def __init__(self, atomic: Any, function: FunctionSnapshot, compiler: Compiler) -> None:
        """Replace the body of `atomic`, which was just registered with its original."""
        self.function, self.binding = bind(function)
        self.launch = Launch(
            function.name,
            len(self.binding.parameters),
            launch_output_types(self.function, self.binding),
            FunctionCompiler(self.function, self.binding, compiler),
        )
        self._atomic = weakref.ref(atomic)
        self._original = atomic.definition
        writer = BodyWriter(self._original, self.function, self.binding)
        op = STATEFUL_LAUNCH_OP if self.binding.has_effects else LAUNCH_OP
        self._body = writer.write(op, self.launch.address, PROCESS_MARK)
        if not _exporting:
            self.install()

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
    with _lock:
        replacement = Replacement(atomic, snapshot(name, graph, _Originals()), compiler)
        _live[name] = replacement
        return replacement


def find_replacement(name: str) -> Replacement | None:
    """Return the live replacement of the function `name`, if it has one."""
    return _live.get(name)


def live_replacements() -> list[Replacement]:
    """Return every replacement whose function TensorFlow still holds."""
    return list(_live.values())


class _Originals(dict[str, FunctionSnapshot]):
    """The snapshots of replaced functions, as a mapping over what lives now."""

    def __contains__(self, name: object) -> bool:
        return name in _live

    def __missing__(self, name: str) -> FunctionSnapshot:
        return _live[name].function


@contextmanager
def original_bodies() -> Generator[None]:
    """Hold the original bodies in TensorFlow's runtime within this block."""
    global _exporting
    with _lock:
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
