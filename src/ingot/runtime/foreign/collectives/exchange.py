# SPDX-License-Identifier: Apache-2.0
"""The emitted exchange: give one operand to some devices, take the operands of some.

Every collective that moves bytes is this function with another table: whom to give to, whom to take
from, and which part of a dimension of theirs lands where in the result. Devices copy side by side,
each its own result.

Invariant: a device that returns, done or failed, has no data that another one still reads.

Status: 0 done; the rest is in `STATUS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.native.layout import Field, Record
from ingot.runtime.foreign.collectives.rendezvous import BOX, RENDEZVOUS, SLICE_NANOSECONDS
from ingot.runtime.records import CALL_FRAME, RUNTIME
from ingot.runtime.sync import emit_futex_wait, emit_futex_wake, emit_pause, emit_wait_step

SITE = Record(
    "IngotExchange",
    Field("key", "i64", note="which call of the program this is"),
    Field("devices", "i64", note="devices that the tables are for"),
    Field("rank", "i64", note="dimensions of the operand"),
    Field("along", "i64", note="the dimension that is divided or grows"),
    Field("element_bytes", "i64"),
    Field("is_split", "i64", note="1: each device takes its part of the operand"),
    Field("targets", "ptr", note="i64[devices + 1]: where each device's begin in `given`"),
    Field("given", "ptr", note="i64[]: devices to give to"),
    Field("sources", "ptr", note="i64[devices + 1]: where each device's begin in `taken`"),
    Field("taken", "ptr", note="i64[]: devices to take from, in the order of the result"),
    Field("places", "ptr", note="i64[devices]: which part of the others' operands is whose"),
)

OTHER_FAILED, TIMEOUT, MISMATCH, ALONE, OTHER_GRID = 1, 2, 3, 4, 5
STATUS = {
    OTHER_FAILED: "another device failed",
    TIMEOUT: "waited for another device in vain: every device of a group must run the same "
    "collectives in the same order (INGOT_COLLECTIVE_TIMEOUT is how long to wait)",
    MISMATCH: "another device of the group is at another collective",
    ALONE: "the program is for several devices: run it with Executable.execute_replicated",
    OTHER_GRID: "the program was compiled for another number of devices: its module's header says "
    "replica_count and num_partitions",
}
_SPINS = 200


def exchange_module() -> ModuleBuilder:
    """Return the module that defines `ingot_exchange`."""
    module = ModuleBuilder("ingot_collectives")
    wait = _emit_wait(module)
    parameters = [("frame", PTR), ("site", PTR), ("status", I32)]
    f = module.function("ingot_retreat", I32, parameters, linkage="internal")
    _Exchange(f, wait, f.reference).emit_retreat(f.params[2])
    retreat = f.reference
    f = module.function("ingot_exchange", I32, parameters[:2])
    _Exchange(f, wait, retreat).emit()
    return module


def _emit_wait(module: ModuleBuilder) -> FunctionRef:
    """`i32 (ptr rendezvous, ptr address, i32 value)`: wait while the i32 there is `value`."""
    names = [("rendezvous", PTR), ("address", PTR), ("value", I32)]
    f = module.function("wait_while", I32, names, linkage="internal")
    rendezvous, address, value = f.params
    limit = f.alloca(I64, 2, 8)
    f.store(f.const(I64, 0), limit, 8)
    f.store(f.const(I64, SLICE_NANOSECONDS), f.gep(limit, 8), 8)
    patience = f.add(RENDEZVOUS.load(f, rendezvous, "patience"), f.const(I64, _SPINS))
    failed = RENDEZVOUS.address(f, rendezvous, "failed")

    def unchanged(_: list[Value]) -> Value:
        return f.icmp("eq", f.atomic_load(I32, address), value)

    def step(values: list[Value]) -> list[Value]:
        stop = f.icmp("ne", f.atomic_load(I32, failed), f.const(I32, 0))
        f.if_(stop, lambda: f.ret(f.const(I32, OTHER_FAILED)), likely=False)

        def give_up() -> None:
            f.atomic_store(f.const(I32, 1), failed)
            f.ret(f.const(I32, TIMEOUT))

        f.if_(f.icmp("sgt", values[0], patience), give_up, likely=False)
        f.if_(
            f.icmp("slt", values[0], f.const(I64, _SPINS)),
            lambda: emit_pause(f),
            lambda: emit_futex_wait(f, address, value, limit),
        )
        return [f.add(values[0], f.const(I64, 1))]

    f.while_([f.const(I64, 0)], unchanged, step)
    f.ret(f.const(I32, 0))
    return f.reference


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes: of a part, of a step over both sides, of a part's place in the operand; and steps."""

    outer: Value
    part: Value
    source_step: Value
    source_start: Value
    target_step: Value


