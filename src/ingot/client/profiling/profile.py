# SPDX-License-Identifier: Apache-2.0
"""Profiles: which kernel ran when, by the names of the program.

`Profiler` joins the runtime's recording with the executables of this process; `ingot.profile`,
`Executable.profile` and `jax.profiler.trace` (through PJRT) use it. `profile_table` prints a
profile, `chrome_trace` turns it into a trace. Invariant: an executable that is collected during a
recording is kept alive until its events have their names.

Example:
    >>> import ingot
    >>> double = ingot.compile(ingot.parse_hlo(
    ...     "HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }"))
    >>> found = double.profile([1, 2, 3, 4], runs=3)
    >>> [(row.site.name, row.site.kind, row.calls) for row in found.rows()]
    [('loop_fusion', 'kernel', 3)]
    >>> with profile() as profiler:
    ...     _ = double([1, 2, 3, 4])
    >>> len(profiler.profile.runs)
    1
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ingot.client.profiling.timings import Site, Timings
from ingot.hlo.dim import bare_sizes
from ingot.hlo.instruction import Instruction
from ingot.runtime.recording import recorder
from ingot.runtime.records import PROGRAM
from ingot.semantics.foreign_calls import target_name
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError, ResourceError
from ingot.support.forking import ForkLock
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.hlo.module import Module
    from ingot.host.kernel_info import KernelInfo


class Recorded(Protocol):
    """An executable whose events get names."""

    @property
    def source(self) -> Module:
        """The module before the passes."""
        ...

    @property
    def module(self) -> Module:
        """The module after all passes."""
        ...

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call, in the order in which they run."""
        ...


Key = tuple[int, int]
_KINDS = {"fusion": "kernel", "while": "loop"}
_lock = ForkLock()
_executables: weakref.WeakValueDictionary[Key, Recorded] = weakref.WeakValueDictionary()
_recording: list[dict[Key, Recorded]] = []
"""The executables of the recording in progress, if any."""


def remember(executable: Recorded, record: int) -> None:
    """Note an executable, so that its events find their names.

    `record` is the address of its `IngotProgram`, or of one of several.
    """
    key = (PROGRAM.read(record, "run"), PROGRAM.read(record, "constants"))
    with _lock:
        _executables[key] = executable
        for kept in _recording:
            kept[key] = executable


@contextmanager
def kept_executables() -> Generator[dict[Key, Recorded], None, None]:
    """Record every executable that is made in the `with` block, whichever frontend makes it."""
    kept: dict[Key, Recorded] = {}
    with _lock:
        _recording.append(kept)
    try:
        yield kept
    finally:
        with _lock:
            _recording[:] = [other for other in _recording if other is not kept]


@record
class Profile(Timings):
    """The runs between start and stop: `str` for a table, `save` for a trace.

    Its fields are those of `Timings`.
    """

    def to_chrome_trace(self) -> str:
        """Return the profile as a JSON trace, for Perfetto (ui.perfetto.dev) and Chrome."""
        from ingot.client.profiling.chrome_trace import chrome_trace

        return chrome_trace(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace of `to_chrome_trace` to a file.

        Raises:
            ResourceError: INGOT0411, the file cannot be written.
        """
        try:
            Path(path).write_text(self.to_chrome_trace(), encoding="utf-8")
        except OSError as error:
            raise ResourceError(
                f"{os.fspath(path)} cannot be written: {error.strerror}", code="INGOT0411"
            ) from error

    def __str__(self) -> str:
        from ingot.client.profiling.profile_table import table

        return table(self)


class Profiler:
    """One recording: `start`, run programs, `stop`; or a `with` block in which they run.

    Attributes:
        profile: the profile, after `stop`.
        sizes: the values of symbolic sizes in all of its runs; the work of kernels that depends on
            others is not known.
    """

    profile: Profile

    def __init__(self) -> None:
        """Do nothing yet."""
        self._kept: dict[Key, Recorded] = {}
        self.sizes: Mapping[str, int] = {}

    def __enter__(self) -> Self:
        """Begin."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self.stop()

    def start(self) -> None:
        """Begin.

        Raises:
            ResourceError: INGOT0412, another profile is being recorded.
        """
        recorder().start()
        with _lock:
            self._kept = dict(_executables)
            _recording.append(self._kept)

    def stop(self) -> Profile:
        """End; return the profile."""
        recording = recorder().stop()
        with _lock:
            _recording.remove(self._kept)
            kept, self._kept = self._kept, {}
        names = {
            key: site_rows(kept[key], self.sizes)
            for key in {e.program for e in recording.events} & kept.keys()
        }
        runs = tuple(
            (names[event.program][event.site], event)
            for event in recording.events
            if event.program in names
        )
        self.profile = Profile(recording, runs)
        return self.profile


def profile() -> Profiler:
    """Return a recording of all programs that run in a `with` block, of any front end.

    Its attribute `profile` holds a `Profile` afterwards: `print` it, or `save` it as a trace.

    Raises:
        ResourceError: INGOT0412, raised by `with`: another profile is being recorded.
    """
    return Profiler()


def profile_of(
    run: Callable[[], object], runs: int, sizes: Callable[[], Mapping[str, int]] | None = None
) -> Profile:
    """Call `run` `runs` times and return when each kernel ran.

    Args:
        run: runs a program.
        runs: how often.
        sizes: returns the values of its symbolic sizes; called after a run that went well.

    Raises:
        ArgumentError: INGOT0513, `runs` is not 1 or more.
        ResourceError: INGOT0412, another profile is being recorded.
    """
    require_type(runs, int, "runs")
    if runs < 1:
        raise ArgumentError(f"runs={runs}: a profile needs a run", hint="give runs=1 or more")
    profiler = Profiler()
    profiler.start()
    try:
        for _ in range(runs):
            run()
        if sizes is not None:
            profiler.sizes = sizes()
    finally:
        made = profiler.stop()
    return made


def sizes_of(source: Module, arguments: Sequence[Any]) -> dict[str, int]:
    """Return the values of a program's symbolic sizes, by the shapes of its arguments."""
    from ingot.host.sizes import parameter_leaves

    found: dict[str, int] = {}
    for (_, shape), given in zip(parameter_leaves(source), map(np.shape, arguments), strict=False):
        found.update(bare_sizes(shape.dims, given))
    return found


def site_rows(executable: Recorded, sizes: Mapping[str, int]) -> list[Site]:
    """Return the sites of a program, by number, with the work of kernels at some sizes."""
    from ingot.host.sites import sites

    kernels = [kernel.at(sizes) for kernel in executable.kernels]
    found = [_site(executable.module.name, instruction) for instruction in sites(executable.module)]
    for number, kernel in enumerate(kernels):
        work = (kernel.flops, kernel.transcendentals, kernel.bytes_read, kernel.bytes_written)
        flops, transcendentals, read, written = (s if isinstance(s, int) else 0 for s in work)
        found[number] = replace(
            found[number],
            opcodes=kernel.opcodes,
            flops=flops,
            transcendentals=transcendentals,
            bytes=read + written,
            lines=kernel.lines,
            model=kernel.model,
        )
    return found


def _site(module: str, instruction: Instruction) -> Site:
    metadata = instruction.metadata
    kind = _KINDS.get(instruction.opcode, "call")
    opcodes = (target_name(instruction),) if kind == "call" else ()
    location = "" if metadata.location is None else str(metadata.location)
    return Site(
        module,
        instruction.name,
        kind,
        opcodes,
        metadata.op_name,
        location,
        lines=(location,) if location and kind == "call" else (),
        hlo=repr(instruction),
    )
