# SPDX-License-Identifier: Apache-2.0
"""Rules: a pattern, a replacement, the algebra as text, the licence that the rule needs.

Where the replacement is an expression too, a rule is one row (`identity`):

    identity("negate_subtract: -(x - y) => y - x", m.negate(m.subtract(x, y)), m.subtract(y, x),
             fp=Fp.SIGNED_ZERO)

Where it must be computed, a rule is a function whose docstring is the algebra:

    @rule(m.remainder(x, const(name="c", where=is_power_of_two)))
    def remainder_unsigned(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
        \"\"\"x % 2^k => x & (2^k - 1)\"\"\"
        return build.and_(x, build.full(int(splat_of(c)) - 1, x.shape))

The function's parameters are the names that the pattern binds; in addition, `root` is the matched
instruction and `build` a builder that adds to its computation. Returning None declines:
instructions that `build` added are removed. Licences concern floats: on other element types every
rule is exact.

Invariant: a rule never makes a program more expensive. A replacement that keeps an inner
instruction alive must not need more work than it removes; `once=True` in the pattern is the usual
way.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from types import ModuleType
from typing import Any, cast

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction, Metadata
from ingot.hlo.opdef import NoAttributes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import Bindings, Capture, Match, Op, Pattern, Splat
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError
from ingot.support.records import record

Replacement = Callable[..., Instruction | None]


class RuleBuilder(Builder):
    """The builder that rules get: remembers what it added."""

    def __init__(self, computation: Computation, metadata: Metadata) -> None:
        """Add to `computation`, with the user's location in `metadata`."""
        super().__init__(computation, metadata)
        self.made: list[Instruction] = []

    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: Shape | str | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """Add an instruction and remember it; the arguments are those of `Builder.emit`."""
        made = super().emit(opcode, *operands, shape=shape, name=name, **attributes)
        self.made.append(made)
        return made

    def like(
        self, source: Instruction, *operands: Instruction, shape: Shape | None = None
    ) -> Instruction:
        """Add an instruction with the op and attributes of `source` on other operands."""
        if source.definition.attributes is NoAttributes:
            return self.emit(source.opcode, *operands, shape=shape)
        values = {
            row.name: getattr(source.attributes, row.name) for row in source.definition.fields
        }
        return self.emit(source.opcode, *operands, shape=shape, **values)

    def undo(self) -> None:
        """Remove added instructions that are not used."""
        for instruction in reversed(self.made):
            kept = instruction.users or instruction.is_root or instruction.parent is None
            if not kept:
                self.computation.remove(instruction)


@record
class Rule:
    """One rewrite.

    Attributes:
        name: the function's name.
        doc: the algebra.
        pattern: the pattern that it matches.
        fp: the least licence under which it may touch floats.
        function: the replacement.
        location: `file:line` of its definition.
        parameters: the names that the function takes.
        examples: HLO lines that it fires on, where no generator can make them from the pattern.
    """

    name: str
    doc: str
    pattern: Op
    fp: Fp
    function: Replacement
    location: str
    parameters: tuple[str, ...]
    examples: tuple[str, ...]

    @cached_property
    def variants(self) -> tuple[tuple[Op, Match], ...]:
        """The variants of the pattern, each with its compiled matcher.

        A program has the ops of a fifth of the rules, so these are made when they are needed.
        """
        ops = [each for each in self.pattern.variants() if isinstance(each, Op)]
        return tuple([(each, each.compile()) for each in ops])

    def match(self, instruction: Instruction) -> Bindings | None:
        """Return the bindings of the pattern on `instruction`, or None."""
        return first_match((match for _, match in self.variants), instruction)

    def rewrite(
        self, root: Instruction, bindings: Bindings, build: RuleBuilder
    ) -> Instruction | None:
        """Return the replacement of `root`, or None without leftovers."""
        extra: dict[str, Any] = {**bindings, "root": root, "build": build}
        made = self.function(**{name: extra[name] for name in self.parameters})
        if made is None or made is root:
            build.undo()
            return None
        return made


Examples = str | tuple[str, ...]
"""One or more texts of HLO instructions on which a rule fires; the last instruction is the root.

They are for rules that no generator can make a program of, from the pattern alone. A name that no
instruction defines is a parameter: where it is first used, its shape stands before it.
"""


def rule(
    pattern: Op, *, fp: Fp = Fp.EXACT, example: Examples = ()
) -> Callable[[Replacement], Rule]:
    """Make the decorated function the replacement of `pattern`."""

    def make(function: Replacement) -> Rule:
        code = function.__code__
        given = code.co_varnames[: code.co_argcount]
        row = f"{function.__name__}: {inspect.getdoc(function) or ''}"
        location = _location(code.co_filename, code.co_firstlineno)
        return _rule(row, pattern, (function, given, location), fp, example)

    return make


