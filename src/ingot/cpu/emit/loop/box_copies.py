# SPDX-License-Identifier: Apache-2.0
"""Copies of boxes as library code: `void copy_boxes(ptr env, i64 chunk)` for any table of boxes.

`kernel.generic.box_copies` says what the table holds and what rounds are. A chunk goes through its
rounds, a round through its part of every box, a run at a time, filled or copied in vectors. Env is
the first buffer, scratch, the table's address, boxes, rounds, rounds of a chunk, then all buffers.

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
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record

SYMBOL, TABLE = "copy_boxes", "boxes"
BYTES = MIN_BITS // 8
VECTOR = vector(lt.I8, BYTES)

TOGETHER = 4
"""Vectors of a long run that are moved together."""

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

        def shared(values: str) -> Value:
            first = f.gep(row, Box.NAMES.index(f"{values}_0") * SLOT_BYTES)
            return f.load(lt.I64, f.gep(first, given["shared"], lt.I64), SLOT_BYTES)

        count = shared("count")
        low = f.udiv(f.mul(count, part), rounds)
        high = f.udiv(f.mul(count, f.add(part, f.const(lt.I64, 1))), rounds)
        for end in ("from", "to"):
            given[end] = f.add(given[end], f.mul(low, shared(end)))
        for axis in range(OUTER):
            is_shared = f.icmp("eq", given["shared"], f.const(lt.I64, axis))
            whole = given[f"count_{axis}"]
            given[f"count_{axis}"] = f.select(is_shared, f.sub(high, low), whole)
        f.if_(f.icmp("slt", low, high), _Box(f, given, buffers).emit)

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
    """Emits the part of a box that a round takes."""

    f: FunctionBuilder
    given: dict[str, Value]
    buffers: Value

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
            self._in_vectors(source, target, self._read)

        f.if_(f.icmp("slt", given["source"], f.const(lt.I64, 0)), fill, copy)

    def _read(self, source: Value, mask: Value | None) -> Value:
        """Read a vector, or the bytes of it where a mask holds."""
        return self.f.masked_load(VECTOR, source, mask, align=1)

    def _in_vectors(self, source: Value, target: Value, read: Read) -> None:
        """Move runs in vectors: the last one ends with the run; short runs are masked.

        Behind the first vector, stores are aligned, as those of memmove, which is slower on CPUs
        where it moves a long run by one instruction: boxes of 1 to 64 KB took 1.3 to 2 times as
        long by it (AMD EPYC, one thread, 2026-11-30).
        """
        f, run = self.f, self.given["run"]
        last = f.sub(run, f.const(lt.I64, BYTES))
        zero = f.const(lt.I64, 0)

        def whole(source: Value, to: Value) -> None:
            def vectors_at(at: Value, count: int) -> None:
                starts = [f.add(at, f.const(lt.I64, BYTES * number)) for number in range(count)]
                values = [read(f.gep(source, start), None) for start in starts]
                for value, start in zip(values, starts, strict=True):
                    f.store(value, f.gep(to, start), 1)

            vectors_at(zero, 1)
            skew = f.and_(f.ptrtoint(to, lt.I64), f.const(lt.I64, BYTES - 1))
            first = f.sub(f.const(lt.I64, BYTES), skew)
            rest = f.intrinsic("llvm.smax", lt.I64, [f.sub(last, first), zero])
            end = f.add(first, f.and_(rest, f.const(lt.I64, -BYTES * TOGETHER)))
            f.for_range(
                end, lambda at: vectors_at(at, TOGETHER), start=first, step=BYTES * TOGETHER
            )
            f.for_range(last, lambda at: vectors_at(at, 1), start=end, step=BYTES)
            vectors_at(last, 1)

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
        f, given = self.f, self.given

        def loops(axis: int, at: list[Value]) -> None:
            if axis == OUTER:
                move(*at)
                return

            def inner(_: Value, here: list[Value]) -> list[Value]:
                loops(axis + 1, here)
                steps = (given[f"from_{axis}"], given[f"to_{axis}"])
                return [f.gep(address, step) for address, step in zip(here, steps, strict=True)]

            f.loop(0, given[f"count_{axis}"], 1, at, inner)

        loops(0, [source, target])
