# SPDX-License-Identifier: Apache-2.0
"""The caching buffer allocator, emitted as LLVM IR: `ingot_allocate`, `ingot_free`, `ingot_trim`.

Outputs and arenas of programs come from here. A freshly mapped page costs a fault and a clear
(0.25 us per 4 KiB: more than most kernels take to fill it), so blocks are kept for reuse up to
`cache_limit` bytes. Blocks are 64-byte aligned and of fixed size classes, four per power of two;
each class has a free list, all under one spin lock that is never held across a system call.
Small blocks come from aligned_alloc, larger ones from mmap, and the mappings of the largest lie on
2 MiB borders with MADV_HUGEPAGE. Out of memory is a null pointer, after the cache was given back:
where the system gives nothing, and where it would give more than the machine has (`memory_limit`)
and end the process later, when the pages are touched.

Invariant: a header of 64 bytes precedes each block and says its class, so `ingot_free` needs no
size; the order of stores in push and pop leaves every list whole at any instant, so a fork child
may simply reset the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.records import ALLOCATOR, BLOCK, BLOCK_HEADER_BYTES, NUM_SIZE_CLASSES
from ingot.runtime.sync import discard, emit_lock, emit_unlock

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


@dataclass(frozen=True, slots=True)
class AllocatorFunctions:
    """What the rest of the runtime calls."""

    allocate: FunctionRef
    free: FunctionRef
    trim: FunctionRef


def size_class(size: int) -> tuple[int, int]:
    """Return (class, capacity) for a request of `size` bytes; the emitted code computes the same.

    Example:
        >>> size_class(1), size_class(256), size_class(257), size_class(1000)
        ((0, 64), (3, 256), (4, 320), (11, 1024))
    """
    size = max(size, 1)
    if size <= _SMALL_LIMIT:
        return (size - 1) // 64, -(-size // 64) * 64
    power = (size - 1).bit_length() - 1
    quarter = (size - 1) >> (power - 2)
    return 4 + (power - 8) * 4 + quarter - 4, (quarter + 1) << (power - 2)


def emit_allocator(module: ModuleBuilder, state: Value) -> AllocatorFunctions:
    """Add the allocator over the record at `state` to `module`."""
    take = _emit_system_allocate(module)
    give = _emit_system_free(module)
    trim = _emit_trim(module, state, give)
    allocate = _emit_allocate(module, state, take, trim)
    free = _emit_free(module, state, trim, give)
    return AllocatorFunctions(allocate, free, trim)


def _emit_size_class(f: FunctionBuilder, size: Value) -> tuple[Value, Value]:
    """Emit `size_class` without branches; `size` is at least 1."""
    last = f.sub(size, f.const(I64, 1))
    small_class = f.lshr(last, f.const(I64, 6))
    small_capacity = f.shl(f.add(small_class, f.const(I64, 1)), f.const(I64, 6))
    # Below 256 the large formula must not shift by a negative count: its result is not used.
    guarded = f.or_(last, f.const(I64, _SMALL_LIMIT))
    leading = f.intrinsic("llvm.ctlz", I64, [guarded, f.as_condition(False)])
    power = f.sub(f.const(I64, 63), leading)
    shift = f.sub(power, f.const(I64, 2))
    quarter = f.lshr(guarded, shift)
    large_class = f.sub(f.add(f.shl(power, f.const(I64, 2)), quarter), f.const(I64, 32))
    large_capacity = f.shl(f.add(quarter, f.const(I64, 1)), shift)
    is_small = f.icmp("ule", size, f.const(I64, _SMALL_LIMIT))
    capacity = f.select(is_small, small_capacity, large_capacity)
    return f.select(is_small, small_class, large_class), capacity


def _round_up(f: FunctionBuilder, value: Value, step: int) -> Value:
    return f.and_(f.add(value, f.const(I64, step - 1)), f.const(I64, -step))


def _is_mapped(f: FunctionBuilder, capacity: Value) -> Value:
    return f.icmp("uge", capacity, f.const(I64, MAP_FROM_BYTES))


def _mapped_bytes(f: FunctionBuilder, capacity: Value) -> Value:
    """Return the bytes to map for a block: its header, room for its colour, whole pages."""
    more = BLOCK_HEADER_BYTES + _COLOURS * LINE_BYTES
    return _round_up(f, f.add(capacity, f.const(I64, more)), _PAGE)


def _emit_map(f: FunctionBuilder, size: Value) -> Value:
    """Map `size` bytes; null on failure."""
    declared = f.module.declare("mmap", PTR, [PTR, I64, I32, I32, I32, I64])
    modes = [f.const(I32, _PROT_READ_WRITE), f.const(I32, _MAP_PRIVATE_ANONYMOUS)]
    rest = [*modes, f.const(I32, -1), f.const(I64, 0)]
    result = f.call(declared, [zero(PTR), size, *rest])
    failed = f.icmp("eq", f.ptrtoint(result), f.const(I64, -1))
    return f.select(failed, zero(PTR), result)


def _emit_unmap(f: FunctionBuilder, address: Value, size: Value) -> None:
    f.call(f.module.declare("munmap", I32, [PTR, I64]), [address, size])


def _emit_system_allocate(module: ModuleBuilder) -> FunctionRef:
    """`ptr (i64 capacity, i64 number)`: the header of a new block, or null.

    `number` chooses the colour: how many cache lines after the page border the block starts.
    Large arrays that all start at the same place of a page share cache sets; a loop over 16 of
    them is 30 % slower, over 24 of them 60 % (measured on Zen 5).
    """
    params: list[tuple[str, Type]] = [("capacity", I64), ("number", I64)]
    f = module.function("ingot_system_allocate", PTR, params, linkage="internal")
    capacity, number = f.params
    map_pages = _emit_map_pages(module)

    def small() -> list[Value]:
        aligned_alloc = module.declare("aligned_alloc", PTR, [I64, I64])
        total = f.add(capacity, f.const(I64, BLOCK_HEADER_BYTES))
        block = f.call(aligned_alloc, [f.const(I64, LINE_BYTES), total])
        return [block, f.const(I64, 0)]

    def mapped() -> list[Value]:
        scattered = f.mul(number, f.const(I64, _COLOUR_STEP))
        colour = f.and_(scattered, f.const(I64, _COLOURS - 1))
        block = f.call(map_pages, [_mapped_bytes(f, capacity)])
        return [block, f.mul(colour, f.const(I64, LINE_BYTES))]

    base, offset = f.if_(_is_mapped(f, capacity), mapped, small)
    f.if_(f.icmp("eq", base, zero(PTR)), lambda: f.ret(base), likely=False)
    header = f.gep(base, offset)
    BLOCK.store(f, header, "base", base)
    f.ret(header)
    return f.reference


def _emit_map_pages(module: ModuleBuilder) -> FunctionRef:
    """`ptr (i64 size)`: new pages, huge ones if that is worth it, or null."""
    f = module.function("ingot_map_pages", PTR, [("size", I64)], linkage="internal")
    (size,) = f.params
    huge = f.icmp("uge", size, f.const(I64, HUGE_FROM_BYTES))
    f.if_(huge, lambda: _emit_huge(f, size))
    f.ret(_emit_map(f, size))
    return f.reference


def _emit_huge(f: FunctionBuilder, size: Value) -> None:
    """Return a mapping that starts on a huge page: map more, unmap both ends."""
    whole = f.add(size, f.const(I64, _HUGE_PAGE))
    start = _emit_map(f, whole)
    f.if_(f.icmp("eq", start, zero(PTR)), lambda: f.ret(zero(PTR)), likely=False)
    address = f.ptrtoint(start)
    before = f.sub(_round_up(f, address, _HUGE_PAGE), address)
    block = f.gep(start, before)
    after = f.sub(f.const(I64, _HUGE_PAGE), before)
    for at, count in ((start, before), (f.gep(block, size), after)):
        some = f.icmp("ne", count, f.const(I64, 0))
        f.if_(some, lambda at=at, count=count: _emit_unmap(f, at, count))
    advise = f.module.declare("madvise", I32, [PTR, I64, I32])
    f.call(advise, [block, size, f.const(I32, _MADV_HUGEPAGE)])
    f.ret(block)


def _emit_system_free(module: ModuleBuilder) -> FunctionRef:
    """`void (ptr header)`: give one block back to the system."""
    f = module.function("ingot_system_free", VOID, [("header", PTR)], linkage="internal")
    (header,) = f.params
    capacity, base = BLOCK.load(f, header, "capacity"), BLOCK.load(f, header, "base")
    free = module.declare("free", VOID, [PTR])

    def unmap() -> None:
        _emit_unmap(f, base, _mapped_bytes(f, capacity))

    def release() -> None:
        f.call(free, [base])

    f.if_(_is_mapped(f, capacity), unmap, release)
    f.ret()
    return f.reference


def _emit_add(f: FunctionBuilder, state: Value, name: str, amount: Value) -> Value:
    """Add to a counter of the allocator, under its lock; return the sum."""
    total = f.add(ALLOCATOR.load(f, state, name), amount)
    ALLOCATOR.store(f, state, name, total)
    return total


def _list_head(f: FunctionBuilder, state: Value, size_class: Value) -> Value:
    return f.gep(ALLOCATOR.address(f, state, "free_lists"), size_class, PTR)


def _emit_trim(module: ModuleBuilder, state: Value, give: FunctionRef) -> FunctionRef:
    """`void ()`: give every cached block back to the system."""
    f = module.function("ingot_trim", VOID, [])
    lock = ALLOCATOR.address(f, state, "lock")

    def one_class(index: Value, _: list[Value]) -> None:
        head = _list_head(f, state, index)
        emit_lock(f, lock)
        first = f.load(PTR, head)
        f.store(zero(PTR), head)
        some = f.icmp("ne", first, zero(PTR))
        f.while_([first], lambda v: f.icmp("ne", v[0], zero(PTR)), uncount)
        emit_unlock(f, lock)
        f.if_(some, lambda: discard(f.while_([first], lambda v: _is_block(f, v[0]), release)))

    def uncount(values: list[Value]) -> list[Value]:
        capacity = BLOCK.load(f, values[0], "capacity")
        _emit_add(f, state, "bytes_cached", f.neg(capacity))
        return [BLOCK.load(f, values[0], "next")]

    def release(values: list[Value]) -> list[Value]:
        following = BLOCK.load(f, values[0], "next")
        f.call(give, [values[0]])
        return [following]

    f.loop(0, NUM_SIZE_CLASSES, 1, [], one_class)
    f.ret()
    return f.reference


def _is_block(f: FunctionBuilder, header: Value) -> Value:
    return f.icmp("ne", header, zero(PTR))


def _emit_allocate(
    module: ModuleBuilder, state: Value, take: FunctionRef, trim: FunctionRef
) -> FunctionRef:
    """`ptr (i64 bytes)`: a 64-byte aligned block, or null."""
    f = module.function("ingot_allocate", PTR, [("bytes", I64)])
    (size,) = f.params
    too_large = f.icmp("ugt", size, f.const(I64, MAX_BUFFER_BYTES))
    f.if_(too_large, lambda: f.ret(zero(PTR)), likely=False)
    size = f.imax(size, 1)
    assert isinstance(size, Value)
    number, capacity = _emit_size_class(f, size)
    lock, head = ALLOCATOR.address(f, state, "lock"), _list_head(f, state, number)
    emit_lock(f, lock)
    in_use = _emit_add(f, state, "bytes_in_use", capacity)
    peak = f.imax(ALLOCATOR.load(f, state, "peak_bytes"), in_use)
    ALLOCATOR.store(f, state, "peak_bytes", f.as_value(peak))
    _emit_add(f, state, "allocations", f.const(I64, 1))
    first = f.load(PTR, head)

    def reuse() -> None:
        f.store(BLOCK.load(f, first, "next"), head)
        _emit_add(f, state, "bytes_cached", f.neg(capacity))
        emit_unlock(f, lock)
        f.ret(f.gep(first, BLOCK_HEADER_BYTES))

    f.if_(_is_block(f, first), reuse, likely=True)
    made = _emit_add(f, state, "system_allocations", f.const(I64, 1))
    limit = ALLOCATOR.load(f, state, "memory_limit")
    wanted = f.add(f.sub(in_use, capacity), size)
    cached = ALLOCATOR.load(f, state, "bytes_cached")
    emit_unlock(f, lock)

    def take_or_retry() -> list[Value]:
        crowded = f.icmp("sgt", f.add(wanted, cached), limit)
        f.if_(crowded, lambda: discard(f.call(trim, [])), likely=False)
        fresh = f.call(take, [capacity, made])

        def retry() -> list[Value]:
            f.call(trim, [])
            return [f.call(take, [capacity, made])]

        missing = f.icmp("eq", fresh, zero(PTR))
        return list(f.if_(missing, retry, otherwise=[fresh], likely=False))

    has_room = f.icmp("sle", wanted, limit)
    (block,) = f.if_(has_room, take_or_retry, otherwise=[zero(PTR)], likely=True)

    def fail() -> None:
        emit_lock(f, lock)
        _emit_add(f, state, "bytes_in_use", f.neg(capacity))
        _emit_add(f, state, "allocations", f.const(I64, -1))
        emit_unlock(f, lock)
        f.ret(zero(PTR))

    f.if_(f.icmp("eq", block, zero(PTR)), fail, likely=False)
    BLOCK.store(f, block, "capacity", capacity)
    BLOCK.store(f, block, "size_class", number)
    f.ret(f.gep(block, BLOCK_HEADER_BYTES))
    return f.reference


def _emit_free(
    module: ModuleBuilder, state: Value, trim: FunctionRef, give: FunctionRef
) -> FunctionRef:
    """`void (ptr data)`: keep the block for reuse; past the limit, empty the whole cache first.

    Emptying all of it, not only this block, lets the cache follow a program whose sizes change.
    """
    f = module.function("ingot_free", VOID, [("data", PTR)])
    (data,) = f.params
    f.if_(f.icmp("eq", data, zero(PTR)), f.ret, likely=False)
    header = f.gep(data, -BLOCK_HEADER_BYTES)
    capacity = BLOCK.load(f, header, "capacity")
    lock = ALLOCATOR.address(f, state, "lock")
    head = _list_head(f, state, BLOCK.load(f, header, "size_class"))
    emit_lock(f, lock)
    _emit_add(f, state, "bytes_in_use", f.neg(capacity))
    _emit_add(f, state, "frees", f.const(I64, 1))
    limit = ALLOCATOR.load(f, state, "cache_limit")
    cached = f.add(ALLOCATOR.load(f, state, "bytes_cached"), capacity)

    def overflow() -> None:
        emit_unlock(f, lock)

        def too_big() -> None:
            f.call(give, [header])
            f.ret()

        f.if_(f.icmp("sgt", capacity, limit), too_big)
        f.call(trim, [])
        emit_lock(f, lock)

    f.if_(f.icmp("sgt", cached, limit), overflow, likely=False)
    BLOCK.store(f, header, "next", f.load(PTR, head))
    f.store(header, head)
    _emit_add(f, state, "bytes_cached", capacity)
    emit_unlock(f, lock)
    f.ret()
    return f.reference
