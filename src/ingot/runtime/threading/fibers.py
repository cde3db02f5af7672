# SPDX-License-Identifier: Apache-2.0
"""Fibers: functions that wait for each other on a few threads, as native functions.

`run_fibers` runs one function for several arguments, each on a stack of its own, and returns when
all are done. A fiber that waits for another one calls `pass_turn`: its thread continues with the
next fiber for which something may have changed. That avoids waking a thread, which costs tens of
microseconds, and if there are more fibers than CPUs, none waits for a CPU. When every fiber waits
and nothing has changed, they wait in vain, which is detected at once.

Invariants: a fiber never calls into Python, which takes a stack that it does not know for an
overflow, and keeps no thread-local state across `pass_turn`, since another thread may go on with
it. One call at a time uses a group of fibers (`lock`). What fibers wait for changes before
`progress` is advanced, and is looked at after `progress` was read, so no change is missed. The page
below a stack cannot be accessed.

Source: makecontext(3), swapcontext(3) of the C library.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any

from ingot.native.functions import external, inlined, native
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i32, i64
from ingot.runtime.records import Runtime
from ingot.runtime.threading.sync import wait_step

_STACK_BYTES = 2 << 20
"""As jaxlib's threads have."""
_CONTEXT_BYTES = 8 << 10
"""More than a `ucontext_t`: 968 bytes on x86-64, 4,560 on AArch64."""
_LINK, _STACK_START, _STACK_SIZE = 1, 2, 4
"""Words of a `ucontext_t`: uc_link, uc_stack.ss_sp and uc_stack.ss_size."""
_NO_ACCESS = 0
_WAITS, _RUNS, _OVER = range(3)


class Fiber(
    Struct,
    name="IngotFiber",
    own_line=("state",),
    notes={
        "state": "0: waits, or has not begun; 1: a thread runs it; 2: over",
        "seen": "`progress` when it looked last at what it waits for",
        "context": "the ucontext_t where it continues",
        "home": "the ucontext_t of the thread that runs it",
        "stack": "address of its stack",
        "argument": "what the function gets",
        "is_over": "1: the function has returned",
    },
):
    """One of the functions."""

    state: Atomic[i32]
    seen: Atomic[i64]
    context: Array[i64]
    home: Array[i64]
    stack: i64
    argument: Pointer
    is_over: i64


class Fibers(
    Struct,
    name="IngotFibers",
    own_line=("progress",),
    notes={
        "lock": "1 while a call runs them",
        "count": "how many there are",
        "fibers": "IngotFiber[count]",
        "function": "void(ptr argument): what each runs",
        "threads": "threads that run them, the caller's included",
        "progress": "advanced after what a fiber may wait for has changed",
        "left": "fibers that are not over",
        "in_vain": "1: every fiber waits, and nothing changes",
    },
):
    """Fibers that run together."""

    lock: Atomic[i32]
    count: i64
    fibers: Structs[Fiber]
    function: Callable[[Pointer], None]
    threads: i64
    progress: Atomic[i64]
    left: Atomic[i64]
    in_vain: Atomic[i32]


FIBER, GROUP = Fiber.c_layout, Fibers.c_layout


@external("getcontext")
def getcontext(context: Array[i64]) -> i32:
    """Store what continues here."""
    ...


@external("makecontext")
def makecontext(
    context: Array[i64],
    function: Callable[[Fibers, Fiber], None],
    count: i32,
    group: Fibers,
    fiber: Fiber,
) -> None:
    """Make a context begin in a function with two arguments; it is variadic."""
    ...


@external("swapcontext")
def swapcontext(before: Array[i64], after: Array[i64]) -> i32:
    """Store what continues here, and continue in another context."""
    ...


@native
def begin(group: Fibers, fiber: Fiber) -> None:
    """Run a fiber from its first turn to its end."""
    group.function(fiber.argument)
    fiber.is_over = 1
    swapcontext(fiber.context, fiber.home)


@inlined
def advance(group: Fibers) -> None:
    """Let fibers look again at what they wait for, after it has changed."""
    group.progress.fetch_add(1, "seq_cst")


@inlined
def look(group: Fibers, index: i64) -> None:
    """Note that fiber `index`, which calls this, is about to look at what it waits for."""
    group.fibers[index].seen.store(group.progress.load("seq_cst"))


@native
def pass_turn(group: Fibers, index: i64) -> bool:
    """Let other fibers run, after fiber `index`, which calls this, has looked in vain.

    Returns whether something has changed since; if not, every fiber waits, and none ever continues.
    """
    fiber = group.fibers[index]
    swapcontext(fiber.context, fiber.home)
    return group.in_vain.load() == 0


