# SPDX-License-Identifier: Apache-2.0
"""The rewriter of kernel IR: it keeps every field, shares what it does not change, and nests."""

from __future__ import annotations

import numpy as np

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED
from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.kernel import expr as ex
from ingot.kernel.ir import Axis, Buffer, Combiner, LoopKernel, Pass, Reduction, Store
from ingot.kernel.rewrite import (
    AxisSubstitution,
    ExprSubstitution,
    Rewriter,
    applied,
    substitute,
)

ROW, COLUMN, N = Dim.symbol("@0"), Dim.symbol("@1"), Dim.symbol("n")
ADD = Combiner((ex.make("add", F32, (ex.argument(0, F32), ex.argument(1, F32)), NO_ATTRIBUTES),))


def every_field() -> LoopKernel:
    """Return a kernel that has something in every field of what it holds."""
    element = ex.load(0, N * ROW + COLUMN, F32, (), ex.constant(np.bool_(True)))
    fold = Reduction(3, ADD, (ex.constant(np.float32(0)),), (element,))
    total = ex.reduced(3, 0, F32, frozenset({"@0"}))
    where = ex.make("convert", ex.S64, (ex.load(1, ROW, F32),), NO_ATTRIBUTES)
    mask = ex.make("not", PRED, (ex.constant(np.bool_(False)),), NO_ATTRIBUTES)
    store = Store(2, ROW + Dim.symbol("$0"), total, (where,), mask, ADD)
    passes = (Pass((Axis("@1", N),), (fold,), (), True), Pass((), (), (store,)))
    buffers = (Buffer(F32, 4 * N, False), Buffer(F32, 4, False), Buffer(F32, 4, True))
    return LoopKernel((Axis("@0", 4),), passes, buffers, True, (Buffer(F32, N, True),), ("m",))


def test_a_rewriter_without_rules_changes_nothing():
    kernel = every_field()
    made = Rewriter().kernel(kernel)
    assert made == kernel
    pairs = zip(made.exprs, kernel.exprs, strict=True)
    assert all(new is old for new, old in pairs)


def test_axes_are_substituted_in_every_index():
    kernel = AxisSubstitution({"@0": 7 * ROW}, {"@0": "@9"}).kernel(every_field())
    fold, store = kernel.passes[0].reductions[0], kernel.passes[1].stores[0]
    assert fold.inputs[0].payload.index == 7 * N * ROW + COLUMN
    assert store.index == 7 * ROW + Dim.symbol("$0")
    assert store.values[0].args[0].payload.index == 7 * ROW
    assert store.value.payload == (3, 0, frozenset({"@9"}))


def test_a_position_is_not_the_index_of_a_load():
    class Loads(Rewriter):
        def index(self, where: int | Dim) -> int | Dim:
            return where + 1

    value = ex.index(ROW)
    element = ex.load(0, ROW + Dim.symbol("$0"), F32, (value,))
    made = Loads().expr(element)
    assert made.payload.index == ROW + Dim.symbol("$0") + 1
    assert made.args == (value,)


def test_each_expression_is_rewritten_once_and_arguments_come_first():
    seen: list[str] = []

    class Recorder(Rewriter):
        def node(self, item: ex.Expr, args: tuple[ex.Expr, ...]) -> ex.Expr:
            seen.append(item.op)
            return super().node(item, args)

    x = ex.load(0, ROW, F32)
    twice = ex.make("add", F32, (ex.make("negate", F32, (x,), NO_ATTRIBUTES), x), NO_ATTRIBUTES)
    recorder = Recorder()
    assert recorder.exprs((twice, twice)) == (twice, twice)
    assert seen == ["load", "negate", "add"]


def test_depth_costs_no_stack():
    x, y = ex.argument(0, F32), ex.argument(1, F32)
    deep, wanted = x, y
    for _ in range(5000):
        deep = ex.make("negate", F32, (deep,), NO_ATTRIBUTES)
        wanted = ex.make("negate", F32, (wanted,), NO_ATTRIBUTES)
    assert substitute(deep, {x: y}) is wanted


def test_replacements_are_not_rewritten_again():
    x = ex.load(0, ROW, F32)
    negative = ex.make("negate", F32, (x,), NO_ATTRIBUTES)
    # Were the new expression rewritten too, there would be no end of it.
    assert substitute(negative, {x: negative}) is ex.make("negate", F32, (negative,), NO_ATTRIBUTES)
    later = ExprSubstitution({})
    later.add(x, ex.load(1, ROW, F32))
    assert later.expr(negative).args[0].payload.buffer == 1


def test_a_combiner_is_applied_to_arguments():
    one, two = (ex.constant(np.float32(value)) for value in (1, 2))
    assert applied(ADD, (one, two)) == (ex.make("add", F32, (one, two), NO_ATTRIBUTES),)
