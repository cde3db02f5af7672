# SPDX-License-Identifier: Apache-2.0
"""Values of leaves through views, loops and branches; in-place rules."""

from __future__ import annotations

import pytest

from ingot.analysis.aliasing import analyze
from ingot.analysis.in_place import in_place_operands, may_share_operand
from ingot.analysis.liveness import analyze_liveness
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError

VECTOR = Shape.array("f32", (8,))
COUNTER = Shape.array("s32", ())
STATE = Shape.tuple((COUNTER, VECTOR, VECTOR))


def loop() -> tuple[Module, Instruction, Instruction]:
    """Return a loop that counts, negates element 1 and keeps element 2; and the initial x."""
    f = Builder("body")
    i, x, y = _elements(f, f.parameter(0, STATE))
    body = f.build(f.tuple(f.add(i, f.constant(1, "s32")), f.negate(x), y))
    g = Builder("condition")
    i = _elements(g, g.parameter(0, STATE))[0]
    condition = g.build(g.compare(i, g.constant(3, "s32"), direction="LT"))
    b = Builder("main")
    x = b.parameter(0, VECTOR)
    made = b.while_(b.tuple(b.constant(0, "s32"), b.abs(x), x), condition=condition, body=body)
    return Module.of("loop", b.build(made)), made, x


def _elements(b: Builder, value: Instruction) -> list[Instruction]:
    return [b.get_tuple_element(value, index=n) for n in range(len(value.shape.elements))]


def test_views_make_no_values() -> None:
    b = Builder("main")
    x = b.parameter(0, VECTOR)
    shaped = b.reshape_to(x, (2, 4))
    both = b.opt_barrier(b.tuple(shaped, b.negate(x)))
    root = b.get_tuple_element(both, index=0)
    found = analyze(Module.of("m", b.build(root)))
    assert found.value(root) is found.value(x)
    assert len(found.values) == 2


def test_a_loop_element_that_does_not_change_is_the_initial_value() -> None:
    module, made, x = loop()
    found = analyze(module)
    assert found.value(made, (2,)) is found.value(x)
    body: Computation = made.attributes.body
    assert found.value(body.parameters[0], (2,)) is found.value(x)
    assert [path for path, _, _ in found.states[made]] == [(0,), (1,)]


def test_sources_go_through_loops() -> None:
    module, made, _ = loop()
    sources = analyze(module).sources(made, (1,))
    assert sorted(value.instruction.opcode for value in sources) == ["abs", "negate"]


def test_a_shared_body_is_refused() -> None:
    module, made, _ = loop()
    b = Builder(module.entry)
    again = b.while_(
        made.operands[0], condition=made.attributes.condition, body=made.attributes.body
    )
    module.entry.set_root(again)
    with pytest.raises(InternalError, match="flatten-call-graph"):
        analyze(module)


def test_a_state_is_live_through_the_condition_and_a_hole_follows() -> None:
    module, made, _ = loop()
    module.schedule = {c: c.post_order() for c in module.post_order()}
    found = analyze_liveness(module)
    (_, (_, state, result)) = found.aliasing.states[made]
    condition, body = made.attributes.condition, made.attributes.body
    ((first, last),) = found.segments[state]
    assert first == 2 * found.position[made] + 1
    negate = next(i for i in body.instructions if i.opcode == "negate")
    # The negation may be written over the state as it is read.
    assert last == 2 * found.position[negate]
    assert last > 2 * found.regions[condition].end
    assert found.segments[result][0][0] == 2 * found.after[made] + 1


def test_a_fused_update_is_in_place_only_alone() -> None:
    def fused(*, read: bool) -> Instruction:
        f = Builder("fused")
        x, i = f.parameter(0, VECTOR), f.parameter(1, COUNTER)
        part = f.slice(x if read else f.parameter(2, VECTOR), slice=((0, 2, 1),))
        calls = f.build(f.dynamic_update_slice(x, part, i))
        b = Builder("main")
        operands = [b.parameter(n, p.shape) for n, p in enumerate(calls.parameters)]
        return b.fusion(*operands, kind="kLoop", calls=calls)

    assert in_place_operands(fused(read=False)) == {(): 0}
    assert in_place_operands(fused(read=True)) == {}


def test_what_may_share() -> None:
    f = Builder("fused")
    x, y = f.parameter(0, VECTOR), f.parameter(1, VECTOR)
    calls = f.build(f.tuple(f.negate(x), f.add(x, f.reverse(y, dimensions=(0,)))))
    b = Builder("main")
    fusion = b.fusion(b.parameter(0, VECTOR), b.parameter(1, VECTOR), kind="kLoop", calls=calls)
    assert may_share_operand(fusion, 0)
    assert not may_share_operand(fusion, 1)
    g = Builder("sum")
    x = g.parameter(0, VECTOR)
    total = g.reduce(
        x, g.constant(0.0, "f32"), dimensions=(0,), to_apply=scalar_computation("add", "f32")
    )
    calls = g.build(g.add(x, g.broadcast_to(total, (8,))))
    assert not may_share_operand(b.fusion(b.parameter(2, VECTOR), kind="kInput", calls=calls), 0)
