# SPDX-License-Identifier: Apache-2.0
"""The allocator as machine code and as plain Python: the same calls of the system, the same counts.

A random sequence of calls runs in two worlds, each over a system that it traces and that may have
no memory.
"""

import ctypes
import random

import pytest
from tests.native.support import C_TYPES

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.native.functions import llvm_signature, replaced, symbol_of
from ingot.native.memory import raw_address
from ingot.native.module import Translation
from ingot.native.pointers import Pointer
from ingot.runtime import state
from ingot.runtime.memory import allocator, array_memory
from ingot.runtime.memory.allocator import ALLOCATOR, Allocator
from ingot.runtime.native import library_imports

ADDRESS, SIZE, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
FUNCTIONS = (
    *(allocator.allocate, allocator.free, allocator.trim, state.allocator_record),
    *(array_memory.array_calloc, array_memory.array_realloc),
)
LIMITS = {"cache_limit": 5 << 20, "memory_limit": 40 << 20}


_HUGE_PAGE = 2 << 20


class World:
    """A system: `trace` is what the allocator asked it for, with memory by the order of birth."""

    def __init__(self):
        self.trace, self.live, self.born, self.fails = [], {}, {}, False
        self.functions = {
            "mmap": (self.map, ADDRESS, ADDRESS, SIZE, INT, INT, INT, SIZE),
            "munmap": (self.unmap, INT, ADDRESS, SIZE),
            "madvise": (self.advise, INT, ADDRESS, SIZE, INT),
            "aligned_alloc": (self.small, ADDRESS, SIZE, SIZE),
            "free": (self.release, None, ADDRESS),
        }

    def _new(self, size):
        # All begin at one offset in a huge page: how many ends are unmapped depends on that.
        memory = (ctypes.c_char * (size + _HUGE_PAGE + 4096))()
        address = (ctypes.addressof(memory) + _HUGE_PAGE - 1 & -_HUGE_PAGE) + 4096
        self.live[address] = size
        self.born[address] = len(self.born), size, memory  # kept: no address comes twice
        return address

    def _find(self, address):
        """Return which mapping an address lies in."""
        return next(
            number for at, (number, size, _) in self.born.items() if at <= address < at + size
        )

    def map(self, address, size, *_):
        if self.fails:
            self.trace.append(("no pages", size))
            return -1 if isinstance(self, Plain) else (1 << 64) - 1
        self.trace.append(("map", size))
        return self._new(size)

    def unmap(self, address, size):
        # Where a huge page begins differs, so only the sum of both ends is the same.
        self.trace.append(("unmap", self._find(address), size >= 1 << 21))
        return 0

    def advise(self, address, size, advice):
        self.trace.append(("advise", self._find(address), size, advice, address % (1 << 21)))
        return 0

    def small(self, alignment, size):
        self.trace.append(("small", alignment, size))
        return 0 if self.fails else self._new(size)

    def release(self, address):
        self.trace.append(("release", self._find(address)))
        del self.live[address]


class Machine(World):
    """Machine code."""

    def __init__(self):
        super().__init__()
        self.kept = {
            name: ctypes.CFUNCTYPE(*types)(function)
            for name, (function, *types) in self.functions.items()
        }
        addresses = {name: ctypes.cast(each, ADDRESS).value for name, each in self.kept.items()}
        module = ModuleBuilder("plain_test")
        Translation(module).add(*FUNCTIONS)
        data = compile_object(module.text(), TargetSpec.host())
        self.library = link_object([data], {**library_imports(), **addresses})

    def call(self, function, *args):
        result, params = llvm_signature(function)
        types = [C_TYPES.get(each, ADDRESS) for each in (result, *params)]
        return self.library.function(symbol_of(function), *types)(*args)


class Plain(World):
    """Plain Python."""

    def call(self, function, *args):
        meanings = {
            name: lambda *args, of=function: of(
                *[each if isinstance(each, int) else raw_address(each) for each in args]
            )
            for name, (function, *_) in self.functions.items()
        }
        with replaced(**meanings):
            found = function(*args)
        return raw_address(found) if isinstance(found, Pointer) else found


def _records(world):
    address = world.call(state.allocator_record)
    return ALLOCATOR.structure.from_address(address)


@pytest.mark.parametrize("seed", range(6))
def test_both_do_the_same(seed):
    worlds, generator = (Machine(), Plain()), random.Random(seed)
    records = [_records(world) for world in worlds]
    before = bytes(records[1])
    ctypes.memset(ctypes.addressof(records[1]), 0, ALLOCATOR.size)
    for record in records:
        record.cache_limit, record.memory_limit = LIMITS.values()
    held = [[], []]
    for _ in range(120):
        for world in worlds:
            world.trace.append("call")
        _step(generator, worlds, held)
        assert worlds[0].trace == worlds[1].trace
        ours, theirs = (
            [getattr(record, name) for name in Allocator.c_layout.names if name != "free_lists"]
            for record in records
        )
        assert ours == theirs
    for world, blocks in zip(worlds, held, strict=True):
        for block in blocks:
            world.call(allocator.free, block)
        world.fails = False
        world.call(allocator.trim)
        assert _records(world).bytes_in_use == _records(world).bytes_cached == 0
    assert len(worlds[0].live) == len(worlds[1].live)
    ctypes.memmove(ctypes.addressof(records[1]), before, ALLOCATOR.size)


def _step(generator, worlds, held):
    """Do one thing in both worlds."""
    choice, size = generator.random(), int(2 ** generator.uniform(-1, 23.5))
    number = generator.randrange(len(held[0])) if held[0] else None
    for world, blocks in zip(worlds, held, strict=True):
        if choice < 0.45 or number is None:
            _keep(blocks, world.call(allocator.allocate, size))
        elif choice < 0.85:
            world.call(allocator.free, blocks.pop(number))
        elif choice < 0.9:
            _keep(blocks, world.call(array_memory.array_calloc, None, 3, size // 4))
        elif choice < 0.95:
            made = world.call(array_memory.array_realloc, None, blocks[number], size)
            if made:
                blocks[number] = made
        elif choice < 0.98:
            world.call(allocator.trim)
        else:
            world.fails = not world.fails


def _keep(blocks, address):
    if address:
        assert address % 64 == 0
        blocks.append(address)
