# SPDX-License-Identifier: Apache-2.0
"""Weights outside of the code: a block that the program maps, or that the caller passes.

The file is just the block of constants: its size and checksum are in the code. Every level of an
artifact has its constants at an offset in the one block; equal ones are shared.
`emit_weights` adds `S_set_weights` and, for files, `S_load_weights`.

Invariant: no execution sees weights that were not checked; once set, they are never changed.

The checksum is a sum over the 64-bit words of a mix of each word and its index, so it depends on
the order and value of every word, and runs as fast as memory is read. It finds mistakes, not
attacks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.artifact.abi import DATA_ALIGNMENT
from ingot.artifact.metadata import (
    NO_WEIGHTS,
    WEIGHTS_ALIGNMENT,
    WEIGHTS_CHECKSUM,
    WEIGHTS_SIZE,
    WEIGHTS_UNREADABLE,
    Metadata,
)
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR
from ingot.llvm.values import Value, zero
from ingot.support.records import record

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SHIFT = 29
_WORDS_AT_ONCE = 1 << 17
_PATH_BYTES = 4096
_O_CLOEXEC, _SEEK_END, _PROT_READ, _MAP_PRIVATE = 0x80000, 2, 1, 2


@record
class WeightBlock:
    """The constants of all levels in one block.

    Attributes:
        data: the block; a multiple of 64 bytes.
        offsets: where the constants of each level begin.
    """

    data: bytes
    offsets: tuple[int, ...]


def joined(constants: Sequence[bytes]) -> WeightBlock:
    """Return the block for the constants of each level, with equal ones once."""
    known: dict[bytes, int] = {}
    block = bytearray()
    for data in constants:
        if data not in known:
            known[data] = len(block)
            block += data
            block += bytes(-len(block) % DATA_ALIGNMENT)
    return WeightBlock(bytes(block), tuple(known[data] for data in constants))


def checksum(block: bytes) -> int:
    """Return the checksum of a block whose size is a multiple of 8 bytes."""
    words = np.frombuffer(block, "<u8")
    total = 0
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE].copy()
        indices = np.arange(start, start + len(part), dtype=np.uint64)
        part ^= indices * np.uint64(_STEP)
        part *= np.uint64(_FIRST)
        part ^= part >> np.uint64(_SHIFT)
        part *= np.uint64(_SECOND)
        total += int(part.sum(dtype=np.uint64))
    return total & 0xFFFFFFFFFFFFFFFF


class WeightFunctions:
    """Emits the functions that check and hold the weights of one program.

    Attributes:
        public: the names of the C functions.
    """

    def __init__(self, module: ModuleBuilder, metadata: Metadata, block: bytes) -> None:
        """Begin; `emit` adds the functions."""
        self._module, self._metadata, self._block = module, metadata, block
        self._held = module.global_text("weights", "internal global ptr null, align 8")

    def loaded(self, f: FunctionBuilder) -> Value:
        """Return the address of the block; leave the function with NO_WEIGHTS if there is none."""
        address = f.atomic_load(PTR, self._held)
        none = f.icmp("eq", address, zero(PTR))
        f.if_(none, lambda: f.ret(f.const(I32, NO_WEIGHTS)), likely=False)
        return address

    def emit(self) -> None:
        """`i32 S_set_weights(data, bytes)`, and `i32 S_load_weights(path)` for files."""
        set_weights = self._emit_set(self._emit_checksum())
        if self._metadata.weights == "beside":
            self._emit_load(set_weights)

    def _emit_checksum(self) -> FunctionRef:
        f = self._module.function("weights_checksum", I64, [("data", PTR)], linkage="internal")
        (data,) = f.params

        def word(index: Value, sums: list[Value]) -> list[Value]:
            found = f.load(I64, f.gep(data, index, I64), 8)
            mixed = f.mul(f.xor(found, f.mul(index, _word(f, _STEP))), _word(f, _FIRST))
            mixed = f.xor(mixed, f.lshr(mixed, f.const(I64, _SHIFT)))
            return [f.add(sums[0], f.mul(mixed, _word(f, _SECOND)))]

        f.ret(f.loop(0, len(self._block) // 8, 1, [f.const(I64, 0)], word)[0])
        return f.reference

    def _emit_set(self, sum_of: FunctionRef) -> FunctionRef:
        name = f"{self._metadata.symbol}_set_weights"
        f = self._module.function(name, I32, [("data", PTR), ("bytes", I64)])
        data, size = f.params
        low = f.and_(f.ptrtoint(data), f.const(I64, DATA_ALIGNMENT - 1))
        _refuse(f, f.icmp("ne", size, f.const(I64, len(self._block))), WEIGHTS_SIZE)
        _refuse(f, f.icmp("ne", low, f.const(I64, 0)), WEIGHTS_ALIGNMENT)
        wanted = _word(f, checksum(self._block))
        _refuse(f, f.icmp("ne", f.call(sum_of, [data]), wanted), WEIGHTS_CHECKSUM)
        none = f.icmp("eq", f.atomic_load(PTR, self._held), zero(PTR))
        f.if_(none, lambda: f.atomic_store(data, self._held))
        f.ret(f.const(I32, 0))
        return f.reference

    def _emit_load(self, set_weights: FunctionRef) -> None:
        """Map the file at `path`, or for null the one next to this library."""
        module, size = self._module, len(self._block)
        f = module.function(f"{self._metadata.symbol}_load_weights", I32, [("path", PTR)])
        (path,) = f.params
        present = f.atomic_load(PTR, self._held)
        _refuse(f, f.icmp("ne", present, zero(PTR)), 0)
        beside = self._emit_beside()
        buffer = f.alloca(I8, _PATH_BYTES, 8)

        def default() -> list[Value]:
            found = f.call(beside, [f.address, buffer])
            _refuse(f, f.icmp("eq", found, f.const(I32, 0)), WEIGHTS_UNREADABLE)
            return [buffer]

        given = f.icmp("eq", path, zero(PTR))
        (name,) = f.if_(given, default, lambda: [path])
        file = f.call(module.declare("open", I32, [PTR, I32]), [name, f.const(I32, _O_CLOEXEC)])
        _refuse(f, f.icmp("slt", file, f.const(I32, 0)), WEIGHTS_UNREADABLE)
        seek = module.declare("lseek", I64, [I32, I64, I32])
        found = f.call(seek, [file, f.const(I64, 0), f.const(I32, _SEEK_END)])
        close = module.declare("close", I32, [I32])

        def wrong_size() -> None:
            f.call(close, [file])
            f.ret(f.const(I32, WEIGHTS_SIZE))

        f.if_(f.icmp("ne", found, f.const(I64, size)), wrong_size)
        mmap = module.declare("mmap", PTR, [PTR, I64, I32, I32, I32, I64])
        flags = [f.const(I32, _PROT_READ), f.const(I32, _MAP_PRIVATE)]
        data = f.call(mmap, [zero(PTR), f.const(I64, size), *flags, file, f.const(I64, 0)])
        f.call(close, [file])
        failed = f.icmp("eq", f.ptrtoint(data), f.const(I64, -1))
        _refuse(f, failed, WEIGHTS_UNREADABLE)
        status = f.call(set_weights, [data, f.const(I64, size)])

        def unmap() -> None:
            f.call(module.declare("munmap", I32, [PTR, I64]), [data, f.const(I64, size)])

        f.if_(f.icmp("ne", status, f.const(I32, 0)), unmap)
        f.ret(status)

    def _emit_beside(self) -> FunctionRef:
        """`i32 weights_beside(function, path)`: write the path; 0 if it is unknown or too long."""
        module = self._module
        name = self._metadata.weights_file.encode() + b"\0"
        text = module.global_bytes("weights_file", name, align=1)
        params = [("function", PTR), ("path", PTR)]
        f = module.function("weights_beside", I32, params, linkage="internal")
        function, path = f.params
        info = f.alloca(PTR, 4, 8)  # Dl_info: the file's name comes first
        known = f.call(module.declare("dladdr", I32, [PTR, PTR]), [function, info])
        none = f.const(I32, 0)
        f.if_(f.icmp("eq", known, none), lambda: f.ret(none))
        own = f.load(PTR, info, 8)
        slash = f.call(module.declare("strrchr", PTR, [PTR, I32]), [own, f.const(I32, ord("/"))])

        def folder() -> list[Value]:
            return [f.add(f.sub(f.ptrtoint(slash), f.ptrtoint(own)), f.const(I64, 1))]

        here = f.icmp("eq", slash, zero(PTR))
        (length,) = f.if_(here, lambda: [f.const(I64, 0)], folder)
        most = f.const(I64, _PATH_BYTES - len(name))
        f.if_(f.icmp("ugt", length, most), lambda: f.ret(none))
        f.memcpy(path, own, length)
        f.memcpy(f.gep(path, length), text, len(name))
        f.ret(f.const(I32, 1))
        return f.reference


def _word(f: FunctionBuilder, value: int) -> Value:
    """Return 64 bits as LLVM's signed constant."""
    return f.const(I64, value - (1 << 64) if value >> 63 else value)


def _refuse(f: FunctionBuilder, condition: Value, status: int) -> None:
    f.if_(condition, lambda: f.ret(f.const(I32, status)))
