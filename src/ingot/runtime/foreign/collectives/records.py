# SPDX-License-Identifier: Apache-2.0
"""The records of collectives: the meeting of devices, the tables of a call, messages to processes.

Python fills them (`rendezvous`, `targets`, `links`); native functions (`exchange`, `couriers`,
`messages`, `sockets`, `mpi`) work on them. Invariant: a device of an execution is known by its
number there (replica times partitions, plus partition), whatever its number on the client.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i32, i64
from ingot.runtime.records import Buffers, Meeting, Program, Runtime
from ingot.runtime.threading.fibers import Fibers


class Box(
    Struct,
    name="IngotBox",
    own_line=("published",),
    notes={
        "published": "how often the giver has given",
        "taken": "how often the taker has taken",
        "reading": "1 while the taker reads the data",
        "data": "the data that is given now",
        "key": "the call that gives it",
    },
):
    """The mailbox of an ordered pair of devices of this process."""

    published: Atomic[i32]
    taken: Atomic[i32]
    reading: Atomic[i32]
    data: Pointer
    key: i64


RING_BYTES = 1 << 20
"""Bytes of a ring, a power of two: a message of the largest size that goes through it, and almost a
second one. Twice as many leave the near caches, and all sizes take four times as long (AMD EPYC,
2026-11-28)."""


class Ring(
    Struct,
    name="IngotRing",
    own_line=("written", "read", "sleeps"),
    notes={
        "written": "bytes that the sender has written; their ring follows",
        "read": "bytes that the receiver has read",
        "sleeps": "1: the receiver sleeps at its socket, or is about to",
        "is_closed": "1: both give up",
    },
):
    """Shared memory for the messages of one direction of a link."""

    written: Atomic[i64]
    read: Atomic[i64]
    sleeps: Atomic[i32]
    is_closed: Atomic[i32]


class Link(
    Struct,
    name="IngotLink",
    notes={
        "outgoing": "the transport's handle for sending: a socket, or a name of the pair",
        "incoming": "its handle for receiving",
        "reader": "this process's number in the other, if that can read its memory; else 0",
        "sent": "the ring for sending; null: the socket takes all",
        "got": "the ring for receiving",
    },
):
    """The way from a device of this process to one of another, and back."""

    outgoing: i64
    incoming: i64
    reader: i64
    sent: Ring | None
    got: Ring | None


class Message(Struct, name="IngotMessage"):
    """Bytes on their way to or from a device of another process."""

    link: Link
    device: i64  # of this process
    process: i64  # of the other device
    is_sent: i64
    data: Pointer
    bytes: i64
    moved: i64  # bytes of header and data that were moved
    header: Array[i64]  # HEADER_WORDS: the sender's
    expected: Array[i64]  # the first words of the header that this device would send
    pending: i64  # bytes that the transport is moving
    request: Atomic[i64]  # the transport's handle for them


COMPARED_WORDS = 3
"""Program, call, bytes: devices that differ in one of these must not take each other's data."""
SENDER, ADDRESS = 3, 4
"""Words of a header: the process to read the data from, 0 if it follows; and its address."""
SMALLEST_READ = 1 << 19
"""Bytes from which data is read in the sender's memory: two copies of less are faster. Through a
ring, all-to-all of 256 KB took 0.45 of the time, of 512 KB 0.55 (AMD EPYC, 2026-11-28)."""
HEADER_WORDS = 5
HEADER_BYTES = 8 * HEADER_WORDS


class Transport(
    Struct,
    name="IngotTransport",
    notes={
        "swap": "i32(ptr rendezvous, ptr messages, i64 first, i64 count, i64 spins): move until "
        "those from `first` on are complete, or give up",
        "cut": "void(ptr rendezvous): let devices of other processes give up",
        "state": "the transport's own",
    },
):
    """How data gets to devices of other processes."""

    swap: Callable[[Rendezvous, Structs[Message], i64, i64, i64], i32]
    cut: Callable[[Rendezvous], None]
    state: Pointer | None


class Courier(
    Struct,
    name="IngotCourier",
    own_line=("begun", "ended"),
    notes={
        "begun": "how many exchanges were handed over",
        "ended": "how many of them are over",
        "lock": "held while the list changes",
        "is_started": "1: its thread exists",
        "first": "the next exchange: its IngotVisit",
        "last": "the one that was handed over last",
    },
):
    """The thread of a device that exchanges data while the device computes, and its list."""

    begun: Atomic[i32]
    ended: Atomic[i32]
    lock: Atomic[i32]
    is_started: i32
    first: Pointer | None
    last: Pointer | None


class Turn(Struct, name="IngotTurn"):
    """A device's part of an execution, which a fiber runs."""

    program: Program
    inputs: Buffers
    outputs: Buffers
    sizes: Array[i64]
    rendezvous: Rendezvous
    device: i64
    status: i32


