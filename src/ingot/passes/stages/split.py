# SPDX-License-Identifier: Apache-2.0
"""Splits a module that defines sizes into stages, and the code that runs between them.

Each computation with definitions becomes a block: its stages in order, and behind each stage the
definitions, loops and branches that need nothing later (`levels`). Loops and branches without
definitions stay as they are, inside a stage.

A block is a list of items, each of which uses some slots. When the block is closed, each slot that
it made and does not pass on is freed after its last use. Jumps have labels until `assembled`
numbers them.

Invariant: a block frees what it makes and does not pass on. A loop's state lies in slots of its
own, except elements that the body leaves unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ingot.analysis.aliasing import Path
from ingot.artifact.stages import (
    Code,
    Copy,
    Define,
    Differs,
    Free,
    Jump,
    Move,
    Run,
    SlotInfo,
    StagedCode,
    Unless,
)
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import bare_symbols, is_size_definition
from ingot.passes.stages.donation import donate_blocks
from ingot.passes.stages.levels import levels_of
from ingot.passes.stages.stage_module import Leaf, leaf_of, leaves_of, make_stage
from ingot.semantics.run_errors import negative_size_text
from ingot.support.records import fresh, mutable, record, replace
from ingot.support.trampoline import Recursion, run


@mutable(eq=False)
class Label:
    """Where a jump goes."""


Line = Code | Label | tuple[Code, Label]
"""An instruction, a label that stands here, or a jump to a label."""


@mutable
class _Item:
    lines: list[Line]
    uses: frozenset[int]


@mutable
class Block:
    """The items of one computation."""

    items: list[_Item] = fresh(factory=list)
    made: dict[int, None] = fresh(factory=dict)

    def add(self, lines: list[Line], uses: Iterable[int], makes: Iterable[int] = ()) -> None:
        """Add an item that uses slots, and fills others, which the block then owns."""
        self.made.update(dict.fromkeys(makes))
        self.items.append(_Item(lines, frozenset((*uses, *makes))))

    def copy_first(self, source: int, copy: int) -> None:
        """Copy a slot from outside before anything runs."""
        self.made[copy] = None
        self.items.insert(0, _Item([Copy(source, copy)], frozenset((source, copy))))

    def uses(self) -> frozenset[int]:
        """Return the slots that some item uses."""
        return frozenset(slot for item in self.items for slot in item.uses)

    def closed(self, live_out: Iterable[int] = ()) -> list[Line]:
        """Return the lines, with a `Free` of each slot that was made, except those in `held`."""
        held = set(live_out)
        last: dict[int, int] = {}
        for number, item in enumerate(self.items):
            for slot in item.uses:
                last[slot] = number
        lines: list[Line] = []
        for number, item in enumerate(self.items):
            lines += item.lines
            lines += [Free(slot) for slot in self.made if last[slot] == number and slot not in held]
        return lines


class Slots:
    """The slots of a frame."""

    def __init__(self) -> None:
        """Start with none."""
        self.rows: list[SlotInfo] = []

    def new(self, shape: Shape) -> int:
        """Return a new slot for arrays of a shape; a token has no dimensions."""
        dtype = shape.dtype.name if shape.is_array else "token"
        self.rows.append(SlotInfo(dtype, shape.rank if shape.is_array else 0))
        return len(self.rows) - 1


def assembled(lines: list[Line]) -> tuple[Code, ...]:
    """Return the instructions, with jumps to their numbers."""
    targets: dict[Label, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            targets[line] = count
        else:
            count += 1
    found: list[Code] = []
    for line in lines:
        if isinstance(line, tuple):
            jump, label = line
            assert isinstance(jump, Jump | Unless | Differs)
            found.append(replace(jump, target=targets[label]))
        elif not isinstance(line, Label):
            found.append(line)
    return tuple(found)


@record
class Split:
    """A module as stages.

    Attributes:
        stages: the stages' modules, by number.
        code: what runs them.
    """

    stages: tuple[Module, ...]
    code: StagedCode


def split_stages(module: Module) -> Split:
    """Return the stages of a module that defines sizes; the module itself is not changed.

    Raises:
        VerifyError: INGOT0219, a size is defined twice.
    """
    return _Splitter(module.name).run(module)


@mutable
class _Scope:
    """The slots of a block's arrays, and a slot that has each size."""

    slots: dict[Leaf, int]
    binders: dict[str, tuple[int, Shape]]

    def hold(self, leaf: Leaf, slot: int) -> None:
        """Note the slot of an array, and the sizes that it has."""
        self.slots[leaf] = slot
        shape = leaf[0].shape.at(leaf[1])
        for name in bare_symbols(shape):
            self.binders.setdefault(name, (slot, shape))

    def inner(self) -> _Scope:
        """Return the scope of a called computation: it has the known sizes, but no arrays."""
        return _Scope({}, dict(self.binders))


