# SPDX-License-Identifier: Apache-2.0
"""Calls, branches and loops.

A call is inlined. A branch or loop body is a computation of its own that takes one tuple: its
operands, then the variables that it may touch, then the sizes of the program's symbols; variables
that a branch or body changes come back as further results.

Invariant: resources are never part of a tuple; a handle that goes through a body is the same handle
outside, since TensorFlow hands resources through bodies unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, FunctionRef, TensorRef
from ingot.frontends.tensorflow.lowering.context.computed_sizes import (
    have_same_ranks,
    measured,
    with_new_sizes,
)
from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.loop_counters import LoopCounter, loop_counters
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    TensorList,
    Text,
    Value,
    Variable,
)
from ingot.frontends.tensorflow.lowering.list_ops.state import (
    ListForm,
    better_start,
    common_form,
    fitted,
)
from ingot.frontends.tensorflow.lowering.walk import graph
from ingot.frontends.tensorflow.variants.specialisation import COMPUTED_VALUE
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import bare_symbols
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import mutable

"""What an assertion says in place of a value that the program computes."""


@mutable
class Packing:
    """How the values that go into a body lie in one tuple.

    Attributes:
        values: the body's inputs, as values outside.
        unchanged: which of them the body cannot change.
        fixed: which of those are known at compile time: they are in no tuple.
        variables: variables with a value that the body may touch.
        constants: variables that the body only reads, and whose value is known.
        unwritten: the other variables that the body only reads.
        symbols: the program's sizes.
    """

    values: list[Value]
    unchanged: frozenset[int]
    fixed: frozenset[int]
    variables: list[Variable]
    constants: dict[Variable, Known]
    unwritten: frozenset[Variable]
    symbols: list[str]

    @staticmethod
    def of(
        op: Op, values: list[Value], unchanged: Collection[int], written: Collection[int]
    ) -> Packing:
        """Pack what a body gets from the frame of `op`.

        Args:
            op: the node that calls the body.
            values: the body's inputs.
            unchanged: which of them it cannot change.
            written: which of them are variables that it may write before it reads them again.
        """
        state = op.frame.state
        fixed = frozenset(n for n in unchanged if isinstance(values[n], Known))
        handles = dict.fromkeys(value for value in values if isinstance(value, Variable))
        changed = {values[number] for number in written}
        hidden = op.b.program.random_state
        if hidden is not None:
            handles[hidden] = None
            changed.add(hidden)
        found = {variable: state[variable] for variable in handles if variable in state}
        unwritten = frozenset(variable for variable in found if variable not in changed)
        constants = {
            variable: value
            for variable, value in found.items()
            if variable in unwritten and isinstance(value, Known)
        }
        carried = [variable for variable in found if variable not in constants]
        symbols = list(op.frame.sizes)
        same = frozenset(unchanged)
        return Packing(values, same, fixed, carried, constants, unwritten, symbols)

    def pack(self, frame: Frame, values: Sequence[Value]) -> Instruction:
        """Return the tuple of these values (shaped as `self.values`) with `frame`'s state."""
        parts = [
            part
            for number, value in enumerate(values)
            if number not in self.fixed
            for part in leaves(frame, value)
        ]
        parts.extend(frame.tensor(frame.state[variable]) for variable in self.variables)
        parts.extend(frame.sizes[name] for name in self.symbols)
        return frame.builder.tuple(*parts)

    def with_tensors_of(self, packed: Shape, outputs: Sequence[Value]) -> Shape:
        """Return the tuple's shape with those of a body's outputs, of which lists do not count."""
        elements = list(packed.elements)
        index = 0
        for number, (value, output) in enumerate(zip(self.values, outputs, strict=True)):
            if number in self.fixed:
                continue
            if isinstance(output, Instruction) and _width(value) == 1:
                elements[index] = output.shape
            index += _width(value)
        return Shape.tuple(tuple(elements))

    def _stays(self) -> list[bool]:
        """Return for each element of the tuple whether the body gets what is outside."""
        stays = [
            number in self.unchanged
            for number, value in enumerate(self.values)
            if number not in self.fixed
            for _ in range(_width(value))
        ]
        stays.extend(variable in self.unwritten for variable in self.variables)
        stays.extend(True for _ in self.symbols)
        return stays

    def enter(self, frame: Frame, packed: Instruction, outside: Instruction) -> list[Value]:
        """Unpack a body's parameter, and note what its elements are in the tuple outside."""
        elements = _elements(frame, packed)
        origins = frame.program.origins
        for element, origin, stays in zip(elements, outside.operands, self._stays(), strict=True):
            if stays:
                origins[element] = origin
        return self._rebuild(frame, elements)

    def leave(self, frame: Frame, packed: Instruction) -> list[Value]:
        """Unpack what a loop gives into the frame that contains it."""
        return self._rebuild(frame, _elements(frame, packed))

    def _rebuild(self, frame: Frame, elements: list[Instruction]) -> list[Value]:
        """Return values like `self.values`; fills the frame's state and sizes."""
        parts = iter(elements)
        values = [
            value if number in self.fixed else rebuilt(value, parts)
            for number, value in enumerate(self.values)
        ]
        frame.state.update(self.constants)
        for variable in self.variables:
            frame.state[variable] = next(parts)
        for name in self.symbols:
            frame.sizes[name] = next(parts)
        return values


