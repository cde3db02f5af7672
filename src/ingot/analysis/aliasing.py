# SPDX-License-Identifier: Apache-2.0
"""Aliasing: which value every leaf of every instruction holds.

A value is made by one instruction at one leaf. Views (tuple, get-tuple-element, bitcast, reshape,
barriers) make none: their leaves are the values of their operands. Ops that run meanwhile, loops
and branches join several values:

* a loop element that the body returns unchanged is the initial value itself, inside and after;
* any other loop element is two values: the *state*, which the condition and the body see as their
  parameter, and the *result* of the `while`. Initial value, state, what the body returns and the
  result want one buffer; the buffer passes see to it;
* an `async-start` holds its operands, so that they live until its `async-done`, and makes the
  result, which is the value of the `async-done`;
* the parameter of a branch is the operand; a leaf that all branches return from one and the same
  operand leaf is that operand; any other leaf of a conditional is a value of its own.

The entry and each computation that a `call` runs are *functions*: their parameters are values that
their callers pass, and the results of a call are values that the call makes.

Invariant: every computation that loops and branches run has one caller (`flatten-call-graph`), and
is no function.

Source: xla/hlo/analysis/hlo_dataflow_analysis.h, with loop states instead of phi values.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("main")
    >>> x = b.parameter(0, "f32[4]")
    >>> root = b.get_tuple_element(b.tuple(x, b.negate(x)), index=0)
    >>> analyze(Module.of("m", b.build(root))).value(root)
    parameter p0{}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from ingot.hlo.computation import Computation, callees_first
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError
from ingot.support.graphs import reachable
from ingot.support.records import fresh, mutable
from ingot.support.trampoline import Recursion, run

Path: TypeAlias = tuple[int, ...]

FIRST_OPERAND_VIEWS = ops_with(Trait.VIEW)
VIEWS = ops_with(Trait.VIEW, Trait.TUPLE)


@mutable(eq=False)
class Value:
    """The value that one instruction makes at one leaf.

    Attributes:
        kind: "parameter" (of a function), "constant", "instruction", "state" (what condition and
            body see), "result" (of a while) or "branches" (result of a conditional).
        instruction: who makes it; for a state the body's parameter.
        path: leaf of the instruction's shape.
        shape: the leaf's shape.
        number: order of discovery, for stable sorting.
    """

    kind: str
    instruction: Instruction
    path: Path
    shape: Shape
    number: int

    def __repr__(self) -> str:
        path = ",".join(map(str, self.path))
        return f"{self.kind} {self.instruction.name}{{{path}}}"


# The values of a tuple are a tuple; tokens and opaque leaves hold nothing.
Tree: TypeAlias = "Value | tuple[Tree, ...] | None"


@mutable
class Aliasing:
    """The value of every leaf.

    Attributes:
        module: the analyzed module.
        values: every value, in order of discovery (callers before callees).
        trees: values of every instruction of the functions and of what control flow calls.
        states: per `while`, its non-invariant leaves as (path, state, result).
        merges: per `conditional`, the leaves that are values of their own.
        callers: the `while` or `conditional` that calls a computation.
        functions: the entry, then what `call` runs, each before those that it calls.
        calls: every `call`.
    """

    module: Module
    values: list[Value] = fresh(factory=list)
    trees: dict[Instruction, Tree] = fresh(factory=dict)
    states: dict[Instruction, list[tuple[Path, Value, Value]]] = fresh(factory=dict)
    merges: dict[Instruction, list[tuple[Path, Value]]] = fresh(factory=dict)
    callers: dict[Computation, Instruction] = fresh(factory=dict)
    functions: list[Computation] = fresh(factory=list)
    calls: list[Instruction] = fresh(factory=list)

    def value(self, instruction: Instruction, path: Path = ()) -> Value | None:
        """Return the value that a leaf holds; None for tokens."""
        found = at(self.trees[instruction], path)
        assert not isinstance(found, tuple), f"{path} of {instruction.name} is not a leaf"
        return found

    def sources(self, instruction: Instruction, path: Path = ()) -> frozenset[Value]:
        """Return the made values that a leaf may hold, through loops and branches."""
        start = self.value(instruction, path)
        found = reachable([] if start is None else [start], self._incoming)
        return frozenset(v for v in found if v.kind not in ("state", "result", "branches"))

    def _incoming(self, value: Value) -> Iterator[Value]:
        roots: list[Tree] = []
        if value.kind == "branches":
            branches = value.instruction.attributes.branch_computations
            roots = [self.trees[branch.root] for branch in branches]
        elif value.kind in ("state", "result"):
            loop = self.callers.get(value.instruction.computation, value.instruction)
            loop = loop if value.kind == "state" else value.instruction
            roots = [self.trees[loop.operands[0]], self.trees[loop.attributes.body.root]]
        for root in roots:
            found = at(root, value.path)
            if isinstance(found, Value):
                yield found


def is_view(instruction: Instruction) -> bool:
    """Whether the instruction makes no value: its result is memory of its operands."""
    return instruction.opcode in VIEWS


def at(tree: Tree, path: Path) -> Tree:
    """Return the part of a tree at an index path."""
    for number in path:
        assert isinstance(tree, tuple)
        tree = tree[number]
    return tree


def leaves(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Yield (path, value) of every leaf that holds something."""
    if isinstance(tree, Value):
        yield path, tree
    elif tree is not None:
        for number, element in enumerate(tree):
            yield from leaves(element, (*path, number))


