# SPDX-License-Identifier: Apache-2.0
"""The driver: applies rules to a computation until none fires, with a worklist.

Every instruction is visited once, operands first; a rewrite puts its new instructions and the users
of the replaced one back on the list, so the work is linear in instructions and rewrites.

Invariant: the number of rewrites is bounded; a replacement has the shape of the replaced
instruction. Instructions with control dependencies are not rewritten.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import Kind
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Firing, PassContext
from ingot.hlo.rewrite.pattern import Bindings
from ingot.hlo.rewrite.rule import Candidates, Rule, RuleBuilder, RuleSet
from ingot.support.diagnostics import InternalError
from ingot.support.tracing import Level, log

_REWRITES_PER_INSTRUCTION = 16
_REWRITES_AT_LEAST = 256
_INEXACT = (Kind.FLOAT, Kind.COMPLEX)


def apply_rules(module: Module, rules: RuleSet, context: PassContext) -> bool:
    """Apply `rules` to every reachable computation, callees first; return whether one fired.

    Raises:
        InternalError: INGOT0914 a rule's result has another shape; INGOT0915 rules undo each other
            forever (debug; otherwise the driver stops).
    """
    changed = False
    for computation in module.post_order():
        changed = rewrite_computation(computation, rules, context) or changed
    return changed


def rewrite_computation(computation: Computation, rules: RuleSet, context: PassContext) -> bool:
    """Apply `rules` to one computation; return whether one fired."""
    key = (id(rules), computation)
    if context.settled.get(key) == computation.version:
        return False
    changed = _Driver(computation, rules, context).run()
    if not changed:
        context.settled[key] = computation.version
    return changed


class _Driver:
    def __init__(self, computation: Computation, rules: RuleSet, context: PassContext) -> None:
        self._computation = computation
        self._rules = rules
        self._context = context
        self._work: list[Instruction] = []
        self._waiting: set[Instruction] = set()
        self._left = _REWRITES_AT_LEAST + _REWRITES_PER_INSTRUCTION * len(computation)

    def run(self) -> bool:
        order = self._computation.post_order()
        self._work = order[::-1]
        self._waiting = set(order)
        pinned = _pinned(order)
        changed = False
        while self._work:
            instruction = self._work.pop()
            self._waiting.discard(instruction)
            if instruction.parent is None or instruction in pinned:
                continue
            if not (instruction.users or instruction.is_root):
                continue
            candidates = self._rules.candidates(instruction)
            if not candidates:
                continue
            changed = self._visit(instruction, candidates) or changed
            if self._left <= 0:
                self._give_up()
                break
        return changed

    def _visit(self, instruction: Instruction, candidates: Candidates) -> bool:
        """Fire the first rule that applies to `instruction`."""
        for entry, matches in candidates:
            if entry.fp > self._context.fp and touches_floats(instruction):
                continue
            for match in matches:
                bindings: Bindings = {}
                if match(instruction, bindings):
                    break
            else:
                continue
            build = RuleBuilder(self._computation, instruction.metadata)
            made = entry.rewrite(instruction, bindings, build)
            if made is None:
                continue
            if not self._context.may_rewrite(entry.name):
                build.undo()
                continue
            self._replace(entry, instruction, made, build)
            return True
        return False

    def _replace(self, entry: Rule, old: Instruction, new: Instruction, build: RuleBuilder) -> None:
        if not new.shape.compatible(old.shape):
            raise InternalError(
                f"rule {entry.name} ({entry.location}) made {new.shape} of {old.shape}",
                code="INGOT0914",
                instruction=repr(old),
            )
        firing = Firing(entry.name, entry.location, repr(old), repr(new))
        self._context.log.append(firing)
        log(Level.REWRITE, "rule.fired", rule=entry.name, location=entry.location, on=old.name)
        again = [*old.users, *build.made, new]
        self._computation.replace(old, new)
        build.undo()
        for instruction in again:
            if instruction not in self._waiting and instruction.parent is not None:
                self._waiting.add(instruction)
                self._work.append(instruction)
        self._left -= 1

    def _give_up(self) -> None:
        last = [str(firing) for firing in self._context.log[-8:]]
        log(Level.COMPILATION, "rules.no_fixed_point", computation=self._computation.name)
        if self._context.debug:
            raise InternalError(
                f"rules undo each other in {self._computation.name}",
                code="INGOT0915",
                notes=tuple(last),
            )


def touches_floats(instruction: Instruction) -> bool:
    """Whether the instruction reads or makes floating-point or complex numbers."""
    return instruction.shape.dtype.kind in _INEXACT or any(
        operand.shape.dtype.kind in _INEXACT for operand in instruction.operands
    )


def _pinned(order: list[Instruction]) -> set[Instruction]:
    """The instructions on either side of a control dependency."""
    found: set[Instruction] = set()
    for instruction in order:
        if instruction.control_predecessors:
            found.add(instruction)
            found.update(instruction.control_predecessors)
    return found
