"""Executions on several devices: each worker gets its part, and they meet in a rendezvous.

Every part has its own copies of the program's and the runtime's records, with its replica, its
partition and the rendezvous of this execution. Invariant: the copies live until the last part is
done.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.client.pjrt.errors import INVALID_ARGUMENT, PjrtError
from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import lookup, read_words
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.records import QUEUED
from ingot.runtime.records import PROGRAM, RUNTIME


class Part:
    """One device's records of an execution."""

    def __init__(self, executable: LoadedExecutable, index: int, rendezvous: int) -> None:
        """Copy the records for device `index` of the assignment."""
        program = executable.executable.program.record_address
        self.program: Any = PROGRAM.structure.from_buffer_copy(
            ctypes.string_at(program, PROGRAM.size)
        )
        self.runtime: Any = RUNTIME.structure.from_buffer_copy(
            ctypes.string_at(self.program.runtime, RUNTIME.size)
        )
        partitions = executable.source.options.num_partitions
        self.runtime.replica, self.runtime.partition = divmod(index, partitions)
        self.runtime.rendezvous = rendezvous
        self.program.runtime = ctypes.addressof(self.runtime)


def execute_many(native: Native, args: Any) -> None:
    """Queue the parts of one execution; `args` are those of PJRT_LoadedExecutable_Execute."""
    raise PjrtError(INVALID_ARGUMENT, "not here yet")
