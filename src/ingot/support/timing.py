# SPDX-License-Identifier: Apache-2.0
"""Compile time by nested phases, with a live line on a terminal if it takes long.

A `PhaseTimer` belongs to one compilation and is passed in its context. Each `phase` becomes a node
of a tree; phases of one name under one parent are added up. On a terminal, a line with the current
phase appears when the outermost phase has run for a second, and disappears when it ends; otherwise
nothing is printed. `rich` draws the line and is imported only for it; if it is not installed (the
extra `cli`), there is no line.

Example:
    >>> timer = PhaseTimer()
    >>> with timer.phase("compile"), timer.phase("fusion"):
    ...     pass
    >>> [child.name for child in timer.root.children["compile"].children.values()]
    ['fusion']
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from ingot.support import flags
from ingot.support.records import mutable
from ingot.support.text import format_seconds

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE_SECONDS = 1.0


def _no_children() -> dict[str, Phase]:
    return {}


@mutable
class Phase:
    """A named phase: the number of its runs, their seconds, and the phases within it."""

    name: str
    seconds: float = 0.0
    count: int = 0
    children: dict[str, Phase] = field(default_factory=_no_children)

    def child(self, name: str) -> Phase:
        """Return the phase called `name` within this one, made on first use."""
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Phase(name)
        return found

    def lines(self, indent: int = 0) -> Iterator[str]:
        """Yield the report: this phase and those within it, in the order in which they began."""
        times = f" x{self.count}" if self.count > 1 else ""
        yield f"{'  ' * indent}{self.name}{times}: {format_seconds(self.seconds)}"
        for child in self.children.values():
            yield from child.lines(indent + 1)


class _ProgressLine:
    """The live line: waits for `PATIENCE_SECONDS` in a thread of its own, then shows `describe`."""

    def __init__(self, timer: PhaseTimer, console: Console) -> None:
        from rich.live import Live
        from rich.text import Text

        self._timer = timer
        self._live = Live(
            get_renderable=lambda: Text(timer.describe(), style="dim"),
            console=console,
            transient=True,
            refresh_per_second=5,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._show, name="ingot-progress", daemon=True)
        self._thread.start()

    def _show(self) -> None:
        if not self._finished.wait(PATIENCE_SECONDS):
            with self._live:
                self._finished.wait()

    def stop(self) -> None:
        """Remove the line; return when it is gone."""
        self._finished.set()
        self._thread.join()


class _Block:
    """The `with` block of a phase."""

    __slots__ = ("_name", "_progress", "_stack", "_start")

    def __init__(self, stack: list[Phase], name: str, progress: _ProgressLine | None) -> None:
        self._stack = stack
        self._name = name
        self._progress = progress
        self._start = 0.0

    def __enter__(self) -> Phase:
        phase = self._stack[-1].child(self._name)
        self._stack.append(phase)
        self._start = time.perf_counter()
        return phase

    def __exit__(self, *_: object) -> None:
        phase = self._stack.pop()
        phase.seconds += time.perf_counter() - self._start
        phase.count += 1
        if self._progress is not None:
            self._progress.stop()


class PhaseTimer:
    """The phases of one compilation; used by one thread."""

    def __init__(self, console: Console | None = None) -> None:
        """Measure; show progress on `console`, by default standard error if it is a terminal."""
        self.root = Phase("total")
        self._stack = [self.root]
        self._console = console
        self._began = 0.0

    def phase(self, name: str) -> _Block:
        """Measure the `with` block as phase `name` inside the phases that are open now."""
        progress = self._start_progress() if len(self._stack) == 1 else None
        return _Block(self._stack, name, progress)

    def describe(self) -> str:
        """Return the current phase, for the live line."""
        path = " > ".join(phase.name for phase in self._stack[1:])
        return f"ingot: {path} ({time.perf_counter() - self._began:.0f} s)"

    def report(self) -> str:
        """Return the tree of all phases with their times."""
        return "\n".join(line for phase in self.root.children.values() for line in phase.lines())

    def _start_progress(self) -> _ProgressLine | None:
        self._began = time.perf_counter()
        if flags.PROGRESS.value() == "off":
            return None
        if self._console is None:
            if not sys.stderr.isatty():
                return None
            self._console = _terminal()
            if self._console is None:
                return None
        return _ProgressLine(self, self._console) if self._console.is_terminal else None


def _terminal() -> Console | None:
    """Return standard error as `rich` writes to it; None where `rich` is not installed."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    return Console(stderr=True)