def _elements(frame: Frame, packed: Instruction) -> list[Instruction]:
    return [frame.builder.element_of(packed, n) for n in range(len(packed.shape.elements))]


def _width(value: Value) -> int:
    """Return how many `leaves` a value has."""
    if isinstance(value, TensorList):
        return len(_list_parts(value))
    return 0 if isinstance(value, Variable | Text) else 1


def leaves(frame: Frame, value: Value) -> list[Instruction]:
    """Return the instructions that make up a value; none for a handle."""
    if isinstance(value, Variable | Text):
        return []
    if isinstance(value, TensorList):
        return _list_parts(value)
    return [frame.tensor(value)]


def _list_parts(value: TensorList) -> list[Instruction]:
    parts = (value.buffer, value.length, value.lengths)
    return [part for part in parts if isinstance(part, Instruction)]


def rebuilt(template: Value, parts: Iterator[Instruction]) -> Value:
    """Return a value like `template` made of the next instructions of `parts`."""
    if isinstance(template, Variable | Text):
        return template
    if isinstance(template, TensorList):
        buffer = None if template.buffer is None else next(parts)
        length = next(parts) if isinstance(template.length, Instruction) else template.length
        lengths = None if template.lengths is None else next(parts)
        return replace(template, buffer=buffer, length=length, lengths=lengths, declared=None)
    return next(parts)


def _callee(op: Op, name: str) -> CapturedFunction:
    return op.scope.library[op.function(name)]


def _call(op: Op) -> tuple[Value, ...]:
    return tuple(graph.run(_callee(op, "f"), op.frame, op.values))


@mutable
class _Branch:
    """A traced body: its frame, what its state was at the start, and its outputs."""

    frame: Frame
    before: dict[Variable, Value]
    outputs: list[Value]


def _trace(
    op: Op,
    packing: Packing,
    callee: CapturedFunction,
    operand: Instruction,
    shape: Shape | None = None,
    counters: Mapping[int, LoopCounter] | None = None,
) -> _Branch:
    """Lower a body of `operand`.

    Args:
        op: the node that calls it.
        packing: how what it gets lies in the operand.
        callee: the body.
        operand: what it is called with.
        shape: that of its parameter, whose sizes may be its own.
        counters: of a loop's body, what counts the iterations.
    """
    frame = Frame(callee.name, op.b.program)
    frame.builder.metadata = op.b.metadata
    frame.builder.is_repeated = op.b.is_repeated or counters is not None
    packed = frame.builder.parameter(0, shape or operand.shape, "state")
    inputs = packing.enter(frame, packed, operand)
    if shape is not None:
        measured(frame, _elements(frame, packed), outside=op.frame)
    for number, counter in (counters or {}).items():
        element = inputs[number]
        if isinstance(element, Instruction):
            op.b.program.counters[element] = counter
    before = dict(frame.state)
    return _Branch(frame, before, graph.run(callee, frame, inputs))


