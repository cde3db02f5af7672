# SPDX-License-Identifier: Apache-2.0
"""Executions on several devices: each worker gets its part, and the parts meet in a rendezvous.

Other processes run the parts of their devices. Every part here has its own copies of the program's
and the runtime's records, with its replica, its partition and the rendezvous of this execution;
later executions of the program reuse them. The first execution of a program that meets here alone
makes the records with which later ones can run in the call (`native_code.turns`).

Invariant: the copies are in use until the last part is done; if a part cannot be queued, the others
give up, and the results of those that were queued are freed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ingot.client.pjrt.executables import LoadedExecutable
from ingot.client.pjrt.handles import read_words
from ingot.client.pjrt.native import Native
from ingot.client.pjrt.records import EVENT, IN_TURNS, MULTI_DEVICE, ONLY_PART, PART
from ingot.runtime.foreign.collectives import Rendezvous, new_rendezvous
from ingot.runtime.foreign.collectives import rendezvous as meeting
from ingot.runtime.records import PROGRAM, RUNTIME
from ingot.semantics.device_groups import Grid


class _Part:
    """One device's records of an execution."""

    def __init__(self, executable: LoadedExecutable, index: int, rendezvous: Rendezvous) -> None:
        """Make the records for device `index` of the assignment."""
        self.device = executable.devices[index]
        shared = executable.program_address(self.device)
        self.settings = PROGRAM.read(shared, "runtime")
        """The address of the process's own runtime record."""
        size = ctypes.sizeof(PROGRAM.structure)
        self._program: Any = PROGRAM.structure.from_buffer_copy(ctypes.string_at(shared, size))
        self._runtime: Any = RUNTIME.structure()
        self._program.runtime = ctypes.addressof(self._runtime)
        self.program_address = ctypes.addressof(self._program)
        replica, partition = divmod(index, executable.source.options.num_partitions)
        self.row: Any = PART.structure(
            program=self.program_address,
            settings=self.settings,
            replica=replica,
            partition=partition,
            rendezvous=rendezvous.address,
            pool=self.device.pool.address,
        )


class _Parts:
    """The records of an execution for every device of this process, and their rendezvous."""

    def __init__(self, executable: LoadedExecutable) -> None:
        """Make them; the devices are fibers if their parts can take turns."""
        options, network = executable.source.options, executable.network
        self.rendezvous = new_rendezvous(
            Grid(options.num_replicas, options.num_partitions),
            network=network,
            program=executable.digest if network.is_remote else 0,
            couriers=[executable.devices[number].courier for number in network.here]
            if network.is_remote
            else (),
        )
        self.parts = [_Part(executable, number, self.rendezvous) for number in network.here]
        self.rows = (PART.structure * len(self.parts))(*[part.row for part in self.parts])
        if executable.structure.mode == IN_TURNS:
            devices = tuple(part.device.number for part in self.parts)
            self.rendezvous.use_fibers(devices, self.parts[0].settings)


def give_up(program: int) -> None:
    """Make the devices that wait for a failed part fail; `program` is that part's record."""
    runtime = PROGRAM.read(program, "runtime")
    rendezvous = RUNTIME.read(runtime, "rendezvous")
    if rendezvous:
        meeting.give_up(rendezvous)
        meeting.tell_reason(runtime)


class Execution:
    """One execution on several devices."""

    def __init__(self, native: Native, executable: LoadedExecutable) -> None:
        """Make the records of every device, and their rendezvous."""
        self._native = native
        self._executable = executable
        self._parts = _Parts(executable)
        self._events = (ctypes.c_void_p * len(self._parts.parts))()
        self._greets = False

    def greet(self) -> None:
        """Let this execution compare its program with the other processes', if it is the first.

        A program without collectives is not compared: a process may run it alone, to print a mean.
        """
        executable, known = self._executable, self._executable.client.known_programs
        if executable.exchanges and executable.digest not in known:
            known.add(executable.digest)
            self._parts.rendezvous.greet(is_wanted=True)
            self._greets = True

    def queue(self, args: Any) -> int:
        """Queue all parts; return null or an error. `args`: PJRT_LoadedExecutable_Execute's."""
        count = len(self._parts.parts)
        arguments = read_words(args.argument_lists, count)
        results = read_words(args.output_lists, count)
        is_only = count == 1 and self._parts.parts[0].device.gpu is None
        for index, part in enumerate(self._parts.parts):
            self._native.call("enter", ctypes.addressof(self._parts.rows[index]), count)
            error = self._native.call(
                "launch",
                *(self._executable.address, part.program_address),
                *(arguments[index], results[index], args.options, part.device.address),
                ONLY_PART if is_only else MULTI_DEVICE,
                ctypes.addressof(self._events) + 8 * index,
            )
            if error:
                self._parts.rendezvous.fail()
                for given in results[:index]:
                    self._drop(given)
                return error
        if args.device_complete_events:
            for event in self._events:
                self._native.call("retain", event)
            ctypes.memmove(args.device_complete_events, self._events, 8 * count)
        return 0

    def _drop(self, results: int) -> None:
        """Destroy the result buffers of a part, which the host does not get."""
        count = len(self._executable.executable.artifact.info.outputs)
        buffers = (ctypes.c_uint64 * count).from_address(results)
        for number, buffer in enumerate(buffers):
            self._native.call("buffer_destroy", buffer)
            buffers[number] = 0

    def is_over(self) -> bool:
        """Whether all parts are done; then their events are freed, the records kept for reuse."""
        events = [event for event in self._events if event]
        if not all(EVENT.read(event, "done") for event in events):
            return False
        for event in events:
            self._native.call("event_release", event)
        self._events[:] = [None] * len(self._events)
        if self._greets:
            self._greets = False
            self._parts.rendezvous.greet(is_wanted=False)
        if not self._parts.rendezvous.has_failed:
            self._executable.idle_executions.append(self)
        return True


class MultiDeviceExecutions:
    """The executions on several devices that are not done."""

    def __init__(self, native: Native) -> None:
        """Start with none."""
        self._native = native
        self._running: list[Execution] = []

    def execute(self, executable: LoadedExecutable, args: Any) -> int:
        """Start an execution; return null or an error."""
        if executable.structure.mode == IN_TURNS and not executable.structure.parts:
            turns = executable.turns = _Parts(executable)
            executable.set(parts=ctypes.addressof(turns.rows))
        self._running = [execution for execution in self._running if not execution.is_over()]
        idle = executable.idle_executions
        execution = idle.pop() if idle else Execution(self._native, executable)
        execution.greet()
        self._running.append(execution)
        return execution.queue(args)
