# SPDX-License-Identifier: Apache-2.0
"""The runner: order, fixed points, verification, dumps, fuel, properties, honesty of passes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest

from ingot.hlo.builder import Builder, shape_of
from ingot.hlo.module import Module
from ingot.hlo.rewrite.census import BOUNDED, EMPTY, Census, census
from ingot.hlo.rewrite.fingerprint import fingerprint
from ingot.hlo.rewrite.ordering import Order, check_order
from ingot.hlo.rewrite.pass_base import FixedPoint, Pass, PassContext, Pipeline, Stage
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError
from ingot.support.records import record


def negations(count: int) -> Module:
    b = Builder("main")
    value = b.parameter(0, "f32[4]")
    for _ in range(count):
        value = b.negate(value)
    return Module.of("m", b.build(value))


@record
class PeelOne(Pass):
    """Removes the outermost negation."""

    name: ClassVar[str] = "peel-one"

    def run(self, module: Module, context: PassContext) -> bool:
        root = module.entry.root
        if root.opcode != "negate":
            return False
        module.entry.replace(root, root.operands[0])
        return True


@record
class Liar(Pass):
    """Changes the module and denies it."""

    name: ClassVar[str] = "liar"

    def run(self, module: Module, context: PassContext) -> bool:
        PeelOne().run(module, context)
        return False


@record
class Breaker(Pass):
    """Leaves a wrong shape."""

    name: ClassVar[str] = "breaker"

    def run(self, module: Module, context: PassContext) -> bool:
        module.entry.set_shape(module.entry.root, Shape.array("f32", (5,)))
        return True


@record
class Flip(Pass):
    """Adds a negation: never at a fixed point."""

    name: ClassVar[str] = "flip"
    requires: ClassVar[frozenset[str]] = frozenset({"flippable"})

    def run(self, module: Module, context: PassContext) -> bool:
        entry = module.entry
        entry.set_root(entry.add("negate", (entry.root,)))
        return True


def test_fixed_point_runs_until_nothing_changes() -> None:
    module = negations(3)
    context = PassContext(debug=1)
    assert run_passes(FixedPoint("peel", (PeelOne(),)), module, context)
    assert len(module.entry) == 1
    assert [timing.changed for timing in context.timings] == [True, True, True, False]


def test_a_pass_that_breaks_the_module_is_named() -> None:
    context = PassContext(to_text=lambda module: f"TEXT OF {module.name}")
    with pytest.raises(InternalError) as raised:
        run_passes(Pipeline("p", (Breaker(),)), negations(1), context)
    found = raised.value.diagnostic
    assert (found.code, found.pass_name) == ("INGOT0910", "breaker")
    assert any("TEXT OF m" in note for note in found.notes)


def test_a_broken_module_is_found_after_the_last_pass() -> None:
    with pytest.raises(InternalError, match="INGOT_DEBUG=4") as raised:
        run_passes(Pipeline("p", (Breaker(),)), negations(1), PassContext(verify_each=False))
    assert raised.value.diagnostic.code == "INGOT0910"


def test_a_denied_change_is_found_in_debug_mode() -> None:
    assert not run_passes(Liar(), negations(1), PassContext())
    with pytest.raises(InternalError, match="denied") as raised:
        run_passes(Liar(), negations(1), PassContext(debug=1))
    assert raised.value.diagnostic.code == "INGOT0911"


def test_no_fixed_point_is_an_error_in_debug_mode() -> None:
    context = PassContext(properties={"flippable"})
    group = FixedPoint("flips", (Flip(),), limit=3)
    module = negations(0)
    assert run_passes(group, module, context)
    assert len(module.entry) == 4
    context.debug = 1
    with pytest.raises(InternalError, match="no fixed point"):
        run_passes(group, module, context)


def test_a_missing_property_is_an_error() -> None:
    with pytest.raises(InternalError, match="flippable"):
        run_passes(Flip(), negations(0), PassContext())


def test_fuel_and_disabled_passes() -> None:
    module = negations(5)
    run_passes(FixedPoint("peel", (PeelOne(),)), module, PassContext(pass_fuel=2))
    assert len(module.entry) == 4
    assert not run_passes(PeelOne(), module, PassContext(disabled=frozenset({"peel-one"})))


def test_dumps_before_and_after_changes() -> None:
    stages: list[str] = []

    def dump(stage: Stage, module: object) -> None:
        assert isinstance(module, Module)
        stages.append(f"{stage} {len(module.entry)}")

    run_passes(Pipeline("p", (PeelOne(), PeelOne())), negations(1), PassContext(dump=dump))
    assert stages == ["0000.p.start.before_peel-one 2", "0001.p.after_peel-one 1"]


def test_fingerprint_sees_structure_and_not_names() -> None:
    assert fingerprint(negations(2)) == fingerprint(negations(2))
    assert fingerprint(negations(2)) != fingerprint(negations(3))
    module = negations(2)
    before = fingerprint(module)
    module.entry.root.name = "other"
    assert fingerprint(module) == before


def test_a_wrong_order_is_found_with_its_reason() -> None:
    group = Pipeline("p", (PeelOne(), FixedPoint("q", (Liar(),))))
    check_order(group, (Order("peel-one", "liar", "so"),))
    with pytest.raises(InternalError, match="because it is") as raised:
        check_order(group, (Order("liar", "peel-one", "because it is"),))
    assert raised.value.diagnostic.code == "INGOT0916"


@pytest.mark.parametrize("order", [("absent", "liar"), ("liar", "absent")])
def test_an_order_of_a_pass_that_is_not_there_is_found(order: tuple[str, str]) -> None:
    group = Pipeline("p", (PeelOne(), Liar()))
    with pytest.raises(InternalError, match="names absent, which is no pass of it"):
        check_order(group, (Order(*order, "so"),))


@record
class PeelAdds(PeelOne):
    """Says that it concerns additions, and removes negations."""

    name: ClassVar[str] = "peel-adds"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"add"})


@record
class PeelTwo(Pass):
    """Removes negations inside of the outermost one."""

    name: ClassVar[str] = "peel-two"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"negate"})

    def run(self, module: Module, context: PassContext) -> bool:
        root = module.entry.root
        if root.operands[0].opcode != "negate":
            return False
        module.entry.replace(root.operands[0], root.operands[0].operands[0])
        return True


@record
class EmptyNegations(PeelOne):
    """Concerns what has no elements."""

    name: ClassVar[str] = "empty-negations"
    concerns: ClassVar[frozenset[str] | None] = frozenset({EMPTY})
    ensures: ClassVar[frozenset[str]] = frozenset({"no-empty-negations"})


def test_a_pass_without_its_opcodes_does_not_run() -> None:
    context, module = PassContext(), negations(1)
    assert not run_passes(PeelAdds(), module, context)
    assert len(module.entry) == 2
    assert not context.timings


def test_a_group_is_left_out_when_nothing_concerns_its_passes() -> None:
    context = PassContext()
    group = Pipeline("p", (PeelAdds(), FixedPoint("q", (EmptyNegations(),))))
    assert group.concerns == frozenset({"add", EMPTY})
    assert not run_passes(group, negations(1), context)
    assert not context.timings
    assert "no-empty-negations" in context.properties
    assert Pipeline("r", (group, PeelOne())).concerns is None


def test_a_census_holds_opcodes_element_types_and_marks_of_shapes() -> None:
    b = Builder("main")
    empty = b.parameter(0, "f32[0,2]")
    dynamic = b.parameter(1, replace(shape_of("bf16[4]"), bounded=(True,)))
    root = b.tuple(empty, b.convert_to(dynamic, "s4"))
    found = census(Module.of("m", b.build(root)))
    assert found >= {"parameter", "convert", "tuple", "f32[]", "bf16[]", "s4[]", EMPTY, BOUNDED}
    assert "add" not in found
    assert "f64[]" not in found


def test_a_census_counts_again_when_it_is_told() -> None:
    b = Builder("main")
    module = Module.of("m", b.build(b.negate(b.parameter(0, "f32[2]"))))
    held = Census(module)
    assert held.holds_any(frozenset({"negate"}))
    assert held.holds_any(frozenset({"f32[]", "dot"}))
    assert not held.holds_any(frozenset({"add", "f64[]"}))
    module.entry.set_root(module.entry.add("add", (module.entry.root, module.entry.root)))
    held.renew()
    assert held.holds_any(frozenset({"add"}))


def test_a_pass_runs_without_its_opcodes_in_debug_mode_and_must_keep_its_word() -> None:
    with pytest.raises(InternalError, match="leaves alone") as raised:
        run_passes(PeelAdds(), negations(1), PassContext(debug=1))
    assert raised.value.diagnostic.code == "INGOT0911"


def test_a_pass_runs_again_only_after_a_change() -> None:
    context, module = PassContext(), negations(2)
    group = Pipeline("p", (PeelTwo(), PeelTwo(), PeelTwo(), PeelOne(), PeelTwo(), PeelOne()))
    run_passes(group, module, context)
    # The third has nothing to do after the second; the last but one has no negation to look for.
    ran = [(timing.name, timing.changed) for timing in context.timings]
    assert ran == [
        ("peel-two", True),
        ("peel-two", False),
        ("peel-one", True),
        ("peel-one", False),
    ]
