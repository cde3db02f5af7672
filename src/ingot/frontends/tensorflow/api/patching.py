# SPDX-License-Identifier: Apache-2.0
"""The names of TensorFlow that Ingot replaces, each checked before it is replaced.

`hook.enable` puts the replacements in and `hook.disable` takes them out. A TensorFlow without one
of the names, or whose function takes what its replacement does not take, is an UnsupportedError
that names it.

Invariant: `undo` leaves every attribute as it was before `replace`, in whatever state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ingot.frontends.tensorflow.api import series
from ingot.support.diagnostics import UnsupportedError

Make = Callable[[Any], Any]
"""Takes what a name stands for and returns what takes its place."""
Replace = Callable[[Any, str, Make], None]


class Patches:
    """What is replaced."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._made: list[tuple[Any, str, Any]] = []

    def __bool__(self) -> bool:
        """Return whether anything is replaced."""
        return bool(self._made)

    def replace(self, owner: Any, path: str, make: Make) -> None:
        """Replace what stands at `path` in a module or class.

        Raises:
            UnsupportedError: INGOT0313, it is not there, or is called in another way.
        """
        *parents, name = path.split(".")
        for parent in parents:
            owner = _member(owner, parent)
        original = _member(owner, name)
        replacement = make(original)
        _check_call(f"{owner.__name__}.{name}", original, replacement)
        setattr(owner, name, replacement)
        self._made.append((owner, name, original))

    def undo(self) -> None:
        """Put back what was replaced, the latest first."""
        while self._made:
            owner, name, original = self._made.pop()
            setattr(owner, name, original)


def _member(owner: Any, name: str) -> Any:
    found = getattr(owner, name, None)
    if found is None:
        raise UnsupportedError(
            f"this TensorFlow has no '{owner.__name__}.{name}', which Ingot replaces",
            code="INGOT0313",
            hint=series.INSTALL,
        )
    return found


def _check_call(name: str, original: Any, replacement: Any) -> None:
    """Check that a function can be called in all the ways in which the original can."""
    if not inspect.isroutine(original) or _takes_all(replacement):
        return
    wanted = inspect.signature(original)
    given = inspect.signature(replacement)
    parameters = [item for item in wanted.parameters.values() if item.kind not in _REST]
    needed = [item for item in parameters if item.default is item.empty]
    for some in (parameters, needed):
        in_place = [item.name for item in some if item.kind is not item.KEYWORD_ONLY]
        by_name = {item.name: None for item in some if item.kind is item.KEYWORD_ONLY}
        try:
            given.bind(*in_place, **by_name)
        except TypeError as error:
            raise UnsupportedError(
                f"this TensorFlow's '{name}' takes {wanted}, and what Ingot puts in its place "
                f"takes {given}: {error}",
                code="INGOT0313",
                hint=series.INSTALL,
            ) from None


def _takes_all(function: Any) -> bool:
    """Whether a function takes `*args, **kwargs` and nothing else: signatures are slow to make."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount or code.co_kwonlyargcount:
        return False
    return code.co_flags & _ALL == _ALL


_ALL = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
