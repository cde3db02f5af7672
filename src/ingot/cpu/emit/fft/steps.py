# SPDX-License-Identifier: Apache-2.0
"""The steps of an FFT's blocks as LLVM functions of every size: what `kernel.fft.steps.Code` says.

A step is `void step(ptr tiles, ptr source, ptr target, i64 lane, i64 left, ptr arguments)`: `tiles`
are those of the chunk, `source` and `target` where the block's first sequence lies in memory,
`lane` its number among those side by side, `left` how many lanes have a sequence. The driver
(`stages`) calls one after the other.

Invariant: a sequence's result does not depend on which lane or thread works on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ingot.artifact.abi import SLOT_BYTES
from ingot.cpu.emit.fft.fold_stage import (
    emit_sequence_fold,
    extend_tile,
    pack_tile,
    unpack_rows,
    unpack_tile,
)
from ingot.cpu.emit.fft.register_rows import RegisterRows
from ingot.cpu.emit.fft.sides import Columns, Grid, HalfColumns, Rows, Tile
from ingot.emit.fft.butterflies import Complex, ComplexMath, butterfly
from ingot.emit.values.indices import IndexValue
from ingot.kernel.fft.steps import Code
from ingot.llvm import types as lt
from ingot.llvm.builder import ALIGNED_STACK, FunctionBuilder, ModuleBuilder
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record

SIGNATURE = (
    *(("tiles", lt.PTR), ("source", lt.PTR), ("target", lt.PTR)),
    *(("lane", lt.I64), ("left", lt.I64), ("arguments", lt.PTR)),
)

_POINTERS = frozenset({"table", "low", "high"})

Loader = Callable[[IndexValue], Complex]
Storer = Callable[[IndexValue, Complex], None]


def emit_step(module: ModuleBuilder, symbol: str, code: Code, type: Type, fma: bool) -> None:
    """Emit the function of a step of every size.

    Args:
        module: where to.
        symbol: its name.
        code: what the step does.
        type: the vectors of real, and of imaginary parts: a lane for each sequence of a block.
        fma: whether the target fuses multiplication and addition.
    """
    # Vectors that are spilled to a stack that is not aligned cross cache lines.
    f = module.function(symbol, lt.VOID, SIGNATURE, attrs=f"nounwind {ALIGNED_STACK}")
    tiles, source, target, lane, left, arguments = f.params
    names = code.arguments

    def argument(name: str) -> Value:
        at = f.gep(arguments, names.index(name) * SLOT_BYTES)
        return f.load(lt.PTR if name in _POINTERS else lt.I64, at, 8, invariant=True)

    given = {name: argument(name) for name in names}
    step = _Step(ComplexMath(f, type, fma), code, given, tiles, source, target, lane, left)
    if {code.source, code.target} - {"tile", "rows", "sequence"}:
        is_whole = f.icmp("sge", left, f.const(lt.I64, type.lanes))
        f.if_(is_whole, lambda: step.emit(None), lambda: step.emit(step.mask()))
    else:
        step.emit(None)
    f.ret()


@record
class _Step:
    """Emits one step; `given` are its arguments."""

    m: ComplexMath
    code: Code
    given: dict[str, Value]
    tiles: Value
    source: Value
    target: Value
    lane: Value
    left: Value
    f: FunctionBuilder = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", self.m.f)

    def mask(self) -> Value:
        """Return which parts of a vector of pairs exist."""
        f, width = self.f, 2 * self.m.type.lanes
        left = f.shl(self.left, f.const(lt.I64, 1))
        numbers = f.const(vector(lt.I64, width), range(width))
        return f.icmp("slt", numbers, f.splat(left, width))

    def emit(self, mask: Value | None) -> None:
        """Emit the step for a block with such a mask."""
        kind, given = self.code.kind, self.given
        if kind in ("move", "real"):
            self._move()
        elif kind == "extend":
            extend_tile(self.m, given["count"], self._tile("to"))
        elif kind in ("pack", "unpack") and self.code.source == "sequence":
            emit_sequence_fold(self.m, kind == "pack", given, (self.source, self.target))
        elif kind in ("pack", "unpack"):
            self._fold()
        elif self.code.radix:
            self._transform(mask)
        else:
            self._times(self._loader(mask), self._storer(mask))

    def _fold(self) -> None:
        """Emit a fold of a tile."""
        given, source = self.given, self._tile("from")
        if self.code.target == "rows":
            rows = self._rows("target", self.target, self._factor())
            unpack_rows(self.m, given, source, rows, self._scratch(2 * rows.block))
        else:
            work = pack_tile if self.code.kind == "pack" else unpack_tile
            work(self.m, given["count"], given["table"], source, self._tile("to"))

    def _transform(self, mask: Value | None) -> None:
        """Emit a pass."""
        kind, code = self.code.kind, self.code
        if kind == "only" and code.source == "rows":
            self._in_registers()
        elif kind == "only":
            self._interleaved(self._loader(mask), self._storer(mask), 0, 1)
        elif kind == "pass":
            self._pass(self._tile("from").load, self._tile("to").store)
        elif kind == "first" and code.source == "rows":
            self._first_of_rows()
        elif kind == "first":
            self._first(self._loader(mask), self._tile("to").store)
        elif code.target == "rows":
            self._last_of_rows()
        else:
            self._last(self._loader(mask), self._storer(mask))

    # ---- sides

    def _tile(self, name: str) -> Tile:
        return Tile(self.m, self.f.gep(self.tiles, self.given[name]))

    def _loader(self, mask: Value | None) -> Loader:
        if self.code.source == "tile":
            return self._tile("from").load
        step, swaps = self.given["source_step"], self._swaps("source")
        columns = Columns(self.m, self.source, step, swaps, None, mask)
        if self.code.source == "real columns":
            return columns.load_real
        if self.code.source == "half columns":
            return self._half(columns, "source_width").load
        return columns.load

    def _storer(self, mask: Value | None) -> Storer:
        if self.code.target == "tile":
            return self._tile("to").store
        step, swaps = self.given["target_step"], self._swaps("target")
        columns = Columns(self.m, self.target, step, swaps, self._factor(), mask)
        if self.code.target == "columns":
            return columns.store
        if self.code.target == "real columns":
            return columns.store_real
        if self.code.target == "half columns":
            return self._half(columns, "target_width").store
        f = self.f
        block = f.as_value(f.idiv(self.lane, self.m.type.lanes))
        low, high = (
            Tile(self.m, f.gep(self.given[name], f.mul(block, self.given[f"{name}_bytes"])))
            for name in ("low", "high")
        )
        return Grid(columns, self.given["shift"], low, high).store

    def _half(self, columns: Columns, width: str) -> HalfColumns:
        given = self.given
        size = given["half"] if "half" in given else given["whole"]
        return HalfColumns(columns, self.lane, self.left, given[width], size)

    def _swaps(self, side: str) -> Value:
        f = self.f
        swaps = f.icmp("ne", self.given[f"{side}_swaps"], f.const(lt.I64, 0))
        return f.splat(swaps, self.m.type.lanes)

    def _factor(self) -> Value:
        """Return the factor, which is given as the bits of a double, in every lane."""
        f, scalar = self.f, self.m.type.element
        number = f.bitcast(self.given["factor"], lt.F64)
        return f.splat(number if scalar is lt.F64 else f.fptrunc(number, scalar), self.m.type.lanes)

    def _rows(self, side: str, base: Value, factor: Value | None) -> Rows:
        """Return the rows of a block; lanes beyond the last sequence repeat it."""
        f = self.f
        final = f.isub(self.left, 1)
        numbers = [f.imin(final, number) for number in range(self.m.type.lanes)]
        step = self.given[f"{side}_step"]
        starts = [f.gep(base, f.imul(number, step)) for number in numbers]
        return Rows(self.m, tuple(starts), self._swaps(side), factor)

    # ---- kinds

    def _in_registers(self) -> None:
        """Transform rows that registers hold."""
        if 2 * self.code.radix != self.m.type.lanes:
            self._in_register_rows()
            return
        block = self._rows("source", self.source, None).load_block(0)
        rows = self._rows("target", self.target, self._factor())
        rows.store_block(0, butterfly(self.m, block))

    def _in_register_rows(self) -> None:
        """Transform rows whose two dimensions both fit registers."""
        f, given = self.f, self.given
        steps = (given["source_step"], given["target_step"])

        def emit(swaps: bool) -> None:
            # Only the transform back has a factor.
            work = RegisterRows(self.m, self.code.radix, swaps, self._factor() if swaps else None)
            work.emit(self.source, self.target, steps, self.left)

        is_back = f.icmp("ne", given["source_swaps"], f.const(lt.I64, 0))
        f.if_(is_back, lambda: emit(True), lambda: emit(False))

    def _move(self) -> None:
        is_real, count = self.code.kind == "real", self.given["count"]
        if self.code.source == "rows":
            rows = self._rows("source", self.source, None)
            (rows.load_real if is_real else rows.load)(self._tile("to"), count)
        else:
            rows = self._rows("target", self.target, self._factor())
            (rows.store_real if is_real else rows.store)(self._tile("from"), count)

    def _first(self, load: Loader, store: Storer) -> None:
        """Take the radix off one sequence of `count` times the radix."""
        f, radix, count = self.f, self.code.radix, self.given["count"]

        def group(p: Value) -> None:
            results = self._butterfly(load, p, count)
            start = f.imul(p, radix)
            for j, result in enumerate(self._twiddled(results, self._twiddles(p))):
                store(f.iadd(start, j), result)

        f.for_range(count, group, at_least_once=True)

    def _scratch(self, count: int) -> Tile:
        """Return memory for `count` elements."""
        return Tile(self.m, self.f.alloca(self.m.type, 2 * count, self.m.type.bytes))

    def _blocks(self, count: Value, block: int, work: Callable[[Value, Value], None]) -> None:
        """Call `work` with where each block of `count` elements starts, and its first new element.

        The last block ends with the last element.
        """
        f = self.f
        final = f.isub(count, block)
        f.for_range(count, lambda p: work(f.as_value(f.imin(p, final)), p), step=block)

    def _first_of_rows(self) -> None:
        """Take the radix off rows, blocks of which are transposed just before."""
        f, m, radix, count = self.f, self.m, self.code.radix, self.given["count"]
        rows, target = self._rows("source", self.source, None), self._tile("to")
        block, scratch = rows.block, self._scratch(radix * rows.block)

        def work(start: Value, new: Value) -> None:
            def bring(k: Value) -> None:
                for e, value in enumerate(rows.load_block(f.iadd(start, f.imul(k, count)))):
                    scratch.store(f.iadd(f.imul(k, block), e), value)

            def one(p: Value) -> None:
                e = f.isub(p, start)
                results = butterfly(m, [scratch.load(f.iadd(e, k * block)) for k in range(radix)])
                for j, result in enumerate(self._twiddled(results, self._twiddles(p))):
                    target.store(f.iadd(f.imul(p, radix), j), result)

            f.for_range(f.const(lt.I64, radix), bring)
            f.for_range(f.add(start, f.const(lt.I64, block)), one, start=new)

        self._blocks(count, block, work)

    def _last_of_rows(self) -> None:
        """Transform interleaved sequences of the radix; blocks of results are transposed to rows.

        Scratch has the last elements of each result, whichever block they are new in.
        """
        f, radix, stride = self.f, self.code.radix, self.given["stride"]
        rows, source = self._rows("target", self.target, self._factor()), self._tile("from")
        block, scratch = rows.block, self._scratch(radix * rows.block)

        def at(q: IndexValue, j: IndexValue) -> IndexValue:
            return f.iadd(f.irem(q, block), f.imul(j, block))

        def work(start: Value, new: Value) -> None:
            def one(q: Value) -> None:
                for j, result in enumerate(self._butterfly(source.load, q, stride)):
                    scratch.store(at(q, j), result)

            def take(j: Value) -> None:
                values = [scratch.load(at(f.iadd(start, e), j)) for e in range(block)]
                rows.store_block(f.iadd(start, f.imul(j, stride)), values)

            f.for_range(f.add(start, f.const(lt.I64, block)), one, start=new)
            f.for_range(f.const(lt.I64, radix), take)

        self._blocks(stride, block, work)

    def _pass(self, load: Loader, store: Storer) -> None:
        """Take the radix off `stride` interleaved sequences of `count` times the radix."""
        f, radix = self.f, self.code.radix
        count, stride = self.given["count"], self.given["stride"]
        step = f.mul(count, stride)

        def group(p: Value) -> None:
            twiddles = self._twiddles(p)
            inside = f.mul(p, stride)

            def one(q: Value) -> None:
                results = self._butterfly(load, f.iadd(inside, q), step)
                start = f.iadd(f.imul(inside, radix), q)
                for j, result in enumerate(self._twiddled(results, twiddles)):
                    store(f.iadd(start, f.imul(stride, j)), result)

            f.for_range(stride, one, at_least_once=True)

        f.for_range(count, group, at_least_once=True)

    def _last(self, load: Loader, store: Storer) -> None:
        """Transform `stride` interleaved sequences of the radix."""
        stride = self.given["stride"]

        def one(q: Value) -> None:
            self._interleaved(load, store, q, stride)

        self.f.for_range(stride, one, at_least_once=True)

    def _interleaved(
        self, load: Loader, store: Storer, start: IndexValue, stride: IndexValue
    ) -> None:
        f = self.f
        for j, result in enumerate(self._butterfly(load, start, stride)):
            store(f.iadd(start, f.imul(stride, j)), result)

    def _twiddles(self, group: Value) -> list[Complex]:
        f, radix = self.f, self.code.radix
        first = f.imul(group, radix - 1)
        table = self.given["table"]
        return [self.m.constant(table, f.iadd(first, number)) for number in range(radix - 1)]

    def _twiddled(self, results: list[Complex], twiddles: list[Complex]) -> list[Complex]:
        return [results[0], *map(self.m.mul, results[1:], twiddles)]

    def _butterfly(self, load: Loader, start: IndexValue, step: IndexValue) -> list[Complex]:
        f = self.f
        indices = [f.iadd(start, f.imul(step, k)) for k in range(self.code.radix)]
        return butterfly(self.m, [load(index) for index in indices])

    def _times(self, load: Loader, store: Storer) -> None:
        """Multiply by a table, the conjugates by the conjugated table; fill up with zeros."""
        m, f = self.m, self.f
        conjugates = self.code.kind == "conjugate times"

        def one(k: Value) -> None:
            factor, value = m.constant(self.given["table"], k), load(k)
            store(k, m.mul(m.conj(value) if conjugates else value, factor))

        f.for_range(self.given["count"], one)
        if self.code.target == "tile":
            zero = m.zero()
            f.for_range(self.given["padded"], lambda k: store(k, zero), start=self.given["count"])
