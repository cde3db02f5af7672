# SPDX-License-Identifier: Apache-2.0
"""Runs GPU kernels without a GPU: the same LLVM IR, its `llvm.nvvm.*` renamed to a runtime in IR.

The runtime (`simt_runtime.ll`) makes a fiber of each thread of a block. The order of threads and
of blocks depends on a seed; shared memory starts as bytes that no kernel expects. So a missing
barrier shows as a wrong result, a barrier that not all threads reach as an error.

What it cannot show: there is no memory model, one thread runs at a time.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ingot.gpu.compiler import GpuKernel
from ingot.hlo.dim import evaluate
from ingot.llvm.binding import llvm
from ingot.llvm.jit import compile_object
from ingot.llvm.target import TargetSpec

RUNTIME = Path(__file__).with_name("simt_runtime.ll")

STACK_BYTES, MOST_THREADS = 1 << 16, 1024

BEHIND = b"\xa5" * 64
"""What lies behind every buffer, and must still lie there when the kernel has run."""

POISON = 0xFF
"""Bytes of shared memory before a block runs: NaN as floats, -1 as integers."""

_SHARED = re.compile(r"^@(\S+) = internal addrspace\(3\) global \[(\d+) x (\w+)\]", re.MULTILINE)
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "i128": 16}


class StuckError(Exception):
    """A barrier that some threads of a block never reach."""


class Emulation:
    """A kernel that runs on this CPU."""

    def __init__(self, kernel: GpuKernel, buffers: int, llvm_ir: str | None = None) -> None:
        """Compile `kernel`, or other IR in its place (with a bug), for this CPU."""
        self.kernel = kernel
        self.count = buffers + len(kernel.sizes)
        text = kernel.llvm_ir if llvm_ir is None else llvm_ir
        self._engine = _compiled(text, kernel.symbol, buffers, len(kernel.sizes))
        address = self._engine.get_global_value_address("simt_arguments")
        self._arguments = (ctypes.c_int64 * max(1, self.count)).from_address(address)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32,
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
            ctypes.c_int32,
        )
        self._run_block = kind(self._engine.get_function_address("run_block"))

    def run(
        self, buffers: Sequence[np.ndarray], sizes: Mapping[str, int], seed: int
    ) -> list[np.ndarray]:
        """Return the contents of all buffers after the kernel, blocks and threads in some order."""
        choose = np.random.default_rng(seed)
        memory = [
            np.frombuffer(bytearray(held.tobytes() + b"\xa5" * 64), np.uint8) for held in buffers
        ]
        values = [held.ctypes.data for held in memory]
        values += [sizes[name] for name in self.kernel.sizes]
        self._arguments[: len(values)] = values
        threads = self.kernel.threads
        for block in choose.permutation(evaluate(self.kernel.blocks, sizes)):
            order = choose.permutation(threads).astype(np.int32)
            stacks = _stacks()
            if self._run_block(threads, stacks, STACK_BYTES, order.ctypes.data, int(block)):
                raise StuckError(f"{self.kernel.symbol}: block {block} waits at a barrier for ever")
        assert all(held[-64:].tobytes() == BEHIND for held in memory), "written behind an end"
        return [
            held[:-64].view(given.dtype).reshape(given.shape)
            for held, given in zip(memory, buffers, strict=True)
        ]


@cache
def _stack_room() -> np.ndarray:
    return np.zeros(STACK_BYTES * (MOST_THREADS + 1), np.uint8)


def _stacks() -> int:
    """Return the aligned address of room for the stacks of a block."""
    return (_stack_room().ctypes.data + 63) // 64 * 64


def emulated_ir(text: str) -> str:
    """Return a kernel's IR with the names that this CPU has."""
    text = text.replace("llvm.nvvm.", "simt.").replace("define ptx_kernel", "define")
    text = re.sub(r'"nvvm\.maxntid"="[^"]*"', "", text)
    return text.replace("= internal addrspace(3)", "= addrspace(3)")


def _compiled(text: str, symbol: str, buffers: int, sizes: int) -> Any:
    host = TargetSpec.host()
    compile_object("", host)  # LLVM is set up by the first compilation.
    machine = llvm.Target.from_triple(host.triple).create_target_machine(
        cpu=host.cpu, features=host.features, opt=1, jit=True
    )
    module = llvm.parse_assembly(emulated_ir(text))
    parts = [RUNTIME.read_text(), _around(text, symbol, buffers, sizes)]
    for part in parts:
        other = llvm.parse_assembly(part)
        other.triple, other.data_layout = host.triple, str(machine.target_data)
        module.triple, module.data_layout = host.triple, str(machine.target_data)
        module.link_in(other)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _around(text: str, symbol: str, buffers: int, sizes: int) -> str:
    """Return the call of the kernel, and what fills its shared memory."""
    types = ["ptr addrspace(1)"] * buffers + ["i64"] * sizes
    lines = [
        f"@simt_arguments = global [{max(1, len(types))} x i64] zeroinitializer",
        f"declare void @{symbol}({', '.join(types)})",
        "declare void @llvm.memset.p3.i64(ptr addrspace(3), i8, i64, i1)",
    ]
    arrays = [(name, int(count) * _BYTES[item]) for name, count, item in _SHARED.findall(text)]
    lines += [f"@{name} = external addrspace(3) global [{size} x i8]" for name, size in arrays]
    lines.append("define void @simt_poison() {")
    lines += [
        f"  call void @llvm.memset.p3.i64(ptr addrspace(3) @{name}, i8 {POISON}, i64 {size}, i1 0)"
        for name, size in arrays
    ]
    lines += ["  ret void", "}", "define void @simt_kernel() noinline {"]
    for number, type in enumerate(types):
        lines.append(f"  %p{number} = getelementptr i64, ptr @simt_arguments, i32 {number}")
        lines.append(f"  %a{number} = load {type}, ptr %p{number}")
    given = ", ".join(f"{type} %a{number}" for number, type in enumerate(types))
    return "\n".join([*lines, f"  call void @{symbol}({given})", "  ret void", "}"])
