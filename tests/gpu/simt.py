# SPDX-License-Identifier: Apache-2.0
"""Runs GPU kernels without a GPU: the same LLVM IR, its `llvm.nvvm.*` renamed to a runtime in IR.

The runtime (`simt_runtime.ll`) makes a fiber of each thread of a block; tensor cores and
asynchronous copies are in `simt_tensor.ll`. The order of threads and of blocks depends on a seed;
shared memory starts as bytes that no kernel expects. So a missing barrier shows as a wrong result,
a barrier that not all threads reach as an error; copies land when they are waited for, no sooner.

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
from tests.gpu import shadow

from ingot.gpu.compiler import CompiledKernel, Launch
from ingot.hlo.dim import evaluate
from ingot.llvm.binding import llvm
from ingot.llvm.jit import compile_object
from ingot.llvm.target import TargetSpec

RUNTIME = Path(__file__).with_name("simt_runtime.ll")
TENSOR = Path(__file__).with_name("simt_tensor.ll")

STACK_BYTES, MOST_THREADS = 1 << 16, 1024

BEHIND = b"\xa5" * 64
"""What lies behind every buffer, and must still lie there when the kernel has run."""

POISON = 0xFF
"""Bytes of shared memory before a block runs: NaN as floats, -1 as integers."""

_SHARED = re.compile(r"^@(\S+) = internal addrspace\(3\) global \[(\d+) x (\w+)\]", re.MULTILINE)
_KERNEL = re.compile(r"^define ptx_kernel void @(\S+?)\(((?:[^()]|\(\d\))*)\)", re.MULTILINE)
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "i128": 16}


class StuckError(Exception):
    """A barrier that some threads of a block never reach."""


class RaceError(Exception):
    """Two threads use the same memory, one of them writes, and no barrier is in between."""


class EmulatedModule:
    """The kernels of a module, which run on this CPU."""

    def __init__(self, llvm_ir: str, *, checks_races: bool = False) -> None:
        """Compile the module for this CPU; with checks, launches look for races."""
        self._checks_races = checks_races
        if checks_races:
            llvm_ir = shadow.instrumented(llvm_ir)
        self.parameters = {name: len(_types(given)) for name, given in _KERNEL.findall(llvm_ir)}
        self._engine = _compiled(llvm_ir, checks_races=checks_races)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int32,
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
            ctypes.c_int32,
        )
        self._run_block = kind(self._engine.get_function_address("run_block"))

    def launch(
        self,
        symbol: str,
        arguments: Sequence[int],
        grid: tuple[int, int],
        choose: np.random.Generator,
    ) -> None:
        """Run a kernel, blocks and threads in some order.

        Args:
            symbol: the kernel.
            arguments: addresses and numbers, one for each of its parameters.
            grid: blocks, and threads of each.
            choose: says the order.

        Raises:
            StuckError: a block waits at a barrier for ever.
            RaceError: the kernel has a race.
        """
        assert len(arguments) == self.parameters[symbol], symbol
        blocks, threads = grid
        self._word("simt_entry").value = self._engine.get_function_address(f"simt_run_{symbol}")
        self._word("simt_fill").value = self._engine.get_function_address(f"simt_poison_{symbol}")
        place = self._engine.get_global_value_address("simt_arguments")
        (ctypes.c_int64 * max(1, len(arguments))).from_address(place)[:] = [*arguments] or [0]
        if self._checks_races:
            self._begin_launch()
        for block in choose.permutation(blocks):
            order = choose.permutation(threads).astype(np.int32)
            stacks = _stacks()
            if self._run_block(threads, stacks, STACK_BYTES, order.ctypes.data, int(block)):
                raise StuckError(f"{symbol}: block {block} waits at a barrier for ever")
        if self._checks_races:
            self._require_no_race(symbol)

    def _begin_launch(self) -> None:
        begin = self._engine.get_function_address("shadow_launch")
        kinds = [*[ctypes.c_void_p] * 4, ctypes.c_int64]
        memory = [held.ctypes.data for held in shadow.room()]
        ctypes.CFUNCTYPE(None, *kinds)(begin)(*memory, next(shadow.numbers))

    def _require_no_race(self, symbol: str) -> None:
        place = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._engine.get_function_address("shadow_state"))
        found = shadow.State.c_layout.structure.from_address(place())
        if found.races:
            threads = [divmod(each - 1, shadow.THREADS) for each in (found.before, found.after)]
            raise RaceError(
                f"{symbol}: {found.races} races, the first of (block, thread) {threads[0]} and "
                f"{threads[1]} at {found.place:#x}"
            )

    def _word(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self._engine.get_global_value_address(name))


class Emulation:
    """A kernel that runs on this CPU."""

    def __init__(
        self,
        compiled: CompiledKernel,
        llvm_ir: str | None = None,
        *,
        checks_races: bool = False,
    ) -> None:
        """Compile `compiled`, or other IR in its place (with a bug), for this CPU."""
        self.kernel = compiled.kernel
        text = compiled.llvm_ir if llvm_ir is None else llvm_ir
        self._module = EmulatedModule(text, checks_races=checks_races)

    def run(
        self,
        buffers: Sequence[np.ndarray],
        sizes: Mapping[str, int],
        seed: int,
        *,
        shift: int = 0,
    ) -> list[np.ndarray]:
        """Return the contents of all buffers after the kernel, blocks and threads in some order.

        Buffers begin `shift` bytes behind an aligned address.
        """
        choose = np.random.default_rng(seed)
        kernel = self.kernel
        scratch = [
            np.full(evaluate(each.size, sizes) * each.dtype.numpy.itemsize, POISON, np.uint8)
            for each in kernel.scratch
        ]
        memory = [_placed(held.tobytes() + BEHIND, shift) for held in (*buffers, *scratch)]
        values = [held.ctypes.data for held in memory]
        values += [sizes[name] for name in kernel.sizes]
        for launch in kernel.launches:
            grid = evaluate(launch.blocks, sizes), launch.threads
            for width in widths_of(launch, sizes):
                self._module.launch(launch.symbol, [*values, *width], grid, choose)
        assert all(held[-64:].tobytes() == BEHIND for held in memory), "written behind an end"
        return [
            held[:-64].view(given.dtype).reshape(given.shape)
            for held, given in zip(memory, buffers, strict=False)
        ]


def _placed(content: bytes, shift: int) -> np.ndarray:
    """Return bytes in memory of their own, `shift` bytes behind a multiple of 64."""
    room = np.zeros(len(content) + 64 + shift, np.uint8)
    start = -room.ctypes.data % 64 + shift
    held = room[start : start + len(content)]
    held[:] = np.frombuffer(content, np.uint8)
    return held


def widths_of(launch: Launch, sizes: Mapping[str, int]) -> list[list[int]]:
    """Return the last parameters of each launch: a width, or nothing for one launch."""
    if launch.widths is None:
        return [[]]
    end, found = evaluate(launch.widths.end, sizes), []
    width = launch.widths.first
    while width < end:
        found.append([width])
        width *= 2
    return found


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


def _compiled(text: str, *, checks_races: bool) -> Any:
    machine = _machine()
    module = _parsed(emulated_ir(text), machine)
    parts = [_around(text, checks_races=checks_races)]
    if checks_races:
        parts.append(shadow.functions_text())
    for part in parts:
        module.link_in(_parsed(part, machine))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(_runtime()))
    engine.finalize_object()
    return engine


@cache
def _runtime() -> bytes:
    """Return the object of the runtime: the same beside each module's kernels."""
    machine = _machine()
    module = _parsed(RUNTIME.read_text(), machine)
    module.link_in(_parsed(TENSOR.read_text(), machine))
    return machine.emit_object(module)


