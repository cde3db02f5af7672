# SPDX-License-Identifier: Apache-2.0
"""Computations: a graph of instructions with parameters and one root.

All edits of the graph happen here, so users lists are always correct and `version` tells analyses
that something changed. Iteration order is insertion order; `post_order` gives operands first.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("f")
    >>> x = b.parameter(0, "f32[4]")
    >>> [i.opcode for i in b.build(b.add(x, x)).post_order()]
    ['parameter', 'add']
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ingot.hlo.instruction import NO_METADATA, Instruction, Metadata
from ingot.hlo.names import unique_name
from ingot.hlo.opdef import NO_ATTRIBUTES, Trait, find
from ingot.hlo.operand_order import operands_first
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError
from ingot.support.graphs import needs_first, reachable

if TYPE_CHECKING:
    from ingot.hlo.module import Module


class Computation:
    """A function of its parameters; owns its instructions.

    Attributes:
        name: unique in the module.
        module: the module that holds it.
        parameters: by number.
        root_: the result, once there is one.
        version: how often it was edited.
        verified: its `stamp` when it was last found valid.
    """

    __slots__ = (
        "_callees",
        "_calls_and_effects",
        "_instructions",
        "_names",
        "_opcodes",
        "_order",
        "module",
        "name",
        "parameters",
        "root_",
        "verified",
        "version",
    )

    def __init__(self, name: str) -> None:
        """Make an empty computation that is in no module yet."""
        self.name = name
        self.module: Module | None = None
        self.parameters: list[Instruction] = []
        self.root_: Instruction | None = None
        self.version = 0
        self.verified: tuple[int, ...] = ()
        self._instructions: dict[Instruction, None] = {}
        self._names: dict[str, int] = {}
        self._order: tuple[int, list[Instruction]] | None = None
        self._callees: tuple[int, list[Computation]] | None = None
        self._calls_and_effects: tuple[int, list[Instruction]] | None = None
        self._opcodes: tuple[int, frozenset[str]] | None = None

    def __repr__(self) -> str:
        return f"<computation {self.name}, {len(self._instructions)} instructions>"

    @property
    def instructions(self) -> list[Instruction]:
        """Every instruction, in insertion order (a copy: edits are safe while iterating)."""
        return list(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    def __contains__(self, instruction: Instruction) -> bool:
        return instruction in self._instructions

    @property
    def root(self) -> Instruction:
        """The result."""
        assert self.root_ is not None, f"computation {self.name} has no root"
        return self.root_

    # ---- edits

    def add(
        self,
        opcode: str,
        operands: Iterable[Instruction] = (),
        attributes: Any = NO_ATTRIBUTES,
        *,
        shape: Shape | None = None,
        name: str = "",
        metadata: Metadata = NO_METADATA,
    ) -> Instruction:
        """Add an instruction; its shape is inferred, or given for ops that need it.

        Raises:
            VerifyError: an operand or attribute breaks a constraint of the op.
        """
        definition = find(opcode)
        operands = tuple(operands)
        result = definition.result(tuple([o.shape for o in operands]), attributes, shape)
        made = Instruction(
            self.fresh_name(name or opcode),
            definition,
            operands,
            shape or result,
            attributes,
            metadata,
        )
        return self.insert(made)

    def insert(self, made: Instruction) -> Instruction:
        """Add an instruction that was made elsewhere and whose operands are here."""
        made.parent = self
        self._instructions[made] = None
        for operand in made.operands:
            users = operand.users
            users[made] = users.get(made, 0) + 1
        if made.opcode == "parameter":
            self._insert_parameter(made)
        self.version += 1
        return made

    def _insert_parameter(self, made: Instruction) -> None:
        known, number = self.parameters, made.attributes.number
        if known and known[-1].attributes.number > number:
            insort(known, made, key=lambda p: p.attributes.number)
        else:
            known.append(made)

    def set_root(self, root: Instruction) -> None:
        """Make `root` the result.

        Raises:
            InternalError: `root` belongs to another computation.
        """
        if root not in self._instructions:
            raise InternalError(f"{root.name} is not in computation {self.name}")
        self.root_ = root
        self.version += 1

    def remove(self, instruction: Instruction) -> None:
        """Remove an instruction that nobody uses and that is not the root.

        Its control successors then run after its own operands and control predecessors.

        Raises:
            InternalError: it has users, or is the root.
        """
        if instruction.users or instruction is self.root_:
            raise InternalError(f"cannot remove {instruction.name}: it is used")
        if instruction.has_control_successors:
            needs = (*instruction.operands, *instruction.control_predecessors)
            self._put_before_waiting(instruction, needs)
        for operand in instruction.operands:
            users = operand.users
            if users[instruction] == 1:
                del users[instruction]
            else:
                users[instruction] -= 1
        del self._instructions[instruction]
        if instruction.opcode == "parameter":
            self.parameters.remove(instruction)
        instruction.parent = None
        self.version += 1

    def replace_operand(self, user: Instruction, number: int, new: Instruction) -> None:
        """Make operand `number` of `user` be `new`."""
        old = user.operands[number]
        if old is new:
            return
        _drop_user(old, user)
        new.users[user] = new.users.get(user, 0) + 1
        user.operands = (*user.operands[:number], new, *user.operands[number + 1 :])
        self.version += 1

    def replace_in(self, user: Instruction, old: Instruction, new: Instruction) -> None:
        """Use `new` instead of each operand of `user` that is `old`."""
        for number, operand in enumerate(user.operands):
            if operand is old:
                self.replace_operand(user, number, new)

    def replace_all_uses(self, old: Instruction, new: Instruction) -> None:
        """Make every user of `old`, and the root, use `new`; `old` stays until it is removed."""
        if old is new:
            return
        for user, count in list(old.users.items()):
            user.operands = tuple([new if o is old else o for o in user.operands])
            new.users[user] = new.users.get(user, 0) + count
        old.users.clear()
        if self.root_ is old:
            self.root_ = new
        self.version += 1

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Replace `old` by `new` everywhere and remove `old` with what only it used.

        `new` gets the control dependencies of `old`, in both directions. Instructions between them
        (operands made for `new`) are free to move.

        Raises:
            InternalError: INGOT0900 `new` is of another shape.
        """
        if not old.shape.compatible(new.shape):
            raise InternalError(f"{old.name} of {old.shape} is replaced by {new.shape}")
        if new.metadata is NO_METADATA:
            new.metadata = old.metadata
        self.transfer_control_deps(old, new)
        self.replace_all_uses(old, new)
        self.remove_dead(old)

    def substitute(
        self, old: Instruction, new: Instruction, effects: Iterable[Instruction] = ()
    ) -> None:
        """Let `new` take the place of `old`, which is removed whatever effects it has.

        Its operands stay; see `transfer_control_deps`.
        """
        self.transfer_control_deps(old, new, effects)
        self.replace_all_uses(old, new)
        self.remove(old)

    def transfer_control_deps(
        self, old: Instruction, new: Instruction, effects: Iterable[Instruction] = ()
    ) -> None:
        """Give `new` the control predecessors and control successors of `old`.

        Control successors also wait for `effects`, which replace `old` beside its value.
        """
        if old is new:
            return
        before = old.control_predecessors
        if before:
            old.run_after(())
            # `new` may be a value that these need: then its users have to wait instead.
            waiting = list(old.users) if comes_before(new, before) else [new]
            for item in waiting:
                item.run_after((*dict.fromkeys((*item.control_predecessors, *before)),))
        if old.has_control_successors:
            self._put_before_waiting(old, (new, *effects))

    def _put_before_waiting(self, old: Instruction, new: Iterable[Instruction]) -> None:
        """Make the control successors of `old` wait for `new`."""
        given = tuple(new)
        for later in self._instructions:
            if old in later.control_predecessors:
                kept = (p for p in (*later.control_predecessors, *given) if p is not old)
                later.run_after(tuple(p for p in dict.fromkeys(kept) if p is not later))

    def remove_dead(self, start: Instruction) -> None:
        """Remove `start` and the operands that only it uses, transitively (parameters stay)."""
        stack = [start]
        while stack:
            item = stack.pop()
            if item.users or item is self.root_ or item.parent is not self:
                continue
            if item.opcode == "parameter" or has_side_effect(item):
                continue
            operands = item.operands
            self.remove(item)
            stack.extend(dict.fromkeys(operands))

    def set_attributes(self, instruction: Instruction, attributes: Any) -> None:
        """Give `instruction` other attributes (checked by the verifier, not here)."""
        instruction.attributes = attributes
        self.version += 1

    def set_extra(self, instruction: Instruction, extra: dict[str, str]) -> None:
        """Give `instruction` other attributes that are kept as text."""
        instruction.extra = extra
        self.version += 1

    def set_shape(self, instruction: Instruction, shape: Shape) -> None:
        """Give `instruction` another result shape (checked by the verifier, not here)."""
        instruction.shape = shape
        self.version += 1

    def copy_of(self, source: Instruction, operands: Iterable[Instruction]) -> Instruction:
        """Add a copy of `source` (from any computation) with other operands."""
        return self.insert(_copied(source, self.fresh_name(source.name), tuple(operands)))

    # ---- reads

    def post_order(self) -> list[Instruction]:
        """Return the instructions, operands before users; unused ones included, stable."""
        if self._order is not None and self._order[0] == self.version:
            return list(self._order[1])
        order = operands_first(self._instructions)
        self._order = (self.version, order)
        return list(order)

    @property
    def shape_text(self) -> str:
        """XLA's text of the signature: `(x: f32[2]) -> f32[2]`."""
        inner = ", ".join(f"{p.name}: {p.shape}" for p in self.parameters)
        return f"({inner}) -> {self.root.shape}"

    def callees(self) -> list[Computation]:
        """Return the computations called from here, each once; the list is the caller's."""
        if self._callees is not None and self._callees[0] == self.version:
            return list(self._callees[1])
        found = [called for one in self.calls_and_effects for called in one.called_computations]
        self._callees = (self.version, list(dict.fromkeys(found)))
        return list(self._callees[1])

    @property
    def calls_and_effects(self) -> list[Instruction]:
        """The instructions that may have side effects or call computations; not to be changed."""
        if self._calls_and_effects is None or self._calls_and_effects[0] != self.version:
            found = [one for one in self._instructions if one.definition.may_have_effects]
            self._calls_and_effects = (self.version, found)
        return self._calls_and_effects[1]

    @property
    def opcodes(self) -> frozenset[str]:
        """The opcodes of its instructions, without those of called computations."""
        if self._opcodes is None or self._opcodes[0] != self.version:
            found = frozenset([instruction.opcode for instruction in self._instructions])
            self._opcodes = (self.version, found)
        return self._opcodes[1]

    @property
    def stamp(self) -> tuple[int, ...]:
        """A value that changes when this computation, or one that it calls, is edited."""
        called = self.callees() if self.calls_and_effects else ()
        return (self.version, *[one.version for one in called])

    def clone(self, name: str = "") -> Computation:
        """Return a copy with the same called computations, in no module."""
        made = Computation(name or self.name)
        copies: dict[Instruction, Instruction] = {}
        for source in self.post_order():
            operands = source.operands
            if operands:
                operands = tuple([copies[operand] for operand in operands])
            copy = copies[source] = _copied(source, source.name, operands)
            copy.parent = made
            for operand in operands:
                users = operand.users
                users[copy] = users.get(copy, 0) + 1
            if source.control_predecessors:
                copy.run_after(tuple(copies[p] for p in source.control_predecessors))
        order = list(copies.values())
        made._instructions = dict.fromkeys(order)
        made._names = dict.fromkeys([copy.name for copy in order], 0)
        made._order = (made.version, order)
        made.parameters = [copies[parameter] for parameter in self.parameters]
        made.root_ = None if self.root_ is None else copies[self.root_]
        return made

    def fresh_name(self, name: str) -> str:
        """Return `name`, or the next free `name.N`, and reserve it."""
        names = self.module.names if self.module is not None else self._names
        return unique_name(names, name)

    def take_names(self, names: dict[str, int]) -> None:
        """Make every name here unique within `names` (done when a module takes it in)."""
        for instruction in self._instructions:
            instruction.name = unique_name(names, instruction.name)