@native
def is_in_vain(group: Fibers) -> bool:
    """Return whether fibers wait, and none runs that could change what they wait for."""
    progress = group.progress.load("seq_cst")
    is_any_left = False
    for index in range(group.count):
        fiber = group.fibers[index]
        state = fiber.state.load("seq_cst")
        if state == _WAITS:
            is_any_left = True
        if state == _RUNS or (state == _WAITS and fiber.seen.load() != progress):
            return False
    return is_any_left and group.progress.load("seq_cst") == progress


@native
def resume(group: Fibers, fiber: Fiber, home: Array[i64]) -> None:
    """Run a fiber that this thread has taken until it waits, or is over."""
    fiber.home = home
    swapcontext(home, fiber.context)
    if fiber.is_over == 0:
        fiber.state.store(_WAITS)
        return
    fiber.state.store(_OVER)
    advance(group)
    group.left.fetch_sub(1, "seq_cst")


@native
def resume_each(group: Fibers, first: i64, home: Array[i64]) -> bool:
    """Run each fiber for which something may have changed, from one on; return whether any ran."""
    has_run = False
    for offset in range(group.count):
        index = first + offset
        fiber = group.fibers[index if index < group.count else index - group.count]
        may_go_on = fiber.seen.load("monotonic") != group.progress.load()
        if may_go_on and fiber.state.compare_exchange(_WAITS, _RUNS, "acq_rel", "monotonic"):
            resume(group, fiber, home)
            has_run = True
    return has_run


@native
def take_turns(argument: Pointer | None, thread: i64) -> None:
    """Run fibers until all are over: what each thread does, beginning with its share of them."""
    assert argument is not None
    group = Fibers.at(argument)
    home = Array[i64].on_stack(_CONTEXT_BYTES // 8)
    first = thread * group.count // group.threads
    steps: i64 = 0
    while group.left.load() > 0:
        if resume_each(group, first, home):
            steps = 0
        elif is_in_vain(group):
            group.in_vain.store(1)
            advance(group)
        else:
            steps = wait_step(steps)


@native
def run_fibers(group: Fibers, arguments: Pointer, size: i64, runtime: Runtime) -> None:
    """Run the function for each argument on `group.threads` threads of a pool.

    Args:
        group: the fibers, which this call has locked; `function` and `threads` are set.
        arguments: one for each fiber; they lie `size` bytes apart.
        size: of an argument.
        runtime: has the pool.
    """
    for index in range(group.count):
        fiber = group.fibers[index]
        fiber.argument = arguments + index * size
        fiber.is_over = 0
        fiber.seen.store(-1)
        fiber.state.store(_WAITS)
        getcontext(fiber.context)
        fiber.context[_LINK] = 0
        fiber.context[_STACK_START] = fiber.stack
        fiber.context[_STACK_SIZE] = _STACK_BYTES
        makecontext(fiber.context, begin, 2, group, fiber)
    group.in_vain.store(0)
    group.left.store(group.count)
    runtime.parallel(runtime.pool, take_turns, group, group.threads)


class _Group:
    """The records, contexts and stacks of some fibers."""

    def __init__(self, count: int) -> None:
        self._records, self.address = GROUP.on_line(count * FIBER.size)
        self._contexts = ctypes.create_string_buffer(count * _CONTEXT_BYTES)
        self._stacks = [_new_stack() for _ in range(count)]
        fibers = self.address + GROUP.size
        GROUP.write(self.address, "count", count)
        GROUP.write(self.address, "fibers", fibers)
        for number, stack in enumerate(self._stacks):
            fiber = fibers + number * FIBER.size
            context = ctypes.addressof(self._contexts) + number * _CONTEXT_BYTES
            FIBER.write(fiber, "context", context)
            FIBER.write(fiber, "stack", _address(stack))


def _new_stack() -> mmap.mmap:
    stack = mmap.mmap(-1, _STACK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    protect: Any = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(_address(stack), mmap.PAGESIZE, _NO_ACCESS):
        raise MemoryError("no memory for the stack of a fiber")
    return stack


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


_groups: dict[tuple[int, ...], _Group] = {}


def fibers_of(devices: tuple[int, ...]) -> int:
    """Return the address of the fibers that programs of the same devices share, one for each.

    Raises:
        OSError, MemoryError: there is no memory for their stacks.
    """
    if devices not in _groups:
        _groups[devices] = _Group(len(devices))
    return _groups[devices].address


def _after_fork() -> None:
    """Unlock all: a forked child does not have the thread that held a lock."""
    for group in _groups.values():
        GROUP.write(group.address, "lock", 0)


os.register_at_fork(after_in_child=_after_fork)