def _machine() -> Any:
    host = TargetSpec.host()
    compile_object("", host)  # LLVM is set up by the first compilation.
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(cpu=host.cpu, features=host.features, opt=1, jit=True)


def _parsed(text: str, machine: Any) -> Any:
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = TargetSpec.host().triple, str(machine.target_data)
    return module


def _types(parameters: str) -> list[str]:
    """Return the types of a kernel's parameters."""
    found = [each.strip() for each in parameters.split(",") if each.strip()]
    return [each.partition(" %")[0] for each in found]


def _around(text: str, *, checks_races: bool) -> str:
    """Return the calls of the kernels, and what fills their shared memory."""
    kernels = {name: _types(given) for name, given in _KERNEL.findall(text)}
    most = max(map(len, kernels.values()), default=0)
    arrays = [(name, int(count) * _BYTES[item]) for name, count, item in _SHARED.findall(text)]
    lines = [
        f"@simt_arguments = global [{max(1, most)} x i64] zeroinitializer",
        "declare void @llvm.memset.p3.i64(ptr addrspace(3), i8, i64, i1)",
        "declare void @shadow_begin()" if checks_races else "",
        *(f"@{name} = external addrspace(3) global [{size} x i8]" for name, size in arrays),
    ]
    for symbol, types in kernels.items():
        lines.append(f"declare void @{symbol}({', '.join(types)})")
        lines.append(f"define void @simt_poison_{symbol}() {{")
        if checks_races:
            lines.append("  call void @shadow_begin()")
        lines += [
            f"  call void @llvm.memset.p3.i64(ptr addrspace(3) @{name}, i8 {POISON}, i64 {size}, "
            "i1 0)"
            for name, size in arrays
            if name.startswith(f"{symbol}_shared")
        ]
        lines += ["  ret void", "}", f"define void @simt_run_{symbol}() noinline {{"]
        for number, type in enumerate(types):
            lines.append(f"  %p{number} = getelementptr i64, ptr @simt_arguments, i32 {number}")
            lines.append(f"  %a{number} = load {type}, ptr %p{number}")
        given = ", ".join(f"{type} %a{number}" for number, type in enumerate(types))
        lines += [f"  call void @{symbol}({given})", "  ret void", "}"]
    return "\n".join(lines)