def identity(
    row: str, pattern: Op, replacement: Pattern, *, fp: Fp = Fp.EXACT, example: Examples = ()
) -> Rule:
    """Return the rule that replaces `pattern` by another expression of the same names.

    `row` is the rule's name and its algebra. In the replacement, constants without a name get the
    shape of the root, and an op of several opcodes is that of the root.
    """

    def replaced(root: Instruction, build: RuleBuilder, **bindings: Instruction) -> Instruction:
        return _instantiated(replacement, root, build, bindings)

    here = inspect.currentframe()
    assert here is not None, "CPython has frames"
    assert here.f_back is not None, "the row is written somewhere"
    location = _location(here.f_back.f_code.co_filename, here.f_back.f_lineno)
    names = tuple(sorted(replacement.names))
    return _rule(row, pattern, (replaced, ("root", "build", *names), location), fp, example)


def _location(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}"


def _instantiated(
    pattern: Pattern, root: Instruction, build: RuleBuilder, bindings: Bindings
) -> Instruction:
    """Return the instruction that a replacement stands for, with all that it needs."""
    if isinstance(pattern, Capture):
        return bindings[pattern.name]
    if isinstance(pattern, Splat):
        return bindings[pattern.name] if pattern.name else build.full(pattern.value, root.shape)
    assert isinstance(pattern, Op)
    operands = [_instantiated(each, root, build, bindings) for each in pattern.operands or ()]
    opcode, *others = pattern.opcodes
    if others:
        return build.like(root, *operands)
    return build.emit(opcode, *operands, **dict(pattern.attributes))


def _rule(
    row: str,
    pattern: Op,
    replacement: tuple[Replacement, tuple[str, ...], str],
    fp: Fp,
    example: Examples,
) -> Rule:
    """Return a rule; `replacement` is a function, the names that it takes, and its location."""
    name, _, algebra = row.partition(": ")
    function, names, location = replacement
    unbound = set(names) - pattern.names - {"root", "build"}
    if unbound or not algebra:
        raise InternalError(f"rule {name}: unbound parameters {unbound} or no algebra")
    return Rule(
        name,
        algebra,
        pattern,
        fp,
        function,
        location,
        names,
        (example,) if isinstance(example, str) else example,
    )


Candidates = list[tuple[Rule, tuple[Match, ...]]]
"""Rules that may match, each with those of its variants that may."""

MAX_INDEXED = 3
"""Instructions of at most this many operands have their rules indexed by operand opcodes."""
MAX_KEPT = 4096
"""Combinations of opcodes whose rules a set caches; a program has some dozens."""


def first_match(matches: Iterable[Match], instruction: Instruction) -> Bindings | None:
    """Return the bindings of the first of `matches` that matches, or None."""
    for match in matches:
        bindings: Bindings = {}
        if match(instruction, bindings):
            return bindings
    return None


class RuleSet:
    """Rules indexed by the opcodes of root and operands, in the order in which they are tried."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Index `rules` by the opcodes of their roots.

        Raises:
            InternalError: two rules have one name.
        """
        self.rules = tuple(rules)
        index: dict[str, list[Rule]] = {}
        names: set[str] = set()
        for entry in self.rules:
            if entry.name in names:
                raise InternalError(f"two rules are called {entry.name}")
            names.add(entry.name)
            for opcode in entry.pattern.opcodes:
                index.setdefault(opcode, []).append(entry)
        self._by_opcode = index
        self._candidates: dict[tuple[str, ...], Candidates] = {}

    def candidates(self, instruction: Instruction) -> Candidates:
        """Return the rules that may match, by the opcodes of the instruction and its operands."""
        opcode, operands = instruction.opcode, instruction.operands
        if opcode not in self._by_opcode:
            return []
        # Many operands have too many combinations; they are all tried.
        many = len(operands) > MAX_INDEXED
        key = (opcode,) if many else (opcode, *[operand.opcode for operand in operands])
        found = self._candidates.get(key)
        if found is None:
            found = self._chosen(opcode, None if many else key[1:])
            if len(self._candidates) < MAX_KEPT:
                self._candidates[key] = found
        return found

    def _chosen(self, opcode: str, operands: tuple[str, ...] | None) -> Candidates:
        chosen: Candidates = []
        for entry in self._by_opcode[opcode]:
            kept = [
                match
                for variant, match in entry.variants
                if operands is None or variant.may_match(operands)
            ]
            if kept:
                chosen.append((entry, tuple(kept)))
        return chosen


def rules_in(*modules: ModuleType) -> tuple[Rule, ...]:
    """Return every rule defined in Python modules, alone or in a tuple, in the order of writing."""
    found: list[Rule] = []
    for value in (value for module in modules for value in vars(module).values()):
        rows = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        found += [row for row in rows if isinstance(row, Rule)]
    return tuple(found)