def _choose(op: Op, index: Instruction, callees: list[CapturedFunction]) -> tuple[Value, ...]:
    packing = Packing.of(op, op.values[1:], range(len(op.values) - 1), ())
    operand = packing.pack(op.frame, packing.values)
    traced = [_trace(op, packing, callee, operand) for callee in callees]
    op.b.program.stop_if_learned()
    written = _written(op, traced)
    _make_lists_alike(traced)
    _shape_unread(op, traced, callees)
    templates = [
        _common(op, list(items)) for items in zip(*(t.outputs for t in traced), strict=True)
    ]
    computations = [_finished(op, branch, written) for branch in traced]
    shapes = [computation.root.shape for computation in computations]
    # A branch that decides a shape, and is known before the program runs, is the only one in it.
    are_alike = all(shape.compatible(shapes[0]) for shape in shapes)
    if not are_alike and _is_specialised(op, shapes):
        return _case(op) if "Case" in op.node.op else _if(op)
    made = op.b.emit(
        "conditional",
        index,
        *([operand] * len(computations)),
        shape=with_new_sizes(op.frame, shapes[0], shapes[1:]),
        branch_computations=tuple(computations),
    )
    parts = iter(measured(op.frame, _elements(op.frame, made)))
    outputs = tuple(rebuilt(template, parts) for template in templates)
    for variable in written:
        op.frame.state[variable] = next(parts)
    return outputs


def _is_specialised(op: Op, shapes: Sequence[Shape]) -> bool:
    """Whether the program is for one branch of different shapes; False: for their sizes."""
    sizes = [size for shape in shapes for leaf in shape.elements for size in leaf.dims]
    is_open = all(have_same_ranks(shapes[0], shape) for shape in shapes)
    if is_open and op.b.program.is_computed(sizes):
        return False
    what = "condition, whose branches give different shapes"
    if is_open:
        return op.known_or_computed(0, what) is not None
    op.array(0, what)
    return True


def _written(op: Op, traced: list[_Branch]) -> list[Variable]:
    """Return the variables that some branch changed; each must have a value in every branch."""
    touched: dict[Variable, None] = {}
    for branch in traced:
        for variable, value in branch.frame.state.items():
            if branch.before.get(variable) is not value:
                touched[variable] = None
    for variable in touched:
        if not all(variable in branch.frame.state for branch in traced):
            raise op.error(
                "a variable gets its first value in one branch only",
                "initialise the variable before the function runs",
            )
    return list(touched)


def _make_lists_alike(traced: list[_Branch]) -> None:
    """Bring the lists that the branches give as the same output into one form."""
    for number in range(len(traced[0].outputs)):
        lists = [item for t in traced if isinstance(item := t.outputs[number], TensorList)]
        if len(lists) == len(traced):
            form = common_form(lists)
            for branch, found in zip(traced, lists, strict=True):
                branch.outputs[number] = fitted(branch.frame.builder, found, form)


def _shape_unread(op: Op, traced: list[_Branch], callees: list[CapturedFunction]) -> None:
    """Give what nobody reads of a branch the shape that the same output has in another branch.

    A gradient takes what each branch remembers for it; TensorFlow writes a FakeParam in the
    others, whose sizes may be open.
    """
    unread = [_unread_outputs(callee) for callee in callees]
    for number in set[int]().union(*unread):
        readers = [
            t.outputs[number] for t, u in zip(traced, unread, strict=True) if number not in u
        ]
        read = next((value for value in readers if isinstance(value, Instruction)), None)
        if read is None or not symbols_of(read.shape.dims).issubset(op.frame.sizes):
            continue
        for branch, numbers in zip(traced, unread, strict=True):
            if number in numbers:
                branch.outputs[number] = branch.frame.builder.zeros(read.shape)


def _unread_outputs(branch: CapturedFunction) -> set[int]:
    """Return the outputs of a branch that stand for values of other branches."""
    fakes = {node.name for node in branch.nodes if node.op == "FakeParam"}
    return {number for number, ref in enumerate(_sources(branch)) if ref.node in fakes}


def _sources(body: CapturedFunction) -> list[TensorRef]:
    """Return what each output of a body is, before it goes through Identity."""
    made = {node.name: node for node in body.nodes}
    found: list[TensorRef] = []
    for output in body.outputs:
        while output.node in made and made[output.node].op == "Identity":
            output = made[output.node].inputs[0]
        found.append(output)
    return found


