# SPDX-License-Identifier: Apache-2.0
"""Higher-order ops: `cond`, `while_loop`, `scan`, `map`, `invoke_subgraph`; counted loops.

A body is a graph module. It becomes a computation of a `conditional` or `while`, whose operand
holds the tensors that the body takes and the named sizes that occur in it. If a body has nodes that
only the host can run (random draws, checks, ops without a rule), `partitioning.placement` leaves
the whole op to PyTorch.

Invariant: a computation can only use its operand.

Example:
    torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    conditional(pred, (x,), (x,)), branch_computations={sin, cos}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.symbols import symbols_of_body
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("higher_order")
INTERNAL = RuleTable("ingot")

Values = list[Instruction]


class _State:
    """The operand of a body: tensors, then the named sizes that occur in it."""

    def __init__(self, op: Op, tensors: Sequence[Any], bodies: Sequence[Any]) -> None:
        for value in tensors:
            if not isinstance(value, Instruction | Dim | int):
                raise op.error(f"an operand is {value}, which is not a tensor")
        self.op = op
        self.symbols = symbols_of_body(bodies)
        self.given = list(tensors)
        arrays = [value for value in tensors if isinstance(value, Instruction)]
        numbers = [op.b.size(Dim.symbol(name)) for name in self.symbols]
        self.packed = op.b.tuple(*arrays, *numbers)

    def entered(
        self, name: str, shape: Shape, before: int = 0
    ) -> tuple[GraphBuilder, list[Any], Values]:
        """Return the builder of a computation, the operands in it, and all elements of its state.

        The state of `shape` has `before` elements in front of the operands. Sizes and numbers among
        the operands keep their values from outside.
        """
        inner = GraphBuilder(name, reducers=self.op.b.reducers)
        inner.numbers.update(self.op.b.numbers)
        packed = inner.parameter(0, shape, "state")
        elements = [inner.element_of(packed, n) for n in range(len(shape.elements))]
        first = len(elements) - len(self.symbols)
        inner.sizes.update(zip(self.symbols, elements[first:], strict=True))
        arrays = iter(elements[before:])
        given = [next(arrays) if isinstance(x, Instruction) else x for x in self.given]
        return inner, given, elements

    def body(self, name: str, graph: Any) -> Computation:
        """Return the computation of a body that takes the operands and gives its results."""
        inner, given, _ = self.entered(name, self.packed.shape)
        return inner.build(inner.tuple(*_arrays(self.op, self.op.inlined(inner, graph, given))))


def _arrays(op: Op, results: Sequence[Any]) -> Values:
    for value in results:
        if not isinstance(value, Instruction):
            raise op.error(f"a result of a body is {value}, which is not a tensor")
    return list(results)


@RULES.rule("cond")
def _cond(
    op: Op, chosen: Any, if_true: Any, if_false: Any, operands: Sequence[Any]
) -> tuple[Instruction, ...]:
    if not isinstance(chosen, Instruction):
        raise op.error("the predicate is not a tensor")
    state = _State(op, operands, (if_true, if_false))
    branches = (state.body("if_true", if_true), state.body("if_false", if_false))
    shapes = [branch.root.shape for branch in branches]
    if shapes[0].elements != shapes[1].elements:
        raise op.error(f"its branches give {shapes[0]} and {shapes[1]}")
    predicate = op.b.reshape_to(op.b.to_pred(chosen), ())
    made = op.b.emit(
        "conditional",
        predicate,
        state.packed,
        state.packed,
        shape=shapes[0],
        branch_computations=branches,
    )
    return tuple(op.b.element_of(made, n) for n in range(len(shapes[0].elements)))


@RULES.rule("while_loop")
def _while_loop(
    op: Op, condition: Any, body: Any, carried: Sequence[Any], others: Sequence[Any]
) -> tuple[Instruction, ...]:
    return tuple(_while(op, condition, body, carried, others)[0])


@INTERNAL.rule("loop_turns")
def _loop_turns(
    op: Op, condition: Any, body: Any, carried: Sequence[Any], others: Sequence[Any]
) -> Instruction:
    return _while(op, condition, body, carried, others)[1]


def _while(
    op: Op, condition: Any, body: Any, carried: Sequence[Any], others: Sequence[Any]
) -> tuple[Values, Instruction]:
    """Return the final carried values of a loop, and its trip count."""
    b, arrays = op.b, _arrays(op, carried)
    state = _State(op, [*arrays, *others], (condition, body))
    held = [b.element_of(state.packed, n) for n in range(len(state.packed.shape.elements))]
    packed = b.tuple(b.constant(0, S64), *held)
    inner, given, _ = state.entered("condition", packed.shape, 1)
    (goes_on,) = _arrays(op, op.inlined(inner, condition, given))
    computations = [inner.build(inner.reshape_to(inner.to_pred(goes_on), ()))]
    inner, given, elements = state.entered("body", packed.shape, 1)
    made = _arrays(op, op.inlined(inner, body, given))
    if [x.shape for x in made] != [x.shape for x in arrays]:
        raise op.error("its body changes the sizes or types of what it carries")
    number = inner.add(elements[0], inner.constant(1, S64))
    root = inner.tuple(number, *made, *elements[1 + len(made) :])
    computations.append(inner.build(root))
    loop = b.emit("while", packed, condition=computations[0], body=computations[1])
    return [b.element_of(loop, 1 + n) for n in range(len(made))], b.element_of(loop, 0)


@INTERNAL.rule("loop_stacks")
def _loop_stacks(
    op: Op,
    body: Any,
    number: Instruction,
    rows: Size,
    carried: Sequence[Any],
    others: Sequence[Any],
) -> tuple[Instruction, ...]:
    arrays = _arrays(op, carried)
    state = _State(op, [*arrays, *others], (body,))
    whole = [op.b.spread(x, (rows, *x.shape.dims)) for x in arrays]

    def turn(b: GraphBuilder, given: list[Any], index: Instruction) -> tuple[Values, Values]:
        del index
        made = _arrays(op, op.inlined(b, body, given))
        return made, made

    return tuple(_counted(state, arrays, number, whole, turn)[1])


@RULES.rule("scan")
def _scan(
    op: Op, body: Any, init: Sequence[Any], xs: Sequence[Any], others: Sequence[Any]
) -> tuple[Instruction, ...]:
    return tuple(_swept(op, body, init, xs, others))


@RULES.rule("map_impl")
def _map(op: Op, body: Any, xs: Sequence[Any], others: Sequence[Any]) -> tuple[Instruction, ...]:
    return tuple(_swept(op, body, (), xs, others))


def _swept(
    op: Op, body: Any, init: Sequence[Any], xs: Sequence[Any], others: Sequence[Any]
) -> Values:
    """Call a body for each index of the first dimension of `xs`, in order.

    It takes the carried values, the slices, and `others`; it returns new carried values, and slices
    of the results.
    """
    carried, rows = _arrays(op, init), _arrays(op, xs)
    whole = [op.b.zeros(op.shape_of(n)) for n in range(len(carried), len(op.val))]
    state = _State(op, [*carried, *rows, *others], (body,))
    first, last = len(carried), len(carried) + len(rows)

    def turn(b: GraphBuilder, given: list[Any], index: Instruction) -> tuple[Values, Values]:
        slices = [_row(b, x, index) for x in given[first:last]]
        made = _arrays(op, op.inlined(b, body, [*given[:first], *slices, *given[last:]]))
        return made[:first], made[first:]

    on, stacks = _counted(state, carried, op.b.size(rows[0].shape.dims[0]), whole, turn)
    return [*on, *stacks]


def _counted(
    state: _State,
    carried: Values,
    count: Instruction,
    whole: Values,
    turn: Callable[[GraphBuilder, list[Any], Instruction], tuple[Values, Values]],
) -> tuple[Values, Values]:
    """Return the carried values of a loop of `count` iterations, and `whole` with a row of each.

    The loop's operand is the number of finished iterations, `count`, `whole`, and the operands of
    `state`, the first of which are `carried`. `turn` takes the builder, the operands and the index;
    it returns new carried values, and the row of each of `whole`.
    """
    b = state.op.b
    held = [b.element_of(state.packed, n) for n in range(len(state.packed.shape.elements))]
    packed = b.tuple(b.constant(0, S64), count, *whole, *held)
    first = 2 + len(whole)

    inner, (everything,) = b.region("condition", [packed.shape])
    index, limit = (inner.element_of(everything, n) for n in range(2))
    condition = inner.build(inner.compare(index, limit, direction="LT"))

    inner, given, elements = state.entered("body", packed.shape, first)
    index, limit = elements[:2]
    on, parts = turn(inner, given, index)
    if [x.shape for x in on] != [x.shape for x in carried]:
        raise state.op.error("its body changes the sizes or types of what it carries")
    written = [
        _with_row(inner, array, part, index)
        for array, part in zip(elements[2:first], parts, strict=True)
    ]
    following = inner.add(index, inner.constant(1, S64))
    rest = elements[first + len(carried) :]
    root = inner.tuple(following, limit, *written, *on, *rest)
    loop = b.emit("while", packed, condition=condition, body=inner.build(root))
    last = [b.element_of(loop, first + n) for n in range(len(carried))]
    return last, [b.element_of(loop, 2 + n) for n in range(len(whole))]


def _row(b: GraphBuilder, x: Instruction, index: Instruction) -> Instruction:
    """Return `x[index]`."""
    return b.reshape_to(b.window(x, 0, index, 1), x.shape.dims[1:])


def _with_row(
    b: ArrayBuilder, whole: Instruction, part: Instruction, index: Instruction
) -> Instruction:
    """Return `whole` with `part` at `[index]`."""
    row = b.reshape_to(part, (1, *part.shape.dims))
    zeros = [b.constant(0, S64)] * part.shape.rank
    return b.emit("dynamic-update-slice", whole, row, index, *zeros)


@RULES.rule("invoke_subgraph")
def _invoke_subgraph(
    op: Op, body: Any, identifier: object, *operands: Any
) -> tuple[Instruction, ...]:
    del identifier  # of the body, for those who compile it once
    return tuple(_arrays(op, op.inlined(op.b, body, operands)))
