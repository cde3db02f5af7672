# SPDX-License-Identifier: Apache-2.0
"""Compiled programs on the disk: a later process links them, and imports no part of the compiler.

A program's name is a digest of all that decides its code: the program as text, the target, every
flag, and Ingot's own sources. What is stored is its artifact and the facts that callers ask for;
its stages are made again when somebody looks at them. The entries lie in the cache of objects
(`llvm.cache`), which checks who has written them.

Invariant: stored programs have no state and call nothing outside, as those that are shared in the
process (`client.shared`); an entry that cannot be read is none.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

from ingot.artifact.artifact import Artifact
from ingot.artifact.facts import Facts
from ingot.client.executables.executable import Executable, Origin
from ingot.client.executables.linking import load
from ingot.client.shared import shows_compilations
from ingot.hlo.module import Module
from ingot.llvm.binding import llvmlite_version
from ingot.llvm.cache import default_cache
from ingot.llvm.machine_model import MachineModel
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.records import record
from ingot.support.sources import sources_stamp
from ingot.support.timing import PhaseTimer
from ingot.support.xla_flags import XlaFlags

if TYPE_CHECKING:
    from ingot.client.reports.inspection import CpuInspection

SOURCES = (
    *("support", "native", "llvm", "hlo", "semantics", "artifact", "formats", "evaluator"),
    *("analysis", "passes", "kernel", "emit", "host", "cpu", "runtime", "client"),
)
"""The packages that decide what a program's code is, and what an entry holds."""

MOST_BYTES = 2 << 20
"""Larger programs are mostly constants: they are neither stored nor looked for."""

MOST_CONSTANT_BYTES = 256 << 10
"""Of a module's constants: they are a part of the text that its name follows from."""


@record
class Stored:
    """What is stored of a program.

    Attributes:
        artifact: the program.
        facts: what callers ask for.
        boundary: further facts of the host that compiled it.
    """

    artifact: Artifact
    facts: Facts
    boundary: object = None

    def executable(self, origin: Origin) -> Executable:
        """Return the program, linked into this process."""
        timer = PhaseTimer()
        with timer.phase("compile"), timer.phase("link"):
            program = load(self.artifact)
        return Executable(self.artifact, program, origin, timer, self.facts)


def is_used() -> bool:
    """Whether programs are stored at all."""
    return flags.PROGRAM_CACHE.value() and default_cache().directory is not None


def entry_name(kind: str, *parts: str) -> str:
    """Return the name of an entry that follows from texts and Ingot's sources; empty for none."""
    if not is_used():
        return ""
    stamp = sources_stamp(SOURCES)
    return default_cache().key(kind, stamp, *parts) if stamp else ""


def name_of(program: Module | bytes, target: TargetSpec, xla_flags: XlaFlags) -> str:
    """Return the name of a program under the settings in force; empty if it is not stored.

    Args:
        program: a module, or the bytes that identify it.
        target: the CPU it is compiled for.
        xla_flags: XLA's flags.
    """
    if not is_used() or target.lacking or shows_compilations(xla_flags):
        return ""
    if isinstance(program, bytes):
        if len(program) > MOST_BYTES:
            return ""
        text = program.hex()
    else:
        from ingot.formats.hlo_text.printer import print_module

        if program.constant_bytes > MOST_CONSTANT_BYTES:
            return ""
        text = print_module(program)
    machine = (llvmlite_version(), target, MachineModel.of(target))
    return entry_name("program", repr((machine, xla_flags, flags.state())), text)


def read(name: str) -> bytes | None:
    """Return the entry of a name; None if there is none."""
    return default_cache().get(name) if name else None


def write(name: str, data: bytes) -> None:
    """Write an entry, if it has a name."""
    if name:
        default_cache().put(name, data)


def find(name: str) -> Stored | None:
    """Return the stored program of a name; None if there is none."""
    data = read(name)
    if data is None:
        return None
    try:
        found: object = pickle.loads(data)
    except Exception:  # What pickle raises for bytes that are no pickle is not listed anywhere.
        return None
    return found if isinstance(found, Stored) else None


def keep(name: str, executable: object, boundary: object = None) -> None:
    """Store a program, if it has a name, no state, and calls nothing outside."""
    if not name or not isinstance(executable, Executable):
        return
    artifact = executable.artifact
    size = artifact.code_bytes + len(artifact.constants)
    size += sum(table.nbytes for table in artifact.tables.values())
    if artifact.calls or size > MOST_BYTES:
        return
    entry = Stored(artifact, executable.facts, boundary)
    write(name, pickle.dumps(entry, pickle.HIGHEST_PROTOCOL))


def stages(
    source: Callable[[], Module], target: TargetSpec, xla_flags: XlaFlags
) -> Callable[[], CpuInspection]:
    """Return what compiles a stored program again, with the settings of now.

    Args:
        source: returns the module before the passes.
        target: the CPU it was compiled for.
        xla_flags: XLA's flags.
    """
    settings = flags.values()

    def made() -> CpuInspection:
        from ingot.client.compilation import stages_again

        with flags.override_values(settings):
            return stages_again(source(), target, xla_flags)

    return made
