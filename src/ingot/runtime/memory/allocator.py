# SPDX-License-Identifier: Apache-2.0
"""The caching buffer allocator as native functions: `ingot_allocate`, `ingot_free`, `ingot_trim`.

Outputs and arenas of programs come from here. A freshly mapped page costs a fault and a clear
(0.25 us per 4 KiB: more than most kernels take to fill it), so blocks are kept for reuse up to
`cache_limit` bytes. Blocks are 64-byte aligned and of fixed size classes, four per power of two;
each class has a free list, all under one spin lock that is never held across a system call.
Small blocks come from aligned_alloc, larger ones from mmap, and the mappings of the largest lie on
2 MiB borders with MADV_HUGEPAGE. Out of memory is a null pointer, returned after the cache was
given back: if the system refuses memory, or if it would hand out more than the machine has
(`memory_limit`) and kill the process later, when the pages are touched.

Invariant: a header of 64 bytes precedes each block and says its class, so `ingot_free` needs no
size; the order of stores in push and pop leaves every list whole at any instant, so a fork child
may simply reset the lock.

Example:
    >>> [size_class(size) for size in (1, 256, 257, 513, 1000)]
    [0, 3, 4, 8, 11]
    >>> [capacity_of(number) for number in (0, 3, 4, 8, 11)]
    [64, 256, 320, 640, 1024]
"""

from __future__ import annotations

from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.llvm.machine_model import LINE_BYTES
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import address_of, bit_length, unlikely
from ingot.native.pointers import Array, Atomic, Pointer, Struct
from ingot.native.statics import static
from ingot.native.types import i32, i64
from ingot.runtime.c_library import aligned_alloc, c_free, madvise, mmap, munmap
from ingot.runtime.threading.sync import lock, unlock

NUM_SIZE_CLASSES = 168
"""Size classes: 4 up to 256 bytes, then 4 per power of two up to 2**48 bytes."""

BLOCK_HEADER_BYTES = 64
"""A block's header precedes its data by this much, so that both are 64-byte aligned."""

_PAGE = 4096
_HUGE_PAGE = 2 << 20
MAP_FROM_BYTES = 256 << 10
"""Blocks of this capacity and more are mapped and unmapped, not malloc'ed."""
HUGE_FROM_BYTES = 4 << 20
"""Blocks from this size on lie on huge-page borders."""
_COLOURS = 64
_COLOUR_STEP = 5  # neighbours in time lie some lines apart, and all colours come up
_SMALL_LIMIT = 256

_PROT_READ_WRITE = 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_MADV_HUGEPAGE = 14


class Block(Struct, name="IngotBlock"):
    """The header of a block."""

    capacity: i64  # bytes that the user may use
    size_class: i64
    base: Pointer  # what the system gave; mapped blocks start some lines after it
    next: Block | None  # the next one in the free list


class Allocator(
    Struct,
    name="IngotAllocator",
    own_line=("lock",),
    counts={"free_lists": NUM_SIZE_CLASSES},
):
    """The state of the allocator; all but the limits changes under its lock."""

    lock: Atomic[i32]
    bytes_in_use: i64  # capacity of all blocks handed out
    peak_bytes: i64  # the most that `bytes_in_use` was
    bytes_cached: i64  # capacity of all free blocks in the cache
    cache_limit: i64  # the most that `bytes_cached` may be
    memory_limit: i64  # with more bytes in use, new blocks are refused
    allocations: i64  # calls that gave a block
    frees: i64  # blocks freed
    system_allocations: i64  # blocks that had to come from the system
    free_lists: Array[Block | None]  # one for each class


ALLOCATOR, BLOCK = Allocator.c_layout, Block.c_layout

STATE = static(Allocator, "IngotAllocator.state")


@inlined
def size_class(size: i64) -> i64:
    """Return the class of blocks for `size` bytes, at least 1."""
    if size <= _SMALL_LIMIT:
        return size - 1 >> 6
    shift = bit_length(size - 1) - 3
    return shift * 4 + (size - 1 >> shift) - 24


@inlined
def capacity_of(number: i64) -> i64:
    """Return the bytes of the blocks of a class."""
    if number < 4:
        return (number + 1) * 64
    return (number & 3) + 5 << (number >> 2) + 5


@inlined
def round_up(value: i64, step: i64) -> i64:
    """Return the next multiple of a power of two."""
    return value + (step - 1) & -step


@inlined
def mapped_bytes(capacity: i64) -> i64:
    """Return the bytes to map for a block: its header, room for its colour, whole pages."""
    return round_up(capacity + (BLOCK_HEADER_BYTES + _COLOURS * LINE_BYTES), _PAGE)