def analyze(module: Module) -> Aliasing:
    """Return the values of every leaf of the functions and of what their control flow calls.

    Raises:
        InternalError: INGOT0920 when two loops or branches call one computation.
    """
    return module.analysis(_analyze)


def _analyze(module: Module) -> Aliasing:
    analysis = Aliasing(module)
    _Analyzer(analysis).run()
    return analysis


class _Analyzer:
    """Walks computations from the entry down, operands first."""

    def __init__(self, analysis: Aliasing) -> None:
        self._analysis = analysis
        self._unchanged: dict[Computation, dict[Path, Path]] = {}

    def run(self) -> None:
        analysis = self._analysis
        entry = analysis.module.entry
        pending, seen = [entry], {entry}
        while pending:
            function = pending.pop()
            first = len(analysis.calls)
            trees = [self._make("parameter", p, p.shape) for p in function.parameters]
            run(self._walk(function, trees))
            called = [call.attributes.to_apply for call in analysis.calls[first:]]
            pending.extend(one for one in dict.fromkeys(called) if one not in seen)
            seen.update(called)
        order = callees_first([entry])[::-1] if len(seen) > 1 else [entry]
        analysis.functions.extend(one for one in order if one in seen)
        self._require_functions()

    def _require_functions(self) -> None:
        for function in self._analysis.functions:
            known = self._analysis.callers.get(function)
            if known is not None:
                raise InternalError(
                    f"{function.name} is called by {known.name} and is a function",
                    code="INGOT0920",
                    hint="run flatten-call-graph before",
                )

    def _walk(self, computation: Computation, arguments: list[Tree]) -> Recursion[None]:
        trees = self._analysis.trees
        for parameter, tree in zip(computation.parameters, arguments, strict=True):
            trees[parameter] = tree
        for instruction in computation.post_order():
            if instruction.opcode == "while":
                trees[instruction] = yield from self._while(instruction)
            elif instruction.opcode == "conditional":
                trees[instruction] = yield from self._conditional(instruction)
            elif instruction.opcode != "parameter":
                trees[instruction] = self._tree(instruction)

    def _tree(self, instruction: Instruction) -> Tree:
        """Return the values of an instruction that runs nothing else."""
        if is_view(instruction):
            return _view_tree(instruction, self._analysis.trees)
        if instruction.opcode == "async-start":
            return self._start(instruction)
        if instruction.opcode == "async-done":
            return at(self._analysis.trees[instruction.operands[0]], (1,))
        if instruction.opcode == "call":
            self._analysis.calls.append(instruction)
        kind = "constant" if instruction.opcode == "constant" else "instruction"
        return self._make(kind, instruction, instruction.shape)

    def _start(self, start: Instruction) -> Tree:
        """Return the operands, then what the start makes: the result and contexts."""
        made = start.shape.elements[1:]
        return (
            tuple(self._analysis.trees[operand] for operand in start.operands),
            *(self._make("instruction", start, shape, (n,)) for n, shape in enumerate(made, 1)),
        )

    def _make(self, kind: str, instruction: Instruction, shape: Shape, path: Path = ()) -> Tree:
        if shape.is_tuple:
            return tuple(
                self._make(kind, instruction, element, (*path, number))
                for number, element in enumerate(shape.elements)
            )
        if not shape.is_array:
            return None
        value = Value(kind, instruction, path, shape, len(self._analysis.values))
        self._analysis.values.append(value)
        return value

    def _enter(
        self, called: Computation, caller: Instruction, arguments: list[Tree]
    ) -> Recursion[None]:
        known = self._analysis.callers.setdefault(called, caller)
        if known is not caller:
            raise InternalError(
                f"{called.name} is called by {known.name} and {caller.name}",
                code="INGOT0920",
                hint="run flatten-call-graph before",
            )
        yield self._walk(called, arguments)

    def _while(self, loop: Instruction) -> Recursion[Tree]:
        initial = self._analysis.trees[loop.operands[0]]
        condition, body = loop.attributes.condition, loop.attributes.body
        if condition is body:
            raise InternalError(
                f"{body.name} is condition and body of {loop.name}", code="INGOT0920"
            )
        invariant = run(self._unchanged_leaves(body))
        states: list[tuple[Path, Value, Value]] = []

        def split(tree: Tree, path: Path) -> tuple[Tree, Tree]:
            if isinstance(tree, tuple):
                pairs = [split(element, (*path, n)) for n, element in enumerate(tree)]
                return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
            if tree is None or invariant.get(path) == (0, *path):
                return tree, tree
            state = self._make("state", body.parameters[0], tree.shape, path)
            result = self._make("result", loop, tree.shape, path)
            assert isinstance(state, Value)
            assert isinstance(result, Value)
            states.append((path, state, result))
            return state, result

        inside, after = split(initial, ())
        self._analysis.states[loop] = states
        yield from self._enter(condition, loop, [inside])
        yield from self._enter(body, loop, [inside])
        return after

    def _conditional(self, instruction: Instruction) -> Recursion[Tree]:
        branches: tuple[Computation, ...] = instruction.attributes.branch_computations
        arguments = [self._analysis.trees[operand] for operand in instruction.operands[1:]]
        if len(set(branches)) != len(branches):
            raise InternalError(f"{instruction.name} calls a branch twice", code="INGOT0920")
        for branch, argument in zip(branches, arguments, strict=True):
            yield from self._enter(branch, instruction, [argument])
        merges: list[tuple[Path, Value]] = []
        outer = {value for _, value in leaves(tuple(arguments))}

        def merge(shape: Shape, path: Path) -> Tree:
            if shape.is_tuple:
                return tuple(merge(e, (*path, n)) for n, e in enumerate(shape.elements))
            if not shape.is_array:
                return None
            given = {at(self._analysis.trees[branch.root], path) for branch in branches}
            if len(given) == 1 and given <= outer:
                return given.pop()
            made = self._make("branches", instruction, shape, path)
            assert isinstance(made, Value)
            merges.append((path, made))
            return made

        tree = merge(instruction.shape, ())
        self._analysis.merges[instruction] = merges
        return tree

    def _unchanged_leaves(self, computation: Computation) -> Recursion[dict[Path, Path]]:
        """Return, per leaf of the root that is a parameter's leaf, (number, *path) of that."""
        known = self._unchanged.get(computation)
        if known is None:
            known = yield _Passing(self._unchanged_leaves).leaves_of(computation)
            self._unchanged[computation] = known
        return known


