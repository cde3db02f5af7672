# SPDX-License-Identifier: Apache-2.0
"""What a thread asks of its GPU: its number, barriers, values of other threads of its warp.

Everything goes through the whitelist (`llvm.intrinsics`): LLVM ends the process on an NVVM
intrinsic that it does not know; the whitelist raises an error of ours first.

Invariant: barriers and shuffles are emitted only where all threads of the block, or of the warp,
come by.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

WARP = 32
"""Threads of a warp."""

_ALL_LANES = -1
"""The mask of all lanes of a warp."""

_CLAMPS = {"bfly": 31, "idx": 31, "up": 0}
"""The bound of lanes that a shuffle of each mode may read, over a whole warp."""


def thread_number(f: FunctionBuilder) -> Value:
    """Return the number of this thread in its block, as i64."""
    return _register(f, "tid.x")


def block_number(f: FunctionBuilder) -> Value:
    """Return the number of this thread's block in the grid, as i64."""
    return _register(f, "ctaid.x")


def _register(f: FunctionBuilder, name: str) -> Value:
    return f.zext(f.intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}", lt.I32, []), lt.I64)


def barrier(f: FunctionBuilder) -> None:
    """Wait for all threads of the block; earlier stores of each are seen by all after it."""
    f.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", lt.VOID, [f.const(lt.I32, 0)])


def warp_barrier(f: FunctionBuilder) -> None:
    """Wait for all threads of the warp; earlier stores of each are seen by all after it."""
    f.intrinsic("llvm.nvvm.bar.warp.sync", lt.VOID, [f.const(lt.I32, _ALL_LANES)])


def from_lane_xor(f: FunctionBuilder, value: Value, bits: int) -> Value:
    """Return the value that the lane has whose number differs in `bits`: any scalar type."""
    return _from_lane(f, value, "bfly", bits)


def from_lane_before(f: FunctionBuilder, value: Value, count: int) -> Value:
    """Return the value that the lane `count` before has; the first lanes get their own."""
    return _from_lane(f, value, "up", count)


def from_lane(f: FunctionBuilder, value: Value, number: int) -> Value:
    """Return the value that lane `number` has."""
    return _from_lane(f, value, "idx", number)


def _from_lane(f: FunctionBuilder, value: Value, mode: str, number: int) -> Value:
    type = value.type
    if type.bits < 32:
        raw = f.bitcast(value, _integer(type)) if type.is_float else value
        moved = f.trunc(_word(f, f.zext(raw, lt.I32), mode, number), raw.type)
        return f.bitcast(moved, type) if type.is_float else moved
    words = type.bits // 32
    if words == 1:
        raw = value if type is lt.I32 else f.bitcast(value, lt.I32)
        moved = _word(f, raw, mode, number)
        return moved if type is lt.I32 else f.bitcast(moved, type)
    parts = f.bitcast(value, vector(lt.I32, words))
    for at in range(words):
        parts = f.insert(parts, _word(f, f.extract(parts, at), mode, number), at)
    return f.bitcast(parts, type)


def _integer(type: lt.Type) -> lt.Type:
    return {8: lt.I8, 16: lt.I16}[type.bits]


def _word(f: FunctionBuilder, word: Value, mode: str, number: int) -> Value:
    mask, lane, clamp = (f.const(lt.I32, each) for each in (_ALL_LANES, number, _CLAMPS[mode]))
    return f.intrinsic(f"llvm.nvvm.shfl.sync.{mode}.i32", lt.I32, [mask, word, lane, clamp])


def copy_chunk(f: FunctionBuilder, to: Value, source: Value, count: Value) -> None:
    """Begin to copy 16 bytes of global memory to shared memory, both at multiples of 16.

    Of these `count` bytes (i32) are read, the others become zeros.
    """
    f.intrinsic("llvm.nvvm.cp.async.cg.shared.global.16.s", lt.VOID, [to, source, count])


def wait_for_copies(f: FunctionBuilder) -> None:
    """Wait for all copies that this thread has begun; others see them behind a barrier."""
    f.intrinsic("llvm.nvvm.cp.async.wait.all", lt.VOID, [])


def load_matrices(f: FunctionBuilder, row: Value, *, transposed: bool) -> list[Value]:
    """Return this lane's words of four matrices of 8 rows of 16 bytes, in shared memory.

    `row` is the address of a row: lanes 0 to 7 have those of the first matrix, and so on.
    Transposed matrices are of 16-bit elements.
    """
    mode = "x4.trans.b16" if transposed else "x4.b16"
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.{mode}"
    found = f.intrinsic(name, lt.struct(*[lt.I32] * 4), [row])
    return [f.extract_value(found, number) for number in range(4)]


def multiply_fragments(
    f: FunctionBuilder, form: str, operands: Sequence[Value], sums: Sequence[Value]
) -> list[Value]:
    """Return the sums plus the product of a warp's matrices, this lane's part of each."""
    result = lt.struct(*[total.type for total in sums])
    found = f.intrinsic(f"llvm.nvvm.mma.{form}", result, [*operands, *sums])
    return [f.extract_value(found, number) for number in range(len(sums))]
