# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes as library code: `void copy_boxes(ptr env, i64 chunk)` for any table of boxes.

`kernel.generic.box_copies` says what the table holds and what rounds are. A chunk goes through its
rounds, a round through its part of every box, a run at a time: filled, copied in vectors, or by the
C library if it is long. Env is the first buffer, scratch, the table's address, boxes, rounds,
rounds of a chunk, then all buffers.

Invariant: nothing is read or written outside of runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Phase
from ingot.cpu.emit.template import Template
from ingot.kernel.generic.box_copies import MIN_BITS, OUTER, Box, BoxCopies
from ingot.kernel.schedule.piece_loops import LONG_BYTES
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record

SYMBOL, TABLE = "copy_boxes", "boxes"
BYTES = MIN_BITS // 8
VECTOR = vector(lt.I8, BYTES)

FIRST_SYMBOL = 2
"""Slot behind the first buffer and the scratch."""

PARAMETERS = ("table", "boxes", "rounds", "grain")
"""Numbers of moves, in the order of their env."""

Move = Callable[[Value, Value], None]
"""Emits the code that moves one run, from address to address."""

Read = Callable[[Value, Value | None], Value]
"""Emits the code that gives a vector of a run: at an address, under a mask if there is one."""


def call_of(copies: BoxCopies, buffers: int) -> EmittedKernel:
    """Return how the host program calls the code for a kernel of `buffers` buffers."""
    table = np.array([box.parameters for box in copies.boxes], np.int64)
    name = f"{TABLE}_{hashlib.blake2b(table.tobytes(), digest_size=8).hexdigest()}"
    return EmittedKernel(
        (Phase(SYMBOL, copies.chunks),),
        1,
        BOX_COPIES.given(CodeSlot(name), len(copies.boxes), copies.rounds, copies.grain),
        order=(0,),
        behind=tuple(range(buffers)),
        tables={name: table},
    )


def _define(module: ModuleBuilder) -> None:
    params = [("env", lt.PTR), ("chunk", lt.I64)]
    f = module.function(SYMBOL, lt.VOID, params, attrs="nounwind")
    env, chunk = f.params
    table, boxes, rounds, grain = (
        _slot(f, env, FIRST_SYMBOL + number, type_)
        for number, type_ in enumerate((lt.PTR, lt.I64, lt.I64, lt.I64))
    )
    buffers = f.gep(env, (FIRST_SYMBOL + len(PARAMETERS)) * SLOT_BYTES)

    def box(number: Value, part: Value) -> None:
        row = f.gep(table, f.mul(number, f.const(lt.I64, len(Box.NAMES) * SLOT_BYTES)))
        given = {name: _slot(f, row, at, lt.I64) for at, name in enumerate(Box.NAMES)}
        count = given["count_0"]
        low = f.udiv(f.mul(count, part), rounds)
        high = f.udiv(f.mul(count, f.add(part, f.const(lt.I64, 1))), rounds)
        f.if_(f.icmp("slt", low, high), _Box(f, given, buffers, (low, high)).emit)

    def round_(part: Value) -> None:
        f.for_range(boxes, lambda number: box(number, part))

    first = f.mul(chunk, grain)
    f.for_range(f.add(first, grain), round_, start=first)
    f.ret()


BOX_COPIES = Template(SYMBOL, _define, PARAMETERS)
"""The function that moves boxes."""


def _slot(f: FunctionBuilder, base: Value, number: int, type_: Type) -> Value:
    return f.load(type_, f.gep(base, number * SLOT_BYTES), SLOT_BYTES)