class _Passing:
    """Finds which leaves of a root are leaves of parameters, whatever the arguments are."""

    def __init__(self, inner: Callable[[Computation], Recursion[dict[Path, Path]]]) -> None:
        self._inner = inner
        self._trees: dict[Instruction, Tree] = {}

    def leaves_of(self, computation: Computation) -> Recursion[dict[Path, Path]]:
        origins: dict[Value, Path] = {}
        for number, parameter in enumerate(computation.parameters):
            tree = _placeholders(parameter, parameter.shape, ())
            self._trees[parameter] = tree
            origins.update({value: (number, *path) for path, value in leaves(tree)})
        for instruction in computation.post_order():
            if instruction.opcode != "parameter":
                self._trees[instruction] = yield from self._tree(instruction)
        return {path: origins[value] for path, value in leaves(self._trees[computation.root])}

    def _tree(self, instruction: Instruction) -> Recursion[Tree]:
        if is_view(instruction):
            return _view_tree(instruction, self._trees)
        if instruction.opcode == "while":
            unchanged: dict[Path, Path] = yield self._inner(instruction.attributes.body)
            passed_on = {path for path, origin in unchanged.items() if origin == (0, *path)}
            return _filtered(self._trees[instruction.operands[0]], passed_on, ())
        if instruction.opcode == "conditional":
            return (yield from self._conditional(instruction))
        return _placeholders(None, instruction.shape, ())

    def _conditional(self, instruction: Instruction) -> Recursion[Tree]:
        arguments = instruction.operands[1:]
        branches: list[dict[Path, Path]] = []
        for called in instruction.attributes.branch_computations:
            branches.append((yield self._inner(called)))

        def pick(shape: Shape, path: Path) -> Tree:
            if shape.is_tuple:
                return tuple(pick(e, (*path, n)) for n, e in enumerate(shape.elements))
            if any(path not in branch for branch in branches):
                return None
            # A branch has one parameter: the origin's first number is always 0.
            given = {
                at(self._trees[argument], branch[path][1:])
                for argument, branch in zip(arguments, branches, strict=True)
            }
            return given.pop() if len(given) == 1 else None

        return pick(instruction.shape, ())


def _placeholders(parameter: Instruction | None, shape: Shape, path: Path) -> Tree:
    """Return a tree of new values for a parameter; an unknown tree for other instructions."""
    if shape.is_tuple:
        return tuple(_placeholders(parameter, e, (*path, n)) for n, e in enumerate(shape.elements))
    if parameter is None or not shape.is_array:
        return None
    return Value("parameter", parameter, path, shape, -1)


def _filtered(tree: Tree, passed_on: set[Path], path: Path) -> Tree:
    if isinstance(tree, tuple):
        return tuple(_filtered(element, passed_on, (*path, n)) for n, element in enumerate(tree))
    return tree if path in passed_on else None


def _view_tree(instruction: Instruction, trees: dict[Instruction, Tree]) -> Tree:
    if instruction.opcode == "tuple":
        return tuple(trees[operand] for operand in instruction.operands)
    first = trees[instruction.operands[0]]
    if instruction.opcode == "get-tuple-element":
        return at(first, (instruction.attributes.index,))
    return first
