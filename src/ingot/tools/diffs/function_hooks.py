# SPDX-License-Identifier: Apache-2.0
"""Compares the functions that a program compiles when it calls them, for `ingot diff program.py`.

While a program runs, `jax.jit` and the `tf.function`s with `jit_compile=True` are wrapped: the
first call of each function is compared (`function_diff`) before it runs as usual. The reference
runs on the same arguments; variables are restored before each run.

Invariant: if the reference or the comparison fails, the call still runs as usual.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ingot.support.diagnostics import IngotError
from ingot.tools.diffs.differences import Diff
from ingot.tools.diffs.function_diff import diff_function, run_both
from ingot.tools.programs.comparing import Bounds
from ingot.tools.script_runner import EnableAfterImport

_FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


class _Comparer:
    """Compares each function once, and none while another one is compared."""

    def __init__(self, bounds: Bounds, seconds: float) -> None:
        self._bounds = bounds
        self._seconds = seconds
        self._seen: list[Any] = []
        self._is_busy = False
        self.is_over = False
        self.found: list[Diff] = []

    def compare(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._is_busy or self.is_over or any(one is function for one in self._seen):
            return
        self._seen.append(function)
        self._is_busy = True
        try:
            both = run_both(function, args, kwargs)
            self.found.append(diff_function(both, self._bounds, self._seconds))
        except IngotError as error:
            name = str(getattr(function, "__name__", function))
            print(f"ingot: {name} is not compared: {error}", file=sys.stderr)
        finally:
            self._is_busy = False


class _Jitted:
    """A result of `jax.jit` that compares its first call outside of any trace."""

    def __init__(self, function: Any, comparer: _Comparer) -> None:
        self._function = function
        self._comparer = comparer
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        jax: Any = sys.modules["jax"]
        core: Any = importlib.import_module("jax._src.core")
        leaves: list[Any] = jax.tree.leaves((args, kwargs))
        if core.trace_state_clean() and not any(isinstance(one, core.Tracer) for one in leaves):
            self._comparer.compare(self._function, args, kwargs)
        return self._function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


@contextmanager
def compared_functions(bounds: Bounds, seconds: float) -> Generator[list[Diff]]:
    """Compare the functions that are called in the `with` block; yield the list of results."""
    comparer = _Comparer(bounds, seconds)
    undo: list[Callable[[], None]] = []
    hooks = [
        _Hook("jax", lambda: undo.append(_watch_jax(comparer))),
        _Hook("tensorflow", lambda: undo.append(_watch_tensorflow(comparer))),
    ]
    for hook in hooks:
        hook.begin()
    try:
        yield comparer.found
    finally:
        for hook in hooks:
            hook.end()
        for one in undo:
            one()


class _Hook(EnableAfterImport):
    """Calls a function when a framework is imported, or now if it was."""

    def __init__(self, framework: str, act: Callable[[], None]) -> None:
        super().__init__(framework, "")
        self._name = framework
        self._act = act

    def begin(self) -> None:
        if self._name in sys.modules:
            self._act()
        else:
            sys.meta_path.insert(0, self)

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _enable(self) -> None:
        self._act()


def _watch_jax(comparer: _Comparer) -> Callable[[], None]:
    """Replace `jax.jit`; return a function that restores it."""
    jax: Any = sys.modules["jax"]
    original: Any = jax.jit

    @functools.wraps(original)
    def jit(*args: Any, **kwargs: Any) -> Any:
        def decorated(*given: Any) -> Any:
            return _Jitted(original(*given, **kwargs), comparer)

        return decorated(*args) if args else decorated

    jax.jit = jit
    return lambda: setattr(jax, "jit", original)


def _watch_tensorflow(comparer: _Comparer) -> Callable[[], None]:
    """Replace the call of `tf.function`s; return a function that restores it."""
    home: Any = importlib.import_module(_FUNCTION)
    original: Any = home.Function.__call__

    @functools.wraps(original)
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        tf: Any = sys.modules["tensorflow"]
        if function._jit_compile and tf.executing_eagerly():
            comparer.compare(function, args, kwargs)
        return original(function, *args, **kwargs)

    def undo() -> None:
        comparer.is_over = True
        if home.Function.__call__ is call:  # Else Ingot's front end calls it.
            home.Function.__call__ = original

    home.Function.__call__ = call
    return undo
