# SPDX-License-Identifier: Apache-2.0
"""What a thread asks of its GPU: its number, barriers, values of other threads of its warp.

Everything goes through the whitelist (`llvm.intrinsics`): LLVM ends the process on an NVVM
intrinsic that it does not know; the whitelist raises an error of ours first.

Invariant: barriers and shuffles are emitted only where all threads of the block, or of the warp,
come by.
"""

from __future__ import annotations

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

_ALL_LANES, _WHOLE_WARP = -1, 31
"""The mask of all lanes of a warp, and the clamp of a shuffle over all of them."""


def thread_number(f: FunctionBuilder) -> Value:
    """Return the number of this thread in its block, as i64."""
    return _register(f, "tid.x")


def block_number(f: FunctionBuilder) -> Value:
    """Return the number of this thread's block in the grid, as i64."""
    return _register(f, "ctaid.x")


def _register(f: FunctionBuilder, name: str) -> Value:
    return f.zext(f.intrinsic(f"llvm.nvvm.read.ptx.sreg.{name}", lt.I32, []), lt.I64)


def barrier(f: FunctionBuilder) -> None:
    """Wait for all threads of the block; what they stored before is seen after it."""
    f.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", lt.VOID, [f.const(lt.I32, 0)])


def warp_barrier(f: FunctionBuilder) -> None:
    """Wait for all threads of the warp; what they stored before is seen after it."""
    f.intrinsic("llvm.nvvm.bar.warp.sync", lt.VOID, [f.const(lt.I32, _ALL_LANES)])


def from_lane_xor(f: FunctionBuilder, value: Value, bits: int) -> Value:
    """Return the value that the lane has whose number differs in `bits`: any scalar type."""
    type = value.type
    if type.bits < 32:
        raw = f.bitcast(value, _integer(type)) if type.is_float else value
        moved = f.trunc(_word_from_lane(f, f.zext(raw, lt.I32), bits), raw.type)
        return f.bitcast(moved, type) if type.is_float else moved
    words = type.bits // 32
    if words == 1:
        raw = value if type is lt.I32 else f.bitcast(value, lt.I32)
        moved = _word_from_lane(f, raw, bits)
        return moved if type is lt.I32 else f.bitcast(moved, type)
    parts = f.bitcast(value, vector(lt.I32, words))
    for number in range(words):
        moved = _word_from_lane(f, f.extract(parts, number), bits)
        parts = f.insert(parts, moved, number)
    return f.bitcast(parts, type)


def _integer(type: lt.Type) -> lt.Type:
    return {8: lt.I8, 16: lt.I16}[type.bits]


def _word_from_lane(f: FunctionBuilder, word: Value, bits: int) -> Value:
    numbers = [f.const(lt.I32, number) for number in (_ALL_LANES, bits, _WHOLE_WARP)]
    mask, lane, clamp = numbers
    name = "llvm.nvvm.shfl.sync.bfly.i32"
    return f.intrinsic(name, lt.I32, [mask, word, lane, clamp])