def _copied(source: Instruction, name: str, operands: tuple[Instruction, ...]) -> Instruction:
    """Return a copy of `source` with other operands, in no computation yet."""
    made = Instruction(
        name, source.definition, operands, source.shape, source.attributes, source.metadata
    )
    if source.extra:
        made.extra = dict(source.extra)
    return made


def comes_before(first: Instruction, others: Iterable[Instruction]) -> bool:
    """Whether one of `others` is `first`, or must run after it."""
    return first in reachable(others, lambda one: (*one.operands, *one.control_predecessors))


def callees_first(
    starts: Iterable[Computation], skips: Callable[[Computation], bool] | None = None
) -> list[Computation]:
    """Return `starts` and the computations that they call, each once, callees first.

    Computations for which `skips` is true are left out, with those that only they call.
    """
    if skips is None:
        return needs_first([*starts], Computation.callees)

    def left(computations: Iterable[Computation]) -> list[Computation]:
        return [one for one in computations if not skips(one)]

    return needs_first(left(starts), lambda one: left(one.callees()))


def reached(start: Computation) -> Iterator[Computation]:
    """Yield `start` and the computations that it calls, each once, callers first.

    What a computation calls is asked for after it was yielded: it may be edited before.
    """
    return reachable([start], Computation.callees)


