# SPDX-License-Identifier: Apache-2.0
"""Schedules: valid, small in memory, and kind to in-place updates."""

from __future__ import annotations

import pytest
from tests.passes.buffers.random_control_flow import shuffling_module

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.schedule.scheduler import memory_scheduler


def scheduled(module: Module) -> list[Instruction]:
    memory_scheduler.run(module, PassContext())
    return module.schedule[module.entry]


def flat_schedule(module: Module) -> list[Instruction]:
    return [i for order in module.schedule.values() for i in order]


@pytest.mark.parametrize("seed", range(30))
def test_every_instruction_comes_after_what_it_needs(seed: int) -> None:
    module, _ = shuffling_module(seed)
    scheduled(module)
    for computation, order in module.schedule.items():
        place = {instruction: number for number, instruction in enumerate(order)}
        assert place.keys() == set(computation.instructions)
        for instruction in order:
            assert all(place[operand] < place[instruction] for operand in instruction.operands)


def test_an_update_waits_for_other_readers() -> None:
    b = Builder("main")
    x, i = b.negate(b.parameter(0, "f32[8]")), b.parameter(1, "s32[]")
    update = b.dynamic_update_slice(x, b.parameter(2, "f32[2]"), i)
    reader = b.reverse(x, dimensions=(0,))
    order = scheduled(Module.of("m", b.build(b.tuple(update, reader))))
    assert order.index(reader) < order.index(update)


def test_large_values_are_freed_early() -> None:
    """Each of four large values shrinks before the next one is made."""
    b = Builder("main")
    x = b.parameter(0, "f32[1]")
    large = [b.broadcast_to(b.reshape_to(x, ()), (1000 + n,)) for n in range(4)]
    small = [b.slice(value, slice=((0, 1, 1),)) for value in large]
    order = scheduled(Module.of("m", b.build(b.tuple(*small))))
    places = [order.index(s) - order.index(v) for v, s in zip(large, small, strict=True)]
    assert places == [1, 1, 1, 1]


def test_control_predecessors_come_first() -> None:
    b = Builder("main")
    x = b.parameter(0, "f32[8]")
    first, second = b.negate(x), b.abs(x)
    first.run_after((second,))
    order = scheduled(Module.of("m", b.build(b.tuple(first, second))))
    assert order.index(second) < order.index(first)


def test_side_effects_keep_their_order() -> None:
    b = Builder("main")
    x = b.parameter(0, "f32[8]")
    calls = [
        b.custom_call(
            x, shape="f32[8]", custom_call_target=f"t{n}", custom_call_has_side_effect=True
        )
        for n in range(5)
    ]
    order = scheduled(Module.of("m", b.build(b.tuple(*calls[::-1]))))
    assert [i for i in order if i.opcode == "custom-call"] == calls


def test_scheduling_again_changes_nothing() -> None:
    module, _ = shuffling_module(3)
    scheduled(module)
    before = flat_schedule(module)
    assert not memory_scheduler.run(module, PassContext())
    assert flat_schedule(module) == before
