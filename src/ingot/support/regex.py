# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that are compiled when they are first used.

A module is imported for one of its functions, and has patterns for all of them. Those of a first
compilation took 20 ms to compile; a program uses a few of them.

Example:
    >>> _WORD = regex(r"[a-z]+")
    >>> _WORD.findall("one, two"), _WORD.pattern
    (['one', 'two'], '[a-z]+')
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")


class _Regex:
    """Stands for a pattern: its methods are there after the first of them was asked for."""

    __slots__ = (*_METHODS, "flags", "pattern")

    def __init__(self, text: Any, flags: int) -> None:
        self.pattern, self.flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(f"patterns have no {name!r} here")
        compiled: Any = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(self, name)


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern, for a global of a module, which is compiled when it is first used.

    It has the methods of `re.Pattern` except `scanner`, its text, and the given flags.
    """
    return cast("re.Pattern[AnyStr]", _Regex(text, flags))
