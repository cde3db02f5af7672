# SPDX-License-Identifier: Apache-2.0
"""Where in the user's own program a graph node was made.

Used by `capture` for HLO metadata and diagnostics. The innermost stack frame that lies in neither
TensorFlow, Keras, Ingot nor an installed package is taken for the user's; where every frame is in
a package (a Keras layer's body called by `fit`), the outermost frame is, unless it is a command's:
a model that `ingot aot` loads has no line of the user's.

Invariant: a lookup never fails; what is not known is None.
"""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Any

from ingot.support.diagnostics import SourceLocation

_INGOT = Path(__file__).parents[3]


def library_roots(*folders: str | Path) -> tuple[str, ...]:
    """Return how the names of files in `folders` may begin: as they are spelled, and resolved.

    An environment that is reached through a link has frames of both kinds.
    """
    return tuple(
        dict.fromkeys(str(path) for root in folders for path in (root, Path(root).resolve()))
    )


_LIBRARY_ROOTS = library_roots(
    *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "scripts")), _INGOT
)
_COMMANDS = (sysconfig.get_path("scripts"), str(_INGOT))
"""Where what starts the process is of no interest: `bin/ingot`, `python -m ingot`."""


@lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    """Whether a source file belongs to the user's program."""
    return not file.startswith(("<", *_LIBRARY_ROOTS))


class Locations:
    """Finds where nodes were made. Reading a stack is dear, and nodes made alike share one.

    So is hashing one (25 us for 60 frames), so what was found is kept by the hash itself: two
    stacks of one hash of 64 bits would be one line for another in a message.
    """

    def __init__(self) -> None:
        """Start with nothing known."""
        self._found: dict[int, SourceLocation | None] = {}

    def of(self, graph: Any, node: str) -> SourceLocation | None:
        """Return where the user's program made the node of a FuncGraph."""
        try:
            frames = graph.get_operation_by_name(node).traceback
            key = hash(frames)
            if key not in self._found:
                self._found[key] = _location(frames)
            return self._found[key]
        except (KeyError, ValueError, AttributeError, RuntimeError, TypeError):
            # Graphs that TensorFlow made of a definition have nothing to say.
            return None


def _location(frames: Any) -> SourceLocation | None:
    count = len(frames)
    # From the innermost: reading a frame is dear, and most lie outside.
    for number in range(count - 1, -1, -1):
        frame = frames[number]
        if is_user_file(frame.filename):
            return SourceLocation(frame.filename, frame.lineno)
    if not count or frames[0].filename.startswith(_COMMANDS):
        return None
    return SourceLocation(frames[0].filename, frames[0].lineno)