class _Exchange:
    """The function under construction."""

    def __init__(self, f: FunctionBuilder, wait: FunctionRef, retreat: FunctionRef) -> None:
        self.f = f
        self.wait = wait
        self.retreat = retreat
        self.frame, self.site = f.params[:2]
        runtime = CALL_FRAME.load(f, self.frame, "runtime")
        self.rendezvous = RUNTIME.load(f, runtime, "rendezvous")
        self._check()
        partitions = RENDEZVOUS.load(f, self.rendezvous, "partitions")
        replica = RUNTIME.load(f, runtime, "replica")
        self.device = f.add(f.mul(replica, partitions), RUNTIME.load(f, runtime, "partition"))
        self.source = self._argument("operands")
        self.target = self._argument("results")

    def emit(self) -> None:
        f = self.f
        self._for_each("targets", "given", lambda _, other: self._give(other))
        first, last = self._range("sources")
        sizes = self._sizes(f.sub(last, first))
        nobody = f.icmp("eq", first, last)
        f.if_(nobody, lambda: f.memset(self.target, 0, f.mul(sizes.outer, sizes.source_step)))

        def take(place: Value, other: Value) -> None:
            start = f.mul(f.sub(place, first), sizes.part)
            f.if_(
                f.icmp("eq", other, self.device),
                lambda: self._copy(self.source, start, sizes),
                lambda: self._take(other, start, sizes),
            )

        self._for_each("sources", "taken", take)
        self._for_each("targets", "given", lambda _, other: self._wait_until_taken(other))
        f.ret(f.const(I32, 0))

    def emit_retreat(self, status: Value) -> None:
        """Write the function for a device that fails with `status`: everybody shall know first."""
        f = self.f
        failed = RENDEZVOUS.address(f, self.rendezvous, "failed")
        f.atomicrmw("xchg", failed, f.const(I32, 1), "seq_cst")

        def wait_for_reader(_: Value, other: Value) -> None:
            reading = BOX.address(f, self._box(self.device, other), "reading")

            def is_read(_: list[Value]) -> Value:
                return f.icmp("ne", f.atomic_load(I32, reading, "seq_cst"), f.const(I32, 0))

            f.while_([f.const(I64, 0)], is_read, lambda count: [emit_wait_step(f, count[0])])

        self._for_each("targets", "given", wait_for_reader)
        f.ret(status)

    def _fail(self, status: Value) -> None:
        f = self.f
        f.ret(f.call(self.retreat, [self.frame, self.site, status]))

    def _check(self) -> None:
        f = self.f
        alone = f.icmp("eq", self.rendezvous, zero(PTR))
        f.if_(alone, lambda: f.ret(f.const(I32, ALONE)), likely=False)
        devices = RENDEZVOUS.load(f, self.rendezvous, "devices")
        other = f.icmp("ne", devices, SITE.load(f, self.site, "devices"))
        f.if_(other, lambda: f.ret(f.const(I32, OTHER_GRID)), likely=False)

    def _argument(self, name: str) -> Value:
        return self.f.load(PTR, CALL_FRAME.load(self.f, self.frame, name))

    def _range(self, table: str) -> tuple[Value, Value]:
        f = self.f
        starts = f.gep(SITE.load(f, self.site, table), self.device, I64)
        return f.load(I64, starts), f.load(I64, f.gep(starts, 1, I64))

    def _for_each(self, table: str, items: str, body: Callable[[Value, Value], None]) -> None:
        """Run `body(place, device)` for each of this device's partners."""
        f = self.f
        listed = SITE.load(f, self.site, items)
        first, last = self._range(table)

        def one(place: Value, _: list[Value]) -> list[Value]:
            body(place, f.load(I64, f.gep(listed, place, I64)))
            return []

        f.loop(first, last, 1, [], one)

    def _box(self, giver: Value, taker: Value) -> Value:
        f = self.f
        boxes = RENDEZVOUS.address(f, self.rendezvous, "boxes")
        devices = RENDEZVOUS.load(f, self.rendezvous, "devices")
        return BOX.element(f, boxes, f.add(f.mul(giver, devices), taker))

    def _give(self, other: Value) -> None:
        f = self.f
        box = self._box(self.device, other)
        BOX.store(f, box, "data", self.source)
        BOX.store(f, box, "key", SITE.load(f, self.site, "key"))
        self._count_up(box, "published")

    def _count_up(self, box: Value, name: str) -> None:
        """Move a counter on, which this thread alone writes, and wake who waits for it."""
        f = self.f
        address = BOX.address(f, box, name)
        f.atomic_store(f.add(f.atomic_load(I32, address, "monotonic"), f.const(I32, 1)), address)
        emit_futex_wake(f, address, f.const(I32, 1))

    def _wait_while(self, address: Value, value: Value) -> None:
        f = self.f
        status = f.call(self.wait, [self.rendezvous, address, value])
        f.if_(f.icmp("ne", status, f.const(I32, 0)), lambda: self._fail(status), likely=False)

    def _take(self, other: Value, start: Value, sizes: _Sizes) -> None:
        f = self.f
        box = self._box(other, self.device)
        taken = f.atomic_load(I32, BOX.address(f, box, "taken"), "monotonic")
        self._wait_while(BOX.address(f, box, "published"), taken)
        same = f.icmp("eq", BOX.load(f, box, "key"), SITE.load(f, self.site, "key"))

        mismatch = f.const(I32, MISMATCH)
        f.if_(f.xor(same, f.as_condition(True)), lambda: self._fail(mismatch), likely=False)
        reading = BOX.address(f, box, "reading")
        f.atomicrmw("xchg", reading, f.const(I32, 1), "seq_cst")
        failed = RENDEZVOUS.address(f, self.rendezvous, "failed")
        gone = f.icmp("ne", f.atomic_load(I32, failed, "seq_cst"), f.const(I32, 0))

        def too_late() -> None:
            f.atomic_store(f.const(I32, 0), reading)
            self._fail(f.const(I32, OTHER_FAILED))

        f.if_(gone, too_late, likely=False)
        self._copy(BOX.load(f, box, "data"), start, sizes)
        f.atomic_store(f.const(I32, 0), reading)
        self._count_up(box, "taken")

    def _wait_until_taken(self, other: Value) -> None:
        f = self.f
        box = self._box(self.device, other)
        published = f.atomic_load(I32, BOX.address(f, box, "published"), "monotonic")
        before = f.sub(published, f.const(I32, 1))
        self._wait_while(BOX.address(f, box, "taken"), before)

    def _sizes(self, count: Value) -> _Sizes:
        """Emit the sizes of a copy, from the operand's dimensions and how many parts meet."""
        f, site = self.f, self.site
        dims = f.load(PTR, CALL_FRAME.load(f, self.frame, "operand_dims"))
        rank, along = SITE.load(f, site, "rank"), SITE.load(f, site, "along")
        one = f.const(I64, 1)

        def product(first: Value, last: Value) -> Value:
            def step(place: Value, values: list[Value]) -> list[Value]:
                return [f.mul(values[0], f.load(I64, f.gep(dims, place, I64)))]

            return f.loop(first, last, 1, [one], step)[0]

        outer = product(f.const(I64, 0), along)
        whole = f.mul(product(along, rank), SITE.load(f, site, "element_bytes"))
        is_split = f.icmp("ne", SITE.load(f, site, "is_split"), f.const(I64, 0))
        # A device that takes nothing has no parts to divide by.
        parts = f.select(f.icmp("sgt", count, one), count, one)
        part = f.select(is_split, f.sdiv(whole, parts), whole)
        place = f.load(I64, f.gep(SITE.load(f, site, "places"), self.device, I64))
        start = f.select(is_split, f.mul(place, part), f.const(I64, 0))
        return _Sizes(outer, part, whole, start, f.mul(part, parts))

    def _copy(self, data: Value, start: Value, sizes: _Sizes) -> None:
        """Copy this device's part of `data` to byte `start` of each step of the result."""
        f = self.f
        source = f.gep(data, sizes.source_start)
        target = f.gep(self.target, start)

        def step(number: Value, _: list[Value]) -> list[Value]:
            f.memcpy(
                f.gep(target, f.mul(number, sizes.target_step)),
                f.gep(source, f.mul(number, sizes.source_step)),
                sizes.part,
            )
            return []

        f.loop(f.const(I64, 0), sizes.outer, 1, [], step)