def reaches(
    instruction: Instruction,
    holds: Callable[[Instruction], bool],
    known: dict[Computation, bool] | None = None,
) -> bool:
    """Whether `holds` is true of the instruction or of one in a called computation, at any depth.

    `holds` is called for instructions that may have effects. `known` caches the answers for
    computations.
    """
    if not instruction.definition.may_have_effects:
        return False
    if holds(instruction):
        return True
    called = [one for one in instruction.called_computations if one.calls_and_effects]
    if not called:
        return False
    found = {} if known is None else known
    for one in callees_first(called, found.__contains__):
        inside = one.calls_and_effects
        found[one] = any(map(holds, inside)) or any(found[inner] for inner in one.callees())
    return any(found[one] for one in called)


def has_side_effect(instruction: Instruction, known: dict[Computation, bool] | None = None) -> bool:
    """Whether the instruction, or anything that it calls, has a side effect.

    `known` caches the answers for computations.
    """
    return instruction.definition.may_have_effects and reaches(
        instruction, has_effect_itself, known
    )


def has_effect_itself(instruction: Instruction) -> bool:
    """Whether the instruction has a side effect, apart from what it calls."""
    if instruction.opcode == "custom-call":
        return bool(instruction.attributes.custom_call_has_side_effect)
    return instruction.has(Trait.SIDE_EFFECT)


def _drop_user(operand: Instruction, user: Instruction) -> None:
    count = operand.users[user] - 1
    if count:
        operand.users[user] = count
    else:
        del operand.users[user]