@record
class _Box:
    """Emits one box, with the positions on its first axis that a round takes."""

    f: FunctionBuilder
    given: dict[str, Value]
    buffers: Value
    part: tuple[Value, Value]

    def emit(self) -> None:
        """Choose how its runs are moved."""
        f, given = self.f, self.given
        target = f.gep(self._buffer("result"), given["to"])

        def fill() -> None:
            pattern = f.splat(given["pattern"], BYTES // SLOT_BYTES)
            value = f.bitcast(pattern, VECTOR)

            def fixed(at: Value, mask: Value | None) -> Value:
                return value

            self._in_vectors(target, target, fixed)

        def copy() -> None:
            source = f.gep(self._buffer("source"), given["from"])
            is_long = f.icmp("sge", given["run"], f.const(lt.I64, LONG_BYTES))
            f.if_(
                is_long,
                lambda: self._runs(source, target, self._called),
                lambda: self._in_vectors(source, target, self._read),
            )

        f.if_(f.icmp("slt", given["source"], f.const(lt.I64, 0)), fill, copy)

    def _read(self, source: Value, mask: Value | None) -> Value:
        """Read a vector, or the bytes of it where a mask holds."""
        return self.f.masked_load(VECTOR, source, mask, align=1)

    def _called(self, source: Value, to: Value) -> None:
        """Have the C library copy a run."""
        move = self.f.module.declare("memmove", lt.PTR, [lt.PTR, lt.PTR, lt.I64])
        self.f.call(move, [to, source, self.given["run"]])

    def _in_vectors(self, source: Value, target: Value, read: Read) -> None:
        """Move runs in vectors: the last one ends with the run; short runs are masked."""
        f, run = self.f, self.given["run"]
        last = f.sub(run, f.const(lt.I64, BYTES))

        def whole(source: Value, to: Value) -> None:
            end = read(f.gep(source, last), None)

            def vector_at(at: Value) -> None:
                f.store(read(f.gep(source, at), None), f.gep(to, at), 1)

            f.for_range(last, vector_at, step=BYTES)
            f.store(end, f.gep(to, last), 1)

        def short() -> None:
            length = f.splat(f.trunc(run, lt.I8), BYTES)
            mask = f.icmp("slt", f.const(VECTOR, range(BYTES)), length)

            def part(source: Value, to: Value) -> None:
                f.masked_store(read(source, mask), to, mask, 1)

            self._runs(source, target, part)

        is_short = f.icmp("slt", last, f.const(lt.I64, 0))
        f.if_(is_short, short, lambda: self._runs(source, target, whole))

    def _buffer(self, name: str) -> Value:
        """Return the address of the buffer whose number is given."""
        # A slot has 8 bytes everywhere, a pointer of 32-bit WebAssembly four.
        slot = lt.I64 if self.f.module.architecture == "wasm" else lt.PTR
        return self.f.load(lt.PTR, self.f.gep(self.buffers, self.given[name], slot), SLOT_BYTES)

    def _runs(self, source: Value, target: Value, move: Move) -> None:
        """Emit the loops over the runs of the round."""
        f, given, (low, high) = self.f, self.given, self.part
        one, count = f.const(lt.I64, 1), f.sub(high, low)
        steps = [[given[f"from_{axis}"], given[f"to_{axis}"]] for axis in range(OUTER)]
        # A single axis is the innermost loop: the others would cost more than a short run.
        is_line = f.icmp("eq", f.mul(given["count_1"], given["count_2"]), one)
        counts = (
            f.select(is_line, one, count),
            given["count_1"],
            f.select(is_line, count, given["count_2"]),
        )
        steps[-1] = [f.select(is_line, *pair) for pair in zip(steps[0], steps[-1], strict=True)]

        def loops(axis: int, at: list[Value]) -> None:
            if axis == OUTER:
                move(*at)
                return

            def inner(_: Value, here: list[Value]) -> list[Value]:
                loops(axis + 1, here)
                return [f.gep(address, by) for address, by in zip(here, steps[axis], strict=True)]

            f.loop(0, counts[axis], 1, at, inner)

        loops(
            0,
            [f.gep(at, f.mul(low, by)) for at, by in zip((source, target), steps[0], strict=True)],
        )
