"""Where in the user's own program a graph node was made.

Used by `capture` for HLO metadata and diagnostics. The innermost stack frame that lies in neither
TensorFlow, Keras, Ingot nor an installed package is taken for the user's; where every frame is in
a package (a Keras layer's body called by `fit`), the outermost frame is.

Invariant: a lookup never fails; what is not known is None.
"""

from __future__ import annotations

import sysconfig
import weakref
from pathlib import Path
from typing import Any

from ingot.support.diagnostics import SourceLocation

_LIBRARY_ROOTS = tuple(
    dict.fromkeys(
        str(Path(root).resolve())
        for root in (
            sysconfig.get_path("purelib"),
            sysconfig.get_path("platlib"),
            sysconfig.get_path("stdlib"),
            Path(__file__).parents[2],
        )
    )
)


def is_user_file(file: str) -> bool:
    """Whether a source file belongs to the user's program."""
    return not file.startswith(("<", *_LIBRARY_ROOTS))


class Locations:
    """Source locations of the nodes of one FuncGraph."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Any) -> None:
        """Remember the graph, as long as TensorFlow does; tracebacks are read when asked for."""
        self._graph = weakref.ref(graph)

    def of(self, node: str) -> SourceLocation | None:
        """Return where the user's program made `node`."""
        graph = self._graph()
        if graph is None:
            return None
        try:
            frames = list(graph.get_operation_by_name(node).traceback)
        except (KeyError, ValueError, AttributeError, RuntimeError, TypeError):
            # TensorFlow dismantles graphs whose functions nobody can call directly any more.
            return None
        for frame in reversed(frames):
            if is_user_file(frame.filename):
                return SourceLocation(frame.filename, frame.lineno)
        return SourceLocation(frames[0].filename, frames[0].lineno) if frames else None
