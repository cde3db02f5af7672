# SPDX-License-Identifier: Apache-2.0
"""Higher-order ops: `cond`, `while_loop`, `scan`, `map`, `invoke_subgraph`.

A body is a graph module. It becomes a computation of a `conditional` or `while`, whose operand
holds the tensors that the body takes and the named sizes that occur in it. What only the host can
do in a body (random draws, checks, ops without a rule) leaves the whole op to
PyTorch: `placement` looks.

Invariant: a computation sees nothing but its operand.

Example:
    torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    conditional(pred, (x,), (x,)), branch_computations={sin, cos}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.symbols import symbols_of_body
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("higher_order")

Values = list[Instruction]


class _State:
    """The operand of a body: tensors, then the sizes that it names."""

    def __init__(self, op: Op, tensors: Sequence[Any], bodies: Sequence[Any]) -> None:
        for value in tensors:
            if not isinstance(value, Instruction | Dim | int):
                raise op.error(f"an operand is {value}, which is no tensor")
        self.op = op
        self.symbols = symbols_of_body(bodies)
        self.given = list(tensors)
        arrays = [value for value in tensors if isinstance(value, Instruction)]
        numbers = [op.b.size(Dim.symbol(name)) for name in self.symbols]
        self.packed = op.b.tuple(*arrays, *numbers)

    def entered(self, name: str, shape: Shape) -> tuple[ArrayBuilder, list[Any], Values]:
        """Return the builder of a computation, the operands in it, and all elements of its state.

        Sizes and numbers among the operands are what they are outside.
        """
        sizes: dict[str, Instruction] = {}
        inner = ArrayBuilder(name, sizes.__getitem__, self.op.b.reducers)
        packed = inner.parameter(0, shape, "state")
        elements = [inner.element_of(packed, n) for n in range(len(shape.elements))]
        first = len(elements) - len(self.symbols)
        sizes.update(zip(self.symbols, elements[first:], strict=True))
        arrays = iter(elements)
        given = [next(arrays) if isinstance(x, Instruction) else x for x in self.given]
        return inner, given, elements

    def body(self, name: str, graph: Any) -> Computation:
        """Return the computation of a body that takes the operands and gives its results."""
        inner, given, _ = self.entered(name, self.packed.shape)
        return inner.build(inner.tuple(*_arrays(self.op, self.op.inlined(inner, graph, given))))


def _arrays(op: Op, results: Sequence[Any]) -> Values:
    for value in results:
        if not isinstance(value, Instruction):
            raise op.error(f"a result of a body is {value}, which is no tensor")
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
    predicate = op.b.reshape_to(op.b.truth(chosen), ())
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
    state = _State(op, [*_arrays(op, carried), *others], (condition, body))
    shape = state.packed.shape
    inner, given, _ = state.entered("condition", shape)
    (goes_on,) = _arrays(op, op.inlined(inner, condition, given))
    computations = [inner.build(inner.reshape_to(inner.truth(goes_on), ()))]
    inner, given, elements = state.entered("body", shape)
    made = _arrays(op, op.inlined(inner, body, given))
    if [x.shape for x in made] != [x.shape for x in carried]:
        raise op.error("its body changes the sizes or types of what it carries")
    computations.append(inner.build(inner.tuple(*made, *elements[len(made) :])))
    loop = op.b.emit("while", state.packed, condition=computations[0], body=computations[1])
    return tuple(op.b.element_of(loop, n) for n in range(len(made)))


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

    It takes what it carries, the slices, and `others`; it gives what it carries on, and slices of
    the results, which are written into arrays that are part of the state.
    """
    b, carried, rows = op.b, _arrays(op, init), _arrays(op, xs)
    stacked = [op.shape_of(n) for n in range(len(carried), len(op.val))]
    state = _State(op, [*carried, *rows, *others], (body,))
    count = rows[0].shape.dims[0]
    outputs = [b.zeros(shape) for shape in stacked]
    held = [b.element_of(state.packed, n) for n in range(len(state.packed.shape.elements))]
    packed = b.tuple(b.constant(0, S64), b.size(count), *outputs, *held)
    first = 2 + len(outputs)

    inner, (everything,) = b.region("condition", [packed.shape])
    index, limit = (inner.element_of(everything, n) for n in range(2))
    condition = inner.build(inner.compare(index, limit, direction="LT"))

    inner, given, elements = state.entered("body", packed.shape)
    # The operands come after the counter and the results.
    arrays = iter(elements[first:])
    given = [next(arrays) if isinstance(x, Instruction) else x for x in state.given]
    index, limit = elements[:2]
    slices = [_row(inner, x, index) for x in given[len(carried) : len(carried) + len(rows)]]
    arguments = [*given[: len(carried)], *slices, *given[len(carried) + len(rows) :]]
    made = _arrays(op, op.inlined(inner, body, arguments))
    carried_on, parts = made[: len(carried)], made[len(carried) :]
    if [x.shape for x in carried_on] != [x.shape for x in carried]:
        raise op.error("its body changes the sizes or types of what it carries")
    written = [
        _with_row(inner, whole, part, index)
        for whole, part in zip(elements[2:first], parts, strict=True)
    ]
    following = inner.add(index, inner.constant(1, S64))
    rest = elements[first + len(carried) :]
    root = inner.tuple(following, limit, *written, *carried_on, *rest)
    loop = b.emit("while", packed, condition=condition, body=inner.build(root))
    last = [b.element_of(loop, first + n) for n in range(len(carried))]
    return [*last, *(b.element_of(loop, 2 + n) for n in range(len(outputs)))]


def _row(b: ArrayBuilder, x: Instruction, index: Instruction) -> Instruction:
    """Return `x[index]`."""
    rest = x.shape.dims[1:]
    zeros = [b.constant(0, S64)] * len(rest)
    taken = b.emit("dynamic-slice", x, index, *zeros, dynamic_slice_sizes=(1, *rest))
    return b.reshape_to(taken, rest)


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
