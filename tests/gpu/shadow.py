# SPDX-License-Identifier: Apache-2.0
"""Races of emulated kernels: what threads did to each byte, and whether a barrier was in between.

The IR of a kernel is instrumented: before each access of shared or global memory stands a call of a
native function below. A byte has a cell of shadow memory with who wrote and read it last, and how
many barriers they had passed then. Two accesses of different threads, one of which writes, are
ordered by a barrier of the block between them, or of the warp if both are of one; threads of
different blocks are never ordered in one launch. An asynchronous copy writes when it is begun and
when it is waited for.

What it cannot show: a cell is found by the low bits of the address, and a later place takes it.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import count

import numpy as np

from ingot.llvm.builder import ModuleBuilder
from ingot.native.functions import exported, external, inlined, native
from ingot.native.module import Translation
from ingot.native.operations import memset
from ingot.native.pointers import Array, Struct, Structs, sizeof
from ingot.native.statics import static
from ingot.native.types import i8, i32, i64

CELLS, THREADS, WARP, MOST_COPIES, MOST_BLOCKS, CHUNK = 1 << 18, 1024, 32, 64, 1 << 31, 16

NOBODY, SEVERAL = 0, -1

SHARED = "ptr addrspace(3)"


class Cell(Struct, name="SimtCell"):
    """What was done to a byte in its scope: a launch, or of shared memory a block.

    Threads, warps and blocks are numbered from 1.
    """

    place: i64
    scope: i64
    writer: i64
    write_barriers: i64
    write_warp_barriers: i64
    reader: i64
    reading_warp: i64
    reading_block: i64
    read_barriers: i64
    read_warp_barriers: i64


class Progress(Struct, name="SimtProgress"):
    """How far a thread of the block at hand is."""

    barriers: i64
    warp_barriers: i64
    copies: i64  # under way


class State(Struct, name="SimtState"):
    """The launch at hand, and the first race of all."""

    cells: Structs[Cell]
    progress: Structs[Progress]
    copies: Array[i64]  # where threads copy to, MOST_COPIES of each
    launch: i64  # its number in the process
    blocks: i64  # begun so far; of the launch's numbers the first is MOST_BLOCKS * launch
    races: i64
    place: i64
    before: i64
    after: i64
    conflicts: i64  # of the store at hand
    old: Array[i64]  # bytes there before it


STATE = static(State, "simt.state")


@external("simt.read.ptx.sreg.tid.x")
def thread_number() -> i32:
    """Return the number of the thread in its block."""
    ...


@external("simt.read.ptx.sreg.ctaid.x")
def block_number() -> i32:
    """Return the number of the block."""
    ...


@inlined
def thread_of_grid() -> i64:
    """Return the number of the thread over all blocks, from 1."""
    return i64(block_number()) * THREADS + i64(thread_number()) + 1


@inlined
def warp_of(thread: i64) -> i64:
    """Return the number of a thread's warp over all blocks, from 1."""
    return ((thread - 1) // WARP) + 1


@inlined
def block_of(thread: i64) -> i64:
    """Return the number of a thread's block, from 1."""
    return ((thread - 1) // THREADS) + 1


@native
def note_conflict(place: i64, before: i64, after: i64) -> None:
    """Remember the first of the accesses that are not ordered."""
    if STATE.races + STATE.conflicts == 0:
        STATE.place = place
        STATE.before = before
        STATE.after = after
    STATE.conflicts = STATE.conflicts + 1


@native
def note_races() -> None:
    """Say that the conflicts of the access at hand are races."""
    STATE.races = STATE.races + STATE.conflicts
    STATE.conflicts = 0


@native
def cell_of(place: i64, is_shared: i64) -> Cell:
    """Return the cell of a byte, as it is in its scope."""
    cell = STATE.cells[place & (CELLS - 1)]
    scope = -STATE.launch
    if is_shared != 0:
        scope = STATE.blocks
    if cell.place != place or cell.scope != scope:
        memset(cell, 0, sizeof(Cell))
        cell.place = place
        cell.scope = scope
    return cell


@native
def check_write_before(cell: Cell, me: i64, now: Progress) -> None:
    """Note a race if the last write is not ordered before what a thread does now."""
    writer = cell.writer
    if writer == NOBODY or writer == me:  # noqa: SIM109 (native functions have no `in`)
        return
    if block_of(writer) == block_of(me):
        if cell.write_barriers != now.barriers:
            return
        if warp_of(writer) == warp_of(me) and cell.write_warp_barriers != now.warp_barriers:
            return
    note_conflict(cell.place, writer, me)


@native
def check_reads_before(cell: Cell, me: i64, now: Progress) -> None:
    """Note a race if the last reads are not ordered before what a thread writes now."""
    if cell.reader == NOBODY or cell.reader == me:
        return
    if cell.reading_block == block_of(me):
        if cell.read_barriers != now.barriers:
            return
        if cell.reading_warp == warp_of(me) and cell.read_warp_barriers != now.warp_barriers:
            return
    note_conflict(cell.place, cell.reader, me)


@native
def add_reader(cell: Cell, me: i64, now: Progress) -> None:
    """Remember that a thread reads a byte."""
    is_first = cell.reader == NOBODY or cell.reader == me
    in_block = cell.reading_block == block_of(me)
    # Who read before the last barrier of the block is ordered before whoever writes later.
    if is_first or (in_block and cell.read_barriers != now.barriers):
        cell.reader = me
        cell.reading_warp = warp_of(me)
        cell.reading_block = block_of(me)
    else:
        cell.reader = SEVERAL
        if cell.reading_warp != warp_of(me):
            cell.reading_warp = SEVERAL
        if not in_block:
            cell.reading_block = SEVERAL
    cell.read_barriers = now.barriers
    cell.read_warp_barriers = now.warp_barriers


@exported("shadow_read")
def read(address: i64, size: i64, is_shared: i64) -> None:
    """Note that this thread reads bytes."""
    me = thread_of_grid()
    now = STATE.progress[i64(thread_number())]
    for at in range(size):
        cell = cell_of(address + at, is_shared)
        check_write_before(cell, me, now)
        add_reader(cell, me, now)
    note_races()


@native
def begin_write(address: i64, size: i64, is_shared: i64) -> None:
    """Note that this thread writes bytes."""
    me = thread_of_grid()
    now = STATE.progress[i64(thread_number())]
    for at in range(size):
        cell = cell_of(address + at, is_shared)
        check_write_before(cell, me, now)
        check_reads_before(cell, me, now)
        cell.writer = me
        cell.write_barriers = now.barriers
        cell.write_warp_barriers = now.warp_barriers


@exported("shadow_write")
def write(address: i64, size: i64, is_shared: i64, memory: Array[i8]) -> None:
    """Note that this thread is about to write bytes; keep those that are there."""
    begin_write(address, size, is_shared)
    old = Array[i8].at(STATE.old)
    for at in range(size):
        old[at] = memory[at]


@exported("shadow_written")
def written(size: i64, memory: Array[i8]) -> None:
    """Note that this thread has written bytes: no race if they are what others wrote."""
    old = Array[i8].at(STATE.old)
    is_new = False
    for at in range(size):
        is_new = is_new or old[at] != memory[at]
    if is_new:
        note_races()
    STATE.conflicts = 0


@exported("shadow_copy")
def copy(address: i64) -> None:
    """Note that this thread begins to copy a chunk to an address."""
    now = STATE.progress[i64(thread_number())]
    begin_write(address, CHUNK, 1)
    note_races()
    if now.copies < MOST_COPIES:
        STATE.copies[i64(thread_number()) * MOST_COPIES + now.copies] = address
        now.copies = now.copies + 1


@exported("shadow_wait")
def wait() -> None:
    """Note that this thread's copies have come to their end."""
    now = STATE.progress[i64(thread_number())]
    for number in range(now.copies):
        begin_write(STATE.copies[i64(thread_number()) * MOST_COPIES + number], CHUNK, 1)
    note_races()
    now.copies = 0


@exported("shadow_barrier")
def barrier() -> None:
    """Note that this thread has passed a barrier of the block."""
    now = STATE.progress[i64(thread_number())]
    now.barriers = now.barriers + 1


@exported("shadow_warp_barrier")
def warp_barrier() -> None:
    """Note that this thread has passed a barrier of its warp."""
    now = STATE.progress[i64(thread_number())]
    now.warp_barriers = now.warp_barriers + 1


@exported("shadow_begin")
def begin() -> None:
    """Begin a block."""
    STATE.blocks = STATE.blocks + 1
    memset(STATE.progress, 0, THREADS * sizeof(Progress))


@exported("shadow_launch")
def launch(
    cells: Structs[Cell],
    progress: Structs[Progress],
    copies: Array[i64],
    old: Array[i64],
    number: i64,
) -> None:
    """Begin a launch of a number, with memory for its cells and threads."""
    STATE.cells = cells
    STATE.progress = progress
    STATE.copies = copies
    STATE.old = old
    STATE.launch = number
    STATE.blocks = number * MOST_BLOCKS
    STATE.races = 0
    STATE.conflicts = 0


@exported("shadow_state")
def state() -> State:
    """Return what was found."""
    return STATE


FUNCTIONS = (read, write, written, copy, wait, barrier, warp_barrier, begin, launch, state)


@cache
def functions_text() -> str:
    """Return these functions as LLVM IR."""
    module = ModuleBuilder("shadow")
    Translation(module).add(*FUNCTIONS)
    return module.text()


@cache
def room() -> list[np.ndarray]:
    """Return memory for cells, threads, copies and the bytes of a store."""
    sizes = (CELLS * sizeof(Cell), THREADS * sizeof(Progress), THREADS * MOST_COPIES * 8, 64)
    return [np.zeros(size, np.uint8) for size in sizes]


numbers = count(1)
"""The numbers of launches in this process."""


_ITEM_BYTES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8,
               "double": 8, "i128": 16}  # fmt: skip
_TYPE = r"(?:<(?P<lanes>\d+) x (?P<item>\w+)>|(?P<scalar>\w+))"
_LOAD = re.compile(rf"^  %\S+ = load {_TYPE}, (?P<pointer>ptr addrspace\([13]\)) (?P<place>\S+?),")
_STORE = re.compile(
    rf"^  store {_TYPE} .*, (?P<pointer>ptr addrspace\([13]\)) (?P<place>[^\s,]+), align"
)
_SHARED = r"(?P<pointer>ptr addrspace\(3\)) (?P<place>[^\s,)]+)"
_MATRIX = re.compile(rf"^  .*@llvm\.nvvm\.ldmatrix[^(]*\({_SHARED}\)")
_COPY = re.compile(rf"^  call void @llvm\.nvvm\.cp\.async\.cg[^(]*\({_SHARED},")
_AFTER = {
    "@llvm.nvvm.barrier.cta.sync": "shadow_barrier",
    "@llvm.nvvm.bar.warp.sync": "shadow_warp_barrier",
    "@llvm.nvvm.cp.async.wait.all": "shadow_wait",
}
_DECLARED = """
declare void @shadow_read(i64, i64, i64)
declare void @shadow_write(i64, i64, i64, ptr)
declare void @shadow_written(i64, ptr)
declare void @shadow_copy(i64)
declare void @shadow_wait()
declare void @shadow_barrier()
declare void @shadow_warp_barrier()
"""


def instrumented(llvm_ir: str) -> str:
    """Return kernels' IR with calls of the functions above."""
    lines: list[str] = []
    for number, line in enumerate(llvm_ir.splitlines()):
        before, after = _around(line, f"%shadow{number}")
        lines += [*before, line, *after]
    return "\n".join([*lines, _DECLARED])


def _around(line: str, address: str) -> tuple[list[str], list[str]]:
    """Return what stands before and behind a line; `address` is a name that is free."""
    for pattern in (_LOAD, _STORE, _MATRIX, _COPY):
        found = pattern.match(line)
        if found is not None:
            return _access(pattern, found, address)
    if line.startswith("  call void "):
        return [], [f"  call void @{name}()" for mark, name in _AFTER.items() if mark in line]
    return [], []


def _access(
    pattern: re.Pattern[str], found: re.Match[str], address: str
) -> tuple[list[str], list[str]]:
    cast = f"  {address} = ptrtoint {found['pointer']} {found['place']} to i64"
    if pattern is _COPY:
        return [cast, f"  call void @shadow_copy(i64 {address})"], []
    size = CHUNK
    if pattern is not _MATRIX:
        size = int(found["lanes"] or 1) * _ITEM_BYTES[found["item"] or found["scalar"]]
    given = f"i64 {address}, i64 {size}, i64 {int(found['pointer'] == SHARED)}"
    if pattern is not _STORE:
        return [cast, f"  call void @shadow_read({given})"], []
    memory = f"{address}p"
    before = [
        cast,
        f"  {memory} = inttoptr i64 {address} to ptr",
        f"  call void @shadow_write({given}, ptr {memory})",
    ]
    return before, [f"  call void @shadow_written(i64 {size}, ptr {memory})"]
