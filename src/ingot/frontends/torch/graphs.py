# SPDX-License-Identifier: Apache-2.0
"""The graphs that were compiled in this process, for inspection."""

from __future__ import annotations

import weakref
from collections.abc import Generator
from contextlib import contextmanager

from ingot.client.executables.executable import Executable
from ingot.support.records import record


@record(weakref_slot=True, eq=False)
class CompiledGraph:
    """A graph of AOTAutograd, compiled.

    Attributes:
        name: `torch_forward_0`; its programs are called `torch_forward_0_0` and so on.
        source: the Python function that runs it.
        executables: its programs, in the order in which they run.
        host_ops: the ops that PyTorch runs between them, and why; "" for ops that it always runs.
    """

    name: str
    source: str
    executables: tuple[Executable, ...]
    host_ops: tuple[tuple[str, str], ...]


_graphs: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()
"""Every graph whose function is alive."""


_listeners: list[list[CompiledGraph]] = []
"""The lists of all active `recorded_graphs` blocks, of all threads."""


def remember(graph: CompiledGraph) -> None:
    """Add a graph to those of `compiled_graphs`, and of `recorded_graphs`."""
    _graphs.add(graph)
    for found in _listeners:
        found.append(graph)


@contextmanager
def recorded_graphs() -> Generator[list[CompiledGraph]]:
    """Collect the graphs that are compiled in a `with` block, backward graphs included."""
    found: list[CompiledGraph] = []
    _listeners.append(found)
    try:
        yield found
    finally:
        # By identity: two threads may have equal lists.
        _listeners[:] = [other for other in _listeners if other is not found]


def compiled_graphs() -> list[CompiledGraph]:
    """Return the graphs that `torch.compile(backend="ingot")` compiled and that are alive."""
    return sorted(_graphs, key=lambda graph: int(graph.name.rpartition("_")[2]))