@inlined
def map_memory(size: i64) -> Pointer | None:
    """Map `size` bytes; null on failure."""
    mapped = mmap(None, size, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
    if address_of(mapped) == -1:
        return None
    return mapped


@native
def map_huge(size: i64) -> Pointer | None:
    """Map memory that starts on a huge page: map more, unmap both ends."""
    start = map_memory(size + _HUGE_PAGE)
    if start is None:
        return None
    before = round_up(address_of(start), _HUGE_PAGE) - address_of(start)
    pages = start + before
    if before != 0:
        munmap(start, before)
    if before != _HUGE_PAGE:
        munmap(pages + size, _HUGE_PAGE - before)
    madvise(pages, size, _MADV_HUGEPAGE)
    return pages


@native
def system_allocate(capacity: i64, number: i64) -> Block | None:
    """Return a new block, or null.

    `number` chooses the colour: how many cache lines after the page border the block starts.
    Large arrays that all start at the same offset in a page share cache sets; a loop over 16 of
    them is 30 % slower, over 24 of them 60 % (measured on Zen 5).
    """
    if capacity < MAP_FROM_BYTES:
        small = Block.at(aligned_alloc(LINE_BYTES, capacity + BLOCK_HEADER_BYTES))
        if small is not None:
            small.base = small
        return small
    size = mapped_bytes(capacity)
    base = map_huge(size) if size >= HUGE_FROM_BYTES else map_memory(size)
    if base is None:
        return None
    colour = number * _COLOUR_STEP & _COLOURS - 1
    block = Block.at(base + colour * LINE_BYTES)
    block.base = base
    return block


@native
def system_free(block: Block) -> None:
    """Give one block back to the system."""
    if block.capacity >= MAP_FROM_BYTES:
        munmap(block.base, mapped_bytes(block.capacity))
    else:
        c_free(block.base)


@exported("ingot_trim")
def trim() -> None:
    """Give every cached block back to the system."""
    for index in range(NUM_SIZE_CLASSES):
        lock(STATE.lock)
        first = STATE.free_lists[index]
        STATE.free_lists[index] = None
        block = first
        while block is not None:
            STATE.bytes_cached -= block.capacity
            block = block.next
        unlock(STATE.lock)
        while first is not None:
            following = first.next
            system_free(first)
            first = following


@native
def new_block(capacity: i64, wanted: i64) -> Block | None:
    """Return a new block from the system; null if `wanted`, the bytes then in use, are too many.

    The caller holds the lock, which is released.
    """
    STATE.system_allocations += 1
    number = STATE.system_allocations
    limit = STATE.memory_limit
    cached = STATE.bytes_cached
    unlock(STATE.lock)
    if wanted > limit:
        return None
    if unlikely(wanted + cached > limit):
        trim()
    block = system_allocate(capacity, number)
    if block is None:
        trim()
        block = system_allocate(capacity, number)
    return block


@exported("ingot_allocate")
def allocate(size: i64) -> Pointer | None:
    """Return a block of `size` bytes, aligned to 64, or null."""
    if unlikely(size < 0 or size > MAX_BUFFER_BYTES):
        return None
    needed = size if size > 0 else 1
    number = size_class(needed)
    capacity = capacity_of(number)
    lock(STATE.lock)
    in_use = STATE.bytes_in_use + capacity
    STATE.bytes_in_use = in_use
    if in_use > STATE.peak_bytes:
        STATE.peak_bytes = in_use
    STATE.allocations += 1
    known = STATE.free_lists[number]
    if known is not None:
        STATE.free_lists[number] = known.next
        STATE.bytes_cached -= capacity
        unlock(STATE.lock)
        return known + BLOCK_HEADER_BYTES
    block = new_block(capacity, in_use - capacity + needed)
    if block is None:
        lock(STATE.lock)
        STATE.bytes_in_use -= capacity
        STATE.allocations -= 1
        unlock(STATE.lock)
        return None
    block.capacity = capacity
    block.size_class = number
    return block + BLOCK_HEADER_BYTES


@inlined
def block_of(data: Pointer) -> Block:
    """Return the header of a block."""
    return Block.at(data + -BLOCK_HEADER_BYTES)


@exported("ingot_free")
def free(data: Pointer | None) -> None:
    """Put the block into the cache; if it does not fit, empty the whole cache first.

    Emptying all of it, not only this block, lets the cache follow a program whose sizes change.
    """
    if data is None:
        return
    block = block_of(data)
    capacity = block.capacity
    number = block.size_class
    lock(STATE.lock)
    STATE.bytes_in_use -= capacity
    STATE.frees += 1
    limit = STATE.cache_limit
    if unlikely(STATE.bytes_cached + capacity > limit):
        unlock(STATE.lock)
        if capacity > limit:
            system_free(block)
            return
        trim()
        lock(STATE.lock)
    block.next = STATE.free_lists[number]
    STATE.free_lists[number] = block
    STATE.bytes_cached += capacity
    unlock(STATE.lock)
