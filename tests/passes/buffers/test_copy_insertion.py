# SPDX-License-Identifier: Apache-2.0
"""Copies are inserted at every hazard and nowhere else; results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.buffers.common import (
    array_shape,
    check,
    copies,
    counting_condition,
    elements,
    prepare,
)

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.passes.buffers.assignment import assign_buffers
from ingot.passes.buffers.buffer_table import Output, Parameter, Temp
from ingot.passes.buffers.contents import buffer_usage
from ingot.support.diagnostics import InternalError

X = np.arange(8, dtype=np.float32)
Y = X[::-1].copy()
VECTOR = array_shape(8)
COUNTER = array_shape(element="s32")
STATE = Shape.tuple((COUNTER, VECTOR, VECTOR))


def body_of(kind: str) -> Computation:
    """Return a loop body: what the returned state is made of."""
    b = Builder("body")
    i, x, y = elements(b, b.parameter(0, STATE))
    following = b.add(i, b.constant(1, "s32"))

    def update() -> Instruction:
        part = b.dynamic_slice(y, i, dynamic_slice_sizes=(1,))
        return b.dynamic_update_slice(x, part, i)

    returned = {
        "update": lambda: (update(), y),
        "swap": lambda: (y, x),
        "twice": lambda: (b.negate(x), b.negate(x)),
        "same": lambda: (update(),) * 2,
        "keep": lambda: (x, y),
        "late": lambda: (update(), b.reverse(x, dimensions=(0,))),
        "constant": lambda: (update(), b.constant(Y)),
        "reverse": lambda: (b.reverse(x, dimensions=(0,)), y),
    }[kind]
    return b.build(b.tuple(following, *returned()))


def loop_module(kind: str, *, fresh: bool = True) -> Module:
    """Return `while` over (0, x, y); `fresh`: initial values are no parameters."""
    b = Builder("main")
    x, y = b.parameter(0, VECTOR), b.parameter(1, VECTOR)
    if fresh:
        x, y = b.reverse(x, dimensions=(0,)), b.reverse(y, dimensions=(0,))
    state = b.tuple(b.constant(0, "s32"), x, y)
    loop = b.while_(state, condition=counting_condition(STATE), body=body_of(kind))
    return Module.of("loop", b.build(b.tuple(*elements(b, loop)[1:])))


@pytest.mark.parametrize(
    ("kind", "in_body", "in_entry"),
    [
        # The entry's one copy is the counter's: its initial value is a constant.
        ("update", 0, 1),
        ("swap", 3, 1),
        ("twice", 0, 1),
        ("same", 1, 1),
        ("late", 0, 1),
        ("constant", 1, 1),
        ("reverse", 1, 1),
        # Elements that do not change are the initial values: no copy, no result of the loop.
        ("keep", 0, 1),
    ],
)
def test_a_loop_copies_only_what_it_must(kind: str, in_body: int, in_entry: int) -> None:
    module = loop_module(kind)
    check(module, [X, Y])
    body = next(c for c in module.computations.values() if c.name == "body")
    assert copies(body) == in_body
    assert copies(module.entry) == in_entry


def test_a_loop_over_parameters_copies_them_first() -> None:
    module = loop_module("update", fresh=False)
    check(module, [X, Y])
    # The counter, the updated array, and the unchanged one because it is an output.
    assert copies(module.entry) == 3


def test_a_loop_invariant_parameter_is_read_where_it_is() -> None:
    b = Builder("main")
    x, y = b.parameter(0, VECTOR), b.parameter(1, VECTOR)
    state = b.tuple(b.constant(0, "s32"), b.negate(x), y)
    loop = b.while_(state, condition=counting_condition(STATE), body=body_of("update"))
    module = Module.of("loop", b.build(b.get_tuple_element(loop, index=1)))
    assignment = check(module, [X, Y])
    body = next(c for c in module.computations.values() if c.name == "body")
    assert isinstance(assignment.slice_of(body.parameters[0], (2,)).allocation, Parameter)
    assert isinstance(assignment.slice_of(body.parameters[0], (1,)).allocation, Output)


def test_an_initial_value_used_after_the_loop_is_copied() -> None:
    b = Builder("main")
    x = b.reverse(b.parameter(0, VECTOR), dimensions=(0,))
    state = b.tuple(b.constant(0, "s32"), x, x)
    loop = b.while_(state, condition=counting_condition(STATE), body=body_of("update"))
    module = Module.of("loop", b.build(b.add(b.get_tuple_element(loop, index=1), x)))
    check(module, [X])
    assert copies(module.entry) == 2


def test_nested_loops_carry_one_buffer_through() -> None:
    outer = Builder("outer")
    i, x, y = elements(outer, outer.parameter(0, STATE))
    inner = outer.while_(
        outer.tuple(outer.constant(0, "s32"), x, y),
        condition=counting_condition(STATE),
        body=body_of("update"),
    )
    following = outer.add(i, outer.constant(1, "s32"))
    _, changed, same = elements(outer, inner)
    body = outer.build(outer.tuple(following, changed, same))
    b = Builder("main")
    x, y = (b.negate(b.parameter(n, VECTOR)) for n in range(2))
    state = b.tuple(b.constant(0, "s32"), x, y)
    loop = b.while_(state, condition=counting_condition(STATE), body=body)
    module = Module.of("nested", b.build(b.get_tuple_element(loop, index=1)))
    check(module, [X, Y])
    # Both counters start from constants; nothing of the arrays is copied.
    assert sum(copies(c) for c in module.computations.values()) == 2


def update_module(*, read_after: bool, fresh: bool) -> Module:
    b = Builder("main")
    x, i = b.parameter(0, VECTOR), b.parameter(1, COUNTER)
    start = b.reverse(x, dimensions=(0,)) if fresh else x
    update = b.dynamic_update_slice(start, b.slice(x, slice=((0, 2, 1),)), i)
    other = b.add(update, start) if read_after else b.negate(update)
    return Module.of("update", b.build(other))


@pytest.mark.parametrize(
    ("read_after", "fresh", "count"),
    [(False, True, 0), (True, True, 1), (False, False, 1), (True, False, 1)],
)
def test_an_update_is_in_place_unless_its_operand_is_needed(
    read_after: bool, fresh: bool, count: int
) -> None:
    module = update_module(read_after=read_after, fresh=fresh)
    check(module, [X, np.int32(3)])
    assert copies(module.entry) == count


def test_a_donated_parameter_is_updated_without_a_copy() -> None:
    module = update_module(read_after=False, fresh=False)
    b = Builder("main")
    x, u, i = b.parameter(0, VECTOR), b.parameter(1, array_shape(2)), b.parameter(2, COUNTER)
    module = Module.of("update", b.build(b.dynamic_update_slice(x, u, i)))
    module.aliases = (Alias((), 0),)
    assignment = check(module, [X, Y[:2], np.int32(5)])
    assert copies(module.entry) == 0
    assert assignment.donations == ((0, 0, 32),)
    assert assignment.parameters[0] is assignment.outputs[0]


def test_donated_parameters_that_are_exchanged() -> None:
    b = Builder("main")
    x, y = b.parameter(0, VECTOR), b.parameter(1, VECTOR)
    module = Module.of("exchange", b.build(b.tuple(y, x)))
    module.aliases = (Alias((0,), 0), Alias((1,), 1))
    check(module, [X, Y])
    assert copies(module.entry) == 3


def test_every_output_is_a_buffer_of_its_own() -> None:
    b = Builder("main")
    x = b.parameter(0, VECTOR)
    y = b.negate(x)
    module = Module.of("outputs", b.build(b.tuple(y, x, y, b.constant(X), y)))
    assignment = check(module, [X])
    assert copies(module.entry) == 4
    assert len(set(assignment.outputs)) == 5


def test_branches_write_the_result_where_it_is_wanted() -> None:
    branches = []
    for opcode in ("negate", "abs"):
        f = Builder(opcode)
        branches.append(f.build(f.emit(opcode, f.parameter(0, VECTOR))))
    b = Builder("main")
    x, p = b.parameter(0, VECTOR), b.parameter(1, array_shape(element="pred"))
    root = b.conditional(p, x, x, branch_computations=tuple(branches))
    module = Module.of("choice", b.build(root))
    assignment = check(module, [-X, np.bool_(True)])
    assert sum(copies(c) for c in module.computations.values()) == 0
    where = assignment.slice_of(branches[1].root)
    assert isinstance(where.allocation, Output)


def test_one_branch_may_overwrite_what_only_another_reads() -> None:
    f = Builder("update")
    x = f.parameter(0, VECTOR)
    where, part = f.constant(1, "s32"), f.constant(X[:2])
    update = f.build(f.dynamic_update_slice(x, part, where))
    g = Builder("other")
    other = g.build(g.reverse(g.parameter(0, VECTOR), dimensions=(0,)))
    b = Builder("main")
    x, p = b.parameter(0, VECTOR), b.parameter(1, array_shape(element="pred"))
    fresh = b.reverse(x, dimensions=(0,))
    root = b.conditional(p, fresh, fresh, branch_computations=(update, other))
    module = Module.of("choice", b.build(root))
    for given in (True, False):
        check(module.clone(), [X, np.bool_(given)])
    prepare(module)
    assert copies(update) == 0
    # The result's buffer is the operand's, which the reversal still reads.
    assert copies(other) == 1


def test_branches_that_exchange_their_operands() -> None:
    pair = Shape.tuple((VECTOR, VECTOR))
    branches = []
    for name, order in (("straight", (0, 1)), ("crossed", (1, 0))):
        f = Builder(name)
        given = elements(f, f.parameter(0, pair))
        branches.append(f.build(f.tuple(*(given[n] for n in order))))
    b = Builder("main")
    p = b.parameter(2, array_shape(element="pred"))
    x, y = (b.reverse(b.parameter(n, VECTOR), dimensions=(0,)) for n in range(2))
    both = b.tuple(x, y)
    module = Module.of(
        "choice", b.build(b.conditional(p, both, both, branch_computations=tuple(branches)))
    )
    for given in (True, False):
        check(module.clone(), [X, Y, np.bool_(given)])
    prepare(module)
    assert [copies(branch) for branch in branches] == [0, 3]


def test_a_value_that_every_branch_passes_on_is_itself() -> None:
    branches = []
    for opcode in ("negate", "abs"):
        f = Builder(opcode)
        x = f.parameter(0, VECTOR)
        branches.append(f.build(f.tuple(f.emit(opcode, x), x)))
    b = Builder("main")
    x, p = b.parameter(0, VECTOR), b.parameter(1, array_shape(element="pred"))
    both = b.conditional(p, x, x, branch_computations=tuple(branches))
    module = Module.of("choice", b.build(b.add(*elements(b, both))))
    assignment = check(module, [X, np.bool_(False)])
    assert isinstance(assignment.slice_of(both, (1,)).allocation, Parameter)
    assert sum(copies(c) for c in module.computations.values()) == 0


def test_scatter_is_in_place() -> None:
    b = Builder("main")
    x = b.reverse(b.parameter(0, VECTOR), dimensions=(0,))
    i, u = b.parameter(1, array_shape(3, 1, element="s32")), b.parameter(2, array_shape(3))
    root = b.scatter(
        x,
        i,
        u,
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        to_apply=scalar_computation("add", "f32"),
    )
    module = Module.of("scatter", b.build(root))
    assignment = check(module, [X, np.int32([[1], [2], [1]]), Y[:3]])
    assert copies(module.entry) == 0
    assert assignment.slice_of(x) == assignment.slice_of(root)


@pytest.mark.parametrize("same_place", [True, False])
def test_a_fused_update_that_reads_its_target(same_place: bool) -> None:
    f = Builder("fused")
    x, i = f.parameter(0, VECTOR), f.parameter(1, COUNTER)
    where = i if same_place else f.subtract(f.constant(6, "s32"), i)
    part = f.negate(f.dynamic_slice(x, where, dynamic_slice_sizes=(2,)))
    fused = f.build(f.dynamic_update_slice(x, part, i))
    b = Builder("main")
    x, i = b.reverse(b.parameter(0, VECTOR), dimensions=(0,)), b.parameter(1, COUNTER)
    module = Module.of("update", b.build(b.fusion(x, i, kind="kLoop", calls=fused)))
    check(module, [X, np.int32(2)])
    assert copies(module.entry) == (0 if same_place else 1)


def test_a_computation_with_two_callers_gets_two_buffers() -> None:
    b = Builder("main")
    body, condition = body_of("update"), counting_condition(STATE)
    results = []
    for number in range(2):
        x = b.negate(b.parameter(number, VECTOR))
        state = b.tuple(b.constant(0, "s32"), x, x)
        loop = b.while_(state, condition=condition, body=body)
        results.append(b.get_tuple_element(loop, index=1))
    module = Module.of("loops", b.build(b.tuple(*results)))
    check(module, [X, Y])


def test_copies_that_a_module_came_with_are_dropped() -> None:
    b = Builder("main")
    x = b.parameter(0, VECTOR)
    module = Module.of("copies", b.build(b.copy(b.negate(b.copy(x)))))
    assignment = check(module, [X])
    assert copies(module.entry) == 0
    assert not any(isinstance(s.slice.allocation, Temp) for s in buffer_usage(assignment).buffers)


def test_inserting_twice_changes_nothing() -> None:
    module = loop_module("swap")
    prepare(module)
    before = {c.name: copies(c) for c in module.computations.values()}
    check(module, [X, Y])
    assert {c.name: copies(c) for c in module.computations.values()} == before


def test_assignment_without_copy_insertion_is_refused() -> None:
    b = Builder("main")
    module = Module.of("m", b.build(b.parameter(0, VECTOR)))
    module.schedule = {module.entry: module.entry.post_order()}
    with pytest.raises(InternalError, match="INGOT0922"):
        assign_buffers(module)