def _common(op: Op, items: list[Value]) -> Value:
    """Return the template of an output that all branches give."""
    first = items[0]
    for other in items[1:]:
        if isinstance(first, Variable) != isinstance(other, Variable) or (
            isinstance(first, Variable) and first is not other and first != other
        ):
            raise op.error("the branches give different variables")
        if isinstance(first, TensorList) != isinstance(other, TensorList):
            raise op.error("the branches give different kinds of values")
    return first


def _finished(op: Op, branch: _Branch, written: list[Variable]) -> Computation:
    frame = branch.frame
    parts = [part for value in branch.outputs for part in leaves(frame, value)]
    parts.extend(frame.tensor(frame.state[variable]) for variable in written)
    return frame.builder.build(frame.builder.tuple(*parts))


def _known_condition(op: Op) -> bool | None:
    array = op.known(0)
    if array is None or array.dtype == object:
        return None
    return bool(array.ravel()[0]) if array.ndim == 0 else bool(array.size)


def _condition(op: Op) -> Instruction:
    """Return the condition as a pred."""
    value = op.tensor(0)
    if value.shape.rank:
        raise op.error("the condition is not a scalar")
    return op.b.to_pred(value)


def _if(op: Op) -> tuple[Value, ...]:
    callees = [_callee(op, "then_branch"), _callee(op, "else_branch")]
    known = _known_condition(op)
    if known is not None:
        return tuple(graph.run(callees[0 if known else 1], op.frame, op.values[1:]))
    return _choose(op, _condition(op), callees)


def _case(op: Op) -> tuple[Value, ...]:
    names = op.attribute("branches")
    callees = [op.scope.library[ref.name] for ref in names if isinstance(ref, FunctionRef)]
    known = op.known(0)
    if known is not None and known.dtype != object:
        # As TensorFlow does: any other number takes the last branch.
        index = int(known) if 0 <= int(known) < len(callees) else -1
        return tuple(graph.run(callees[index], op.frame, op.values[1:]))
    return _choose(op, op.b.convert_to(op.tensor(0), S32), callees)


def _while(op: Op) -> tuple[Value, ...]:
    values = op.values
    while True:
        learnt = _attempt(op, values)
        if isinstance(learnt, tuple):
            return learnt
        values = learnt


def _unchanged(body: CapturedFunction) -> list[int]:
    """Return the loop variables that the body returns unchanged."""
    pairs = zip(body.inputs, _sources(body), strict=True)
    return [number for number, (item, source) in enumerate(pairs) if source.node == item.name]


def _with_buffers(op: Op, before: list[Value], after: list[Value]) -> list[Value] | None:
    """Return the loop's values with what its body showed of lists; None when nothing was learnt.

    A TensorArray learns the shape of its elements at the first write, which is in the body; the
    loop must have the buffer from the start. A list that gets longer or shorter must count.
    """
    learnt = list(before)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if not isinstance(old, TensorList) or not isinstance(new, TensorList):
            continue
        _check_elements(op, new)
        learnt[number] = better_start(op.b, old, new, op.frame.sizes)
    same = all(new is old for new, old in zip(learnt, before, strict=True))
    return None if same else learnt


def _check_elements(op: Op, found: TensorList) -> None:
    """Refuse elements of a size that only the loop's body knows: each may have its own."""
    sizes = () if found.buffer is None else found.buffer.shape.dims[1:]
    unknown = symbols_of(sizes).difference(op.frame.sizes)
    if unknown:
        raise op.error(
            f"a list that the loop fills has elements of a size that each iteration computes: "
            f"{Shape.array(found.element, sizes).to_string(with_layout=False)}",
            "give the elements one size, which is known before the loop",
        )