@mutable
class _Splitter:
    name: str
    stages: list[Module] = fresh(factory=list)
    slots: Slots = field(default_factory=Slots)
    errors: list[str] = fresh(factory=list)

    def run(self, module: Module) -> Split:
        scope = _Scope({}, {})
        parameters: list[int] = []
        for parameter in module.entry.parameters:
            for path, shape in parameter.shape.leaves():
                parameters.append(self.slots.new(shape))
                scope.hold((parameter, path), parameters[-1])
        block = Block()
        found = run(self._fill(block, module.entry, scope))
        results = [
            self._owned(block, slot, found[:n]) if slot in block.made else self._first(block, slot)
            for n, slot in enumerate(found)
        ]
        rows, lines = tuple(self.slots.rows), assembled(block.closed(results))
        code = StagedCode(rows, tuple(parameters), tuple(results), lines, tuple(self.errors))
        return Split(tuple(self.stages), donate_blocks(self.stages, code, _flat_aliases(module)))

    def _owned(self, block: Block, slot: int, before: Sequence[int]) -> int:
        """Return a slot whose block no other slot shares."""
        if slot in block.made and slot not in before:
            return slot
        copy = self._like(slot)
        block.add([Copy(slot, copy)], [slot], [copy])
        return copy

    def _first(self, block: Block, parameter: int) -> int:
        """Return a copy of a parameter, made before a result may take over its memory."""
        copy = self._like(parameter)
        block.copy_first(parameter, copy)
        return copy

    def _like(self, slot: int) -> int:
        self.slots.rows.append(self.slots.rows[slot])
        return len(self.slots.rows) - 1

    # ---- computations

    def _fill(self, block: Block, computation: Computation, scope: _Scope) -> Recursion[list[int]]:
        """Add a computation's stages to `block`; return the slots of its result."""
        levels = levels_of(computation, frozenset(scope.binders))
        wanted = _wanted(computation, levels.nodes, levels.stages)
        for nodes, instructions in zip(levels.nodes, levels.stages, strict=True):
            own = set(instructions)
            self._stage(block, instructions, [leaf for leaf in wanted if leaf[0] in own], scope)
            for node in nodes:
                yield from self._node(block, node, scope)
        missing = [leaf for leaf in leaves_of(computation.root) if leaf not in scope.slots]
        self._stage(block, (), list(dict.fromkeys(missing)), scope)
        return [scope.slots[leaf] for leaf in leaves_of(computation.root)]

    def _stage(
        self,
        block: Block,
        instructions: Sequence[Instruction],
        outputs: Sequence[Leaf],
        scope: _Scope,
    ) -> None:
        """Add a stage, if it has instructions."""
        if not outputs and not any(i.definition.may_have_effects for i in instructions):
            return
        number = len(self.stages)
        stage = make_stage(
            f"{self.name}.stage{number}", instructions, outputs, lambda name: scope.binders[name][1]
        )
        self.stages.append(stage.module)
        inputs = tuple(scope.slots[leaf] for leaf in stage.inputs)
        sizes = tuple(scope.binders[name][0] for name in stage.sizes)
        made = [self.slots.new(leaf[0].shape.at(leaf[1])) for leaf in outputs]
        block.add([Run(number, inputs, sizes, tuple(made))], [*inputs, *sizes], made)
        for leaf, slot in zip(outputs, made, strict=True):
            scope.hold(leaf, slot)

    def _slot(self, block: Block, leaf: Leaf, scope: _Scope) -> int:
        """Return the slot of an array; make the array if no stage did."""
        if leaf not in scope.slots:
            self._stage(block, (), [leaf], scope)
        return scope.slots[leaf]

    def _node(self, block: Block, node: Instruction, scope: _Scope) -> Recursion[None]:
        if is_size_definition(node):
            source = self._slot(block, leaf_of(node.operands[0], ()), scope)
            target = self.slots.new(node.shape)
            self.errors.append(negative_size_text(node, "negative"))
            block.add([Define(source, target, len(self.errors) - 1)], [source], [target])
            scope.hold((node, ()), target)
        elif node.opcode == "while":
            yield from self._loop(block, node, scope)
        else:
            yield from self._branches(block, node, scope)

    # ---- loops and branches

    def _loop(self, block: Block, loop: Instruction, scope: _Scope) -> Recursion[None]:
        """Add a loop: its state is copied into slots, then the body moves the next one there."""
        condition: Computation = loop.attributes.condition
        body: Computation = loop.attributes.body
        start = [self._slot(block, leaf, scope) for leaf in leaves_of(loop.operands[0])]
        paths = [path for path, _ in loop.shape.leaves()]
        unchanged = [leaf_of(body.root, path) == (body.parameters[0], path) for path in paths]
        state = [
            slot if same else self.slots.new(loop.shape.at(path))
            for path, slot, same in zip(paths, start, unchanged, strict=True)
        ]
        varying = [n for n, same in enumerate(unchanged) if not same]
        lines: list[Line] = [Copy(start[n], state[n]) for n in varying]
        top, end = Label(), Label()
        test = Block()
        inside = self._inner(condition, paths, state, scope)
        (flag,) = yield self._fill(test, condition, inside)
        tested = test.closed([flag])
        round_ = Block()
        inside = self._inner(body, paths, state, scope)
        found: list[int] = yield self._fill(round_, body, inside)
        after = self._next_state(round_, [found[n] for n in varying], [state[n] for n in varying])
        drop: list[Line] = [Free(flag)] if flag in test.made else []
        lines += [top, *tested, (Unless(flag, 0), end), *drop, *after, (Jump(0), top), end, *drop]
        uses = [*start, *test.uses(), *round_.uses()]
        block.add(lines, uses, [state[n] for n in varying])
        for path, slot in zip(paths, state, strict=True):
            scope.hold((loop, path), slot)

    def _inner(
        self, computation: Computation, paths: list[Path], slots: list[int], scope: _Scope
    ) -> _Scope:
        """Return the scope of a computation whose parameter lies in `slots`."""
        inner = scope.inner()
        (parameter,) = computation.parameters
        for name in bare_symbols(parameter.shape):
            inner.binders.pop(name, None)
        for path, slot in zip(paths, slots, strict=True):
            inner.hold((parameter, path), slot)
        return inner

    def _next_state(self, block: Block, found: list[int], state: list[int]) -> list[Line]:
        """Close the block of a body: its results become the state."""
        new = [self._owned(block, slot, found[:n]) for n, slot in enumerate(found)]
        lines = block.closed(new)
        for source, target in zip(new, state, strict=True):
            lines += [Free(target), Move(source, target)]
        return lines

    def _branches(self, block: Block, node: Instruction, scope: _Scope) -> Recursion[None]:
        """Add branches, each of which fills the same slots."""
        index, *operands = node.operands
        chosen = self._slot(block, leaf_of(index, ()), scope)
        arguments = [
            [self._slot(block, leaf, scope) for leaf in leaves_of(operand)] for operand in operands
        ]
        results = [self.slots.new(shape) for _, shape in node.shape.leaves()]
        branches: tuple[Computation, ...] = node.attributes.branch_computations
        lines: list[Line] = []
        uses: list[int] = [chosen, *(slot for row in arguments for slot in row)]
        end = Label()
        for number, (branch, slots) in enumerate(zip(branches, arguments, strict=True)):
            other = Label()
            is_last = number == len(branches) - 1
            if not is_last and index.shape.dtype is PRED:
                lines.append((Unless(chosen, 0), other))
            elif not is_last:
                lines.append((Differs(chosen, number, 0), other))
            inner = Block()
            paths = [path for path, _ in branch.parameters[0].shape.leaves()]
            inside = self._inner(branch, paths, slots, scope)
            found: list[int] = yield self._fill(inner, branch, inside)
            lines += self._next_state(inner, found, results)
            lines += [(Jump(0), end), other]
            uses += inner.uses()
        lines.append(end)
        block.add(lines, uses, results)
        for (path, _), slot in zip(node.shape.leaves(), results, strict=True):
            scope.hold((node, path), slot)


def _flat_aliases(module: Module) -> list[tuple[int, int]]:
    """Return the module's aliases as numbers of a leaf of the result, and of the parameters."""
    results = [path for path, _ in module.result_shape.leaves()]
    shapes = enumerate(module.parameter_shapes)
    given = [(number, path) for number, shape in shapes for path, _ in shape.leaves()]
    return [
        (results.index(alias.output), given.index((alias.parameter, alias.path)))
        for alias in module.aliases
    ]


def _wanted(
    computation: Computation,
    nodes: Sequence[Sequence[Instruction]],
    stages: Sequence[Sequence[Instruction]],
) -> dict[Leaf, None]:
    """Return the arrays that are needed outside the stage that makes them."""
    stage_of = {one: number for number, stage in enumerate(stages) for one in stage}
    wanted: dict[Leaf, None] = dict.fromkeys(leaves_of(computation.root))
    for level in nodes:
        for node in level:
            wanted.update(dict.fromkeys(leaf for o in node.operands for leaf in leaves_of(o)))
    for one, number in stage_of.items():
        for operand in one.operands:
            for leaf in leaves_of(operand):
                if stage_of.get(leaf[0], number) != number:
                    wanted[leaf] = None
    return wanted
