# SPDX-License-Identifier: Apache-2.0
"""What a front end has to do before the first program is compiled.

A process that finds all its programs on the disk does not do it.
"""

from __future__ import annotations

from collections.abc import Callable

_preparations: list[Callable[[], None]] = []


def before_compiling(prepare: Callable[[], None]) -> None:
    """Call a function once, before the next program is compiled."""
    _preparations.append(prepare)


def prepare_to_compile() -> None:
    """Call each preparation that has not been called yet."""
    while _preparations:
        _preparations.pop()()