def _attempt(op: Op, values: list[Value]) -> tuple[Value, ...] | list[Value]:
    """Lower the loop; or return better values to start it with."""
    effects = op.b.program.effects
    written = {n for name in ("body", "cond") for n in effects.of(_callee(op, name)).writes}
    packing = Packing.of(op, values, _unchanged(_callee(op, "body")), written)
    start = packing.pack(op.frame, values)
    counters = loop_counters(_callee(op, "cond"), _callee(op, "body"), values, packing.unchanged)
    state, given = start.shape, frozenset(bare_symbols(start.shape))
    while True:
        condition = _trace(op, packing, _callee(op, "cond"), start, state)
        test = condition.frame.tensor(condition.outputs[0])
        if test.shape.dtype is not PRED:
            test = condition.frame.builder.compared("NE", test, 0)
        body = _trace(op, packing, _callee(op, "body"), start, state, counters)
        op.b.program.stop_if_learned()
        changed = packing.with_tensors_of(state, body.outputs)
        if not _fits(changed, state, given) and have_same_ranks(state, changed):
            # What lists hold is learnt with sizes that an iteration keeps.
            state = with_new_sizes(op.frame, state, [changed])
            continue
        learnt = _with_buffers(op, values, body.outputs)
        if learnt is not None:
            return learnt
        outputs = [
            fitted(body.frame.builder, new, ListForm.of(old))
            if isinstance(old, TensorList) and isinstance(new, TensorList)
            else new
            for old, new in zip(values, body.outputs, strict=True)
        ]
        end = packing.pack(body.frame, outputs)
        if _fits(end.shape, state, given):
            break
        if not have_same_ranks(state, end.shape):
            raise _changed_shape(op, start.shape, end.shape)
        state = with_new_sizes(op.frame, state, [end.shape])
    made = op.b.emit(
        "while",
        start,
        shape=state,
        condition=condition.frame.builder.build(test),
        body=body.frame.builder.build(end),
    )
    sizes = dict(op.frame.sizes)
    results = packing.leave(op.frame, made)
    # Sizes from outside do not change in a loop, and are cheaper.
    op.frame.sizes = sizes
    measured(op.frame, [value for value in results if isinstance(value, Instruction)])
    for value in results:
        if isinstance(value, TensorList):
            _assert_room(op, value)
    return tuple(results)


def _fits(end: Shape, state: Shape, given: frozenset[str]) -> bool:
    """Whether a loop of this state may go on with what an iteration gives."""
    return end.compatible(state) or state.takes(end, given)


def _assert_room(op: Op, found: TensorList) -> None:
    """A list with a bound is not checked at each push: its length says at the end what happened."""
    if found.bound is None or found.buffer is None or not isinstance(found.length, Instruction):
        return
    fits = op.b.compared("LE", found.length, op.b.scalar(found.rows, S32))
    emit_assertion(op.b, fits, f"a loop made a list of at most {found.rows} elements longer")


def _changed_shape(op: Op, start: Shape, end: Shape) -> Exception:
    pairs = zip(start.elements, end.elements, strict=False)
    for number, (before, after) in enumerate(pairs):
        if not before.compatible(after):
            return op.error(
                f"loop variable {number} has shape {before.to_string(with_layout=False)} before "
                f"an iteration and {after.to_string(with_layout=False)} after it",
                "keep the shape the same in every iteration (write into a buffer of full size)",
            )
    return op.error(f"the loop's values change from {start} to {end}")


def _assert(op: Op) -> tuple[Value, ...]:
    """condition, then what to say: strings and tensors."""
    if not _known_condition(op):
        most = int(op.attribute("summarize"))
        said = [f"[{_said(value, most)}]" for value in op.values[1:]]
        text = "assertion failed: " + " ".join(said)
        emit_assertion(op.b, _condition(op), text)
        if _known_condition(op) is False:
            op.frame.refuted = op.frame.refuted or text
    return ()


def _said(value: Value, most: int) -> str:
    """Return the first `most` elements of a value (-1: all) as TensorFlow's kernel writes them."""
    if not isinstance(value, Text | Known):
        return COMPUTED_VALUE
    items = [_element_text(item) for item in value.array.ravel()]
    shown = items if most < 0 else items[:most]
    return " ".join(shown) + ("..." if len(shown) < len(items) else "")


def _element_text(item: Any) -> str:
    if isinstance(item, Dim):
        return COMPUTED_VALUE
    if isinstance(item, bytes):
        return item.decode(errors="replace")
    if isinstance(item, np.bool_):
        return "1" if item else "0"
    return f"{item:g}" if isinstance(item, np.floating) else str(item)


RULES: dict[str, Rule] = {
    "Assert": _assert,
    "Case": _case,
    "If": _if,
    "PartitionedCall": _call,
    "StatefulPartitionedCall": _call,
    "StatelessCase": _case,
    "StatelessIf": _if,
    "StatelessWhile": _while,
    "SymbolicGradient": _call,
    "While": _while,
}