class Rendezvous(
    Meeting,
    name="IngotRendezvous",
    own_line=("failed",),
    notes={
        "devices": "replicas times partitions",
        "patience": "slices of waiting after which a device gives up",
        "program": "a digest of the program, on which all processes must agree",
        "process": "the number of this process",
        "num_partners": "devices of other processes to greet at most; 0 but for a program's first "
        "execution",
        "partners": "int64_t[local_devices * num_partners]: whom each device greets; -1 fills",
        "local_devices": "devices of this process",
        "slots": "int64_t[devices]: its number among those of this process, or -1",
        "processes": "int64_t[devices]: the process of each",
        "links": "IngotLink[local_devices * devices]: to devices of other processes",
        "boxes": "IngotBox[local_devices * local_devices], giver first",
        "couriers": "IngotCourier*[local_devices]; null: that device's thread does it all",
        "transport": "null: all devices are of this process",
        "failed": "1: every waiting device gives up",
        "blamed": "the first status that has the number of a process, 0 if there is none",
        "stacks": "what the devices run on as fibers; null: each has a thread",
        "fibers": "the same while they run, else null",
        "settings": "the process's, whose pool runs fibers",
        "turns": "IngotTurn[local_devices]: what each fiber runs",
        "arrived": "devices whose turn is filled in; they run once all have arrived",
        "rounds": "how often fibers have run",
        "culprit": "of fibers: 1 + the device that failed first, 0 if none has",
        "reason": "the status of its collective, 0 if something else failed",
    },
):
    """Where the devices of one execution meet."""

    devices: i64
    partitions: i64
    patience: i64
    program: i64
    process: i64
    num_partners: i64
    partners: Array[i64]
    local_devices: i64
    slots: Array[i64]
    processes: Array[i64]
    links: Structs[Link]
    boxes: Structs[Box]
    couriers: Array[Courier | None]
    transport: Transport | None
    failed: Atomic[i32]
    blamed: Atomic[i64]
    stacks: Fibers | None
    fibers: Fibers | None
    settings: Runtime
    turns: Structs[Turn]
    arrived: Atomic[i32]
    rounds: Atomic[i32]
    culprit: Atomic[i64]
    reason: i64


class Site(
    Struct,
    name="IngotExchange",
    notes={
        "key": "which call of the program this is",
        "devices": "devices that the tables are for",
        "rank": "dimensions of the operand",
        "along": "the dimension that is divided or grows",
        "is_split": "1: each device takes its part of the operand",
        "is_reduced": "1: the parts that it takes are folded, in their order",
        "is_shared": "1: then all devices get all folded parts; small operands are not divided",
        "combine": "void(ptr target, ptr a, ptr b, i64 bytes): folds two parts",
        "targets": "int64_t[2 * devices]: where each device's begin and end in `given`",
        "given": "int64_t[]: devices to give to; the giver itself may be among them",
        "sources": "int64_t[2 * devices]: where each device's begin and end in `taken`",
        "taken": "int64_t[]: devices to take from, in the order of the result",
        "parts": "int64_t[devices]: the part of the others' operands that each device takes",
    },
):
    """A call of the program: the tables of all devices."""

    key: i64
    devices: i64
    rank: i64
    along: i64
    element_bytes: i64
    is_split: i64
    is_reduced: i64
    is_shared: i64
    combine: Callable[[Pointer, Pointer, Pointer, i64], None]
    targets: Array[i64]
    given: Array[i64]
    sources: Array[i64]
    taken: Array[i64]
    parts: Array[i64]


PART_ALIGNMENT = 64
"""Parts of an all-reduce begin at multiples of these bytes; the last one is the rest."""
SLICE_NANOSECONDS = 20_000_000
"""A waiting device checks this often whether others failed, and whether it has waited too long."""

DONE, OTHER_FAILED, TIMEOUT, MISMATCH, ALONE, OTHER_GRID, NO_MEMORY, GONE, NETWORK = range(9)
OTHER_PROGRAM, FAILED = 9, 10
STATUS = {
    OTHER_FAILED: "another device failed",
    TIMEOUT: "waited for another device in vain: every device of a group must run the same "
    "collectives in the same order (INGOT_COLLECTIVE_TIMEOUT and, between processes, "
    "INGOT_PROCESS_TIMEOUT are how long to wait)",
    MISMATCH: "another device of the group is at another collective",
    ALONE: "the program is for several devices: run it with Executable.execute_replicated",
    OTHER_GRID: "the program was compiled for another number of devices: its module's header says "
    "replica_count and num_partitions",
    NO_MEMORY: "out of memory",
    GONE: "the connection to it is closed: it ended. What processes computed together since then "
    "is lost: start them again",
    NETWORK: "the network failed",
    OTHER_PROGRAM: "it runs another program: the programs of the processes differ. All must run "
    "the same programs in the same order",
    FAILED: "an execution failed in it. What processes computed together since then is lost: start "
    "them again",
}
PROCESS_SHIFT = 8
"""In a status of another process, the bits from this one on are that process's number plus one."""


def explain(status: int) -> str:
    """Return the text of a status that is not `DONE`."""
    process = status >> PROCESS_SHIFT
    text = STATUS.get(status & (1 << PROCESS_SHIFT) - 1, f"status {status}")
    return f"process {process - 1}: {text}" if process else text
