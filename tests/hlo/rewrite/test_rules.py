# SPDX-License-Identifier: Apache-2.0
"""Patterns, rules, the driver and bisection."""

from __future__ import annotations

import pytest

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.bisect import find_culprit
from ingot.hlo.rewrite.driver import apply_rules
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.rewrite.pattern import capture, const, m, one_of
from ingot.hlo.rewrite.rule import RuleBuilder, RuleSet, rule
from ingot.support.diagnostics import InternalError, VerifyError

x, y = capture("x"), capture("y")


@rule(m.add(x, const(0)), fp=Fp.SIGNED_ZERO)
def add_zero(x: Instruction) -> Instruction:
    """x + 0 => x"""
    return x


@rule(m.subtract(x, x))
def subtract_self(x: Instruction, build: RuleBuilder) -> Instruction | None:
    """x - x => 0, on integers"""
    return build.full(0, x.shape) if x.shape.dtype.is_integer else None


@rule(m.add(x, y))
def swap(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x + y => y + x, for ever"""
    return build.add(y, x)


def one(opcode: str, element: str, *, splat_left: bool = False) -> Module:
    b = Builder("main")
    p = b.parameter(0, f"{element}[4]")
    zero = b.full(0, p.shape)
    operands = (zero, p) if splat_left else (p, zero)
    return Module.of("m", b.build(b.emit(opcode, *operands)))


@pytest.mark.parametrize("splat_left", [True, False])
def test_commutative_match_through_broadcast(splat_left: bool) -> None:
    module = one("add", "s32", splat_left=splat_left)
    context = PassContext()
    assert apply_rules(module, RuleSet([add_zero]), context)
    assert [i.opcode for i in module.entry.post_order()] == ["parameter"]
    (firing,) = context.log
    assert firing.rule == "add_zero"
    assert firing.location.startswith("test_rules.py:")


def test_order_counts_where_the_op_does_not_commute() -> None:
    pattern = m.subtract(x, const(0))
    assert len(pattern.variants()) == 1
    assert not apply_rules(
        one("subtract", "s32", splat_left=True),
        RuleSet([rule(pattern)(add_zero.function)]),
        PassContext(),
    )


def test_licence_stops_floats_only() -> None:
    strict = PassContext(fp=Fp.EXACT)
    assert not apply_rules(one("add", "f32"), RuleSet([add_zero]), strict)
    assert apply_rules(one("add", "s32"), RuleSet([add_zero]), strict)
    assert apply_rules(one("add", "f32"), RuleSet([add_zero]), PassContext())


def test_a_declining_rule_leaves_nothing_behind() -> None:
    b = Builder("main")
    p = b.parameter(0, "f32[4]")
    module = Module.of("m", b.build(b.subtract(p, p)))
    assert not apply_rules(module, RuleSet([subtract_self]), PassContext())
    assert len(module.entry) == 2


def test_conditions_attributes_and_single_use() -> None:
    b = Builder("main")
    p = b.parameter(0, "f32[4]")
    e = b.exponential(p)
    c = b.compare(e, p, direction="LT")
    b.build(b.select(c, e, p))
    once = rule(m.compare(m.exponential(x, once=True), y))(swap.function)
    assert once.match(c) is None
    other = rule(m.compare(x, y, direction="LT"))(swap.function)
    bound = other.match(c)
    assert bound == {"x": e, "y": p}
    assert rule(m.compare(x, y, direction="GT"))(swap.function).match(c) is None


def test_rules_without_end_are_found() -> None:
    b = Builder("main")
    module = Module.of("m", b.build(b.add(b.parameter(0, "f32[4]"), b.parameter(1, "f32[4]"))))
    assert apply_rules(module, RuleSet([swap]), PassContext())
    with pytest.raises(InternalError, match="undo each other"):
        apply_rules(module, RuleSet([swap]), PassContext(debug=1))


def test_misspelt_opcodes_and_names_are_errors() -> None:
    with pytest.raises(VerifyError, match="addd"):
        m.addd(x, y)
    with pytest.raises(VerifyError, match="flor"):
        one_of(("floor", "flor"), x)
    with pytest.raises(InternalError, match="unbound"):
        rule(m.negate(y))(add_zero.function)
    with pytest.raises(InternalError, match="two rules"):
        RuleSet([add_zero, add_zero])


def test_bisection_names_pass_and_rule() -> None:
    class Simplify(Pass):
        name = "simplify"

        def run(self, module: Module, context: PassContext) -> bool:
            return apply_rules(module, RuleSet([add_zero, subtract_self]), context)

    b = Builder("main")
    p = b.parameter(0, "s32[4]")
    total = b.add(b.add(p, b.full(0, p.shape)), b.subtract(p, p))
    module = Module.of("m", b.build(total))

    def is_bad(trial: Module) -> bool:
        return all(i.opcode != "subtract" for i in trial.entry.instructions)

    culprit = find_culprit(module, Simplify(), is_bad, PassContext())
    assert culprit is not None
    assert culprit.firing is not None
    assert (culprit.pass_name, culprit.firing.rule) == ("simplify", "subtract_self")
    assert any(i.opcode == "subtract" for i in module.entry.instructions)
