# SPDX-License-Identifier: Apache-2.0
"""Edits of the graph: users stay true, order stays a topological order, clones are copies."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.random_modules import random_module

from ingot.formats.hlo_text import print_module
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction, Metadata
from ingot.hlo.module import Module
from ingot.hlo.opdef import OpView
from ingot.hlo.opset.shaping import DimensionsAttributes, SliceAttributes
from ingot.hlo.verifier import verify, verify_computation
from ingot.support.diagnostics import InternalError, VerifyError


def _assert_true_users(computation: Computation) -> None:
    counted = {instruction: Counter[object]() for instruction in computation.instructions}
    for instruction in computation.instructions:
        for operand in instruction.operands:
            counted[operand][instruction] += 1
    for instruction, users in counted.items():
        assert dict(users) == instruction.users


def _assert_order(computation: Computation) -> None:
    order = computation.post_order()
    assert set(order) == set(computation.instructions)
    place = {instruction: number for number, instruction in enumerate(order)}
    for instruction in order:
        assert all(place[operand] < place[instruction] for operand in instruction.operands)


@given(st.integers(0, 10_000), st.data())
def test_random_edits_keep_users_true(seed: int, data: st.DataObject) -> None:
    module, _ = random_module(seed, steps=8)
    computation = module.entry
    for _ in range(4):
        old = data.draw(st.sampled_from(computation.instructions))
        same = [
            other
            for other in computation.post_order()[: computation.post_order().index(old)]
            if other.shape.compatible(old.shape)
        ]
        if same and old is not computation.root and old.opcode != "parameter":
            computation.replace(old, data.draw(st.sampled_from(same)))
    _assert_true_users(computation)
    _assert_order(computation)
    verify(module)


def _chain() -> tuple[Builder, list[object]]:
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    y = b.negate(x)
    z = b.add(y, y)
    b.build(b.multiply(z, x))
    return b, [x, y, z]


def test_an_operand_used_twice_counts_twice() -> None:
    b, (_, y, z) = _chain()
    assert y.users == {z: 2}
    b.computation.replace_operand(z, 1, b.computation.parameters[0])
    assert y.users == {z: 1}
    _assert_true_users(b.computation)


def test_replace_moves_the_root_and_the_metadata() -> None:
    b = Builder("f", Metadata(op_name="mine"))
    x = b.parameter(0, "f32[2]")
    root = b.negate(x)
    computation = b.build(root)
    new = Builder(computation).abs(x)
    computation.replace(root, new)
    assert computation.root is new
    assert new.metadata.op_name == "mine"
    assert root not in computation
    assert list(x.users) == [new]


def test_remove_dead_goes_up_to_what_others_use() -> None:
    b, (x, _, _) = _chain()
    unused = b.exponential(b.negate(b.negate(x)))
    before = len(b.computation)
    b.computation.remove_dead(unused)
    assert len(b.computation) == before - 3
    assert x in b.computation
    _assert_true_users(b.computation)


def test_used_instructions_cannot_be_removed() -> None:
    b, (_, y, _) = _chain()
    with pytest.raises(InternalError, match="it is used"):
        b.computation.remove(y)
    with pytest.raises(InternalError, match="it is used"):
        b.computation.remove(b.computation.root)


def test_edits_count_versions() -> None:
    b, (x, y, z) = _chain()
    versions = [b.computation.version]
    b.computation.replace_operand(z, 0, x)
    versions.append(b.computation.version)
    b.computation.replace_all_uses(y, x)
    versions.append(b.computation.version)
    b.computation.set_attributes(z, z.attributes)
    versions.append(b.computation.version)
    b.computation.set_shape(z, z.shape)
    versions.append(b.computation.version)
    b.computation.set_extra(z, {"backend_config": "{}"})
    versions.append(b.computation.version)
    z.run_after((x,))
    versions.append(b.computation.version)
    z.run_after((x,))
    assert b.computation.version == versions[-1]
    assert versions == sorted(set(versions))


def test_order_follows_edits() -> None:
    b, (x, y, z) = _chain()
    late = b.abs(x)
    b.computation.replace_all_uses(y, late)
    b.computation.remove(y)
    _assert_order(b.computation)
    assert z.operands == (late, late)


def test_order_follows_control_predecessors() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    first, then = b.negate(x), b.sine(x)
    b.build(b.tuple(first, then))
    order = b.computation.post_order()
    assert order.index(first) < order.index(then)
    first.run_after((then,))
    order = b.computation.post_order()
    assert order.index(then) < order.index(first)
    version = b.computation.version
    first.run_after((then,))
    assert b.computation.version == version


def test_a_cycle_is_refused() -> None:
    b, (_, y, z) = _chain()
    b.computation.replace_operand(y, 0, z)
    with pytest.raises(VerifyError, match="its own result"):
        b.computation.post_order()


def test_clone_is_a_copy() -> None:
    module, _ = random_module(11)
    text = print_module(module)
    copy = module.clone()
    assert print_module(copy) == text
    assert all(c.module is copy for c in copy.computations.values())
    for computation in copy.computations.values():
        _assert_true_users(computation)
    verify(copy)
    entry = copy.entry
    entry.set_root(Builder(entry).tuple(*entry.parameters))
    assert print_module(module) == text


def test_clone_of_a_computation_verifies() -> None:
    computation = scalar_computation("add", "f32")
    copy = computation.clone("other")
    verify_computation(copy)
    assert copy.name == "other"
    assert not set(copy.instructions) & set(computation.instructions)


def test_names_are_unique_in_a_module() -> None:
    b = Builder("main")
    x = b.parameter(0, "f32[2]")
    zero = b.constant(0, "f32")
    for _ in range(2):
        inner = scalar_computation("add", "f32", "sum")
        last = b.reduce(x, zero, dimensions=(0,), to_apply=inner)
    module = Module.of("m", b.build(last))
    names = [i.name for c in module.computations.values() for i in c.instructions]
    assert len(names) == len(set(names))
    assert len(module.computations) == 3
    verify(module)


def test_side_effects_are_seen_through_calls() -> None:
    inner = Builder("inner")
    token = inner.custom_call(
        shape="f32[]", custom_call_target="print", custom_call_has_side_effect=True
    )
    outer = Builder("outer")
    assert has_side_effect(outer.call(to_apply=inner.build(token)))
    assert not has_side_effect(outer.constant(1, "f32"))


def _three() -> tuple[Builder, list[Instruction]]:
    """Return x, its negation, and two values of it of which the second waits for the first."""
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    y = b.negate(x)
    first, second = b.abs(y), b.sine(x)
    second.run_after((first,))
    return b, [x, y, first, second]


def test_a_replacement_takes_over_the_order() -> None:
    b, (x, _, first, second) = _three()
    root = b.add(first, second)
    b.build(root)
    other = b.cosine(x)
    other.run_after((x,))
    b.computation.replace(first, other)
    assert second.control_predecessors == (other,)
    third = b.tanh(x)
    b.computation.replace(second, third)
    assert third.control_predecessors == (other,)
    _assert_order(b.computation)


def test_what_waits_for_a_removed_instruction_waits_for_what_that_needed() -> None:
    b, (x, y, first, second) = _three()
    b.build(second)
    b.computation.remove(first)
    assert second.control_predecessors == (y,)
    b.computation.remove(y)
    assert second.control_predecessors == (x,)
    _assert_order(b.computation)
    verify_computation(b.computation)


def test_an_order_never_becomes_a_circle() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    y = b.negate(x)
    z = b.abs(y)
    waits = b.add(x, x)
    waits.run_after((z,))
    user = b.multiply(waits, z)
    b.build(user)
    # `y` comes before `z`, which `waits` comes after: `y` itself cannot come after `z`.
    b.computation.replace(waits, y)
    assert y.control_predecessors == ()
    assert user.control_predecessors == (z,)
    _assert_order(b.computation)


def test_another_shape_is_no_replacement() -> None:
    b = Builder("f")
    x = b.parameter(0, "f32[2]")
    y = b.negate(x)
    b.build(b.abs(y))
    with pytest.raises(InternalError, match="replaced by"):
        b.computation.replace(y, b.convert_to(x, "f64"))


def test_attributes_are_typed_or_refused() -> None:
    b = Builder("main")
    turned = b.transpose(b.parameter(0, "f32[2,3]"), dimensions=(1, 0))
    view = OpView("transpose", (turned.operands[0].shape,), turned.attributes)
    for asked in (turned, view):
        assert asked.as_(DimensionsAttributes).dimensions == (1, 0)
        with pytest.raises(
            InternalError, match="transpose are DimensionsAttributes, not Slice"
        ) as e:
            asked.as_(SliceAttributes)
        assert e.value.diagnostic.code == "INGOT0934"
