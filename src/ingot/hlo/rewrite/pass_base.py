# SPDX-License-Identifier: Apache-2.0
"""Passes: their base class, their context, and how they are grouped.

A pass edits the module and says whether it changed anything. It neither verifies, nor dumps, nor
times: the runner does that for all of them (`rewrite.pass_runner`), and for the passes of kernels.
It is a function (`module_pass`) or, if it has options, a frozen dataclass, whose fields they are:

    @module_pass("dce")
    def dead_code_elimination(module: Module, context: PassContext) -> bool:

    @record
    class ConstantFolding(Pass):
        name = "constant-folding"
        element_limit: int = 1 << 16

        def run(self, module: Module, context: PassContext) -> bool: ...

Invariant: `run` returns False only if the module is as it was (checked in debug mode).

Source: xla/hlo/pass/hlo_pass_interface.h; xDSL passes.py (a pass's fields are its options).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import ClassVar, TypeVar

from ingot.hlo.computation import Computation
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.support.records import fresh, mutable, record


@record
class Stage:
    """The stage of a dump: after pass `after`, before pass `before`, of `pipeline`.

    `before` is empty after the last pass and `after` is empty before the first one. `label` says
    which kernel is dumped; it is empty for modules.
    """

    pipeline: str
    number: int
    after: str
    before: str
    label: str = ""

    def __str__(self) -> str:
        label = f".{self.label}" if self.label else ""
        after = f"after_{self.after}" if self.after else "start"
        before = f".before_{self.before}" if self.before else ""
        return f"{self.number:04d}.{self.pipeline}{label}.{after}{before}"


@record
class Firing:
    """One rewrite: the rule, where it is written, and the instruction that it replaced."""

    rule: str
    location: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.rule} ({self.location}): {self.before} => {self.after}"


@record
class PassTiming:
    """One execution of a pass: pipeline, pass, time in ns, and whether it changed the module."""

    pipeline: str
    name: str
    nanoseconds: int
    changed: bool


@mutable
class PassContext:
    """The context that all passes of one compilation share: options first, then records.

    Attributes:
        fp: licence granted to rewrites of floats.
        debug: 0 runs fast; 1 also verifies after passes that changed nothing and checks by
            fingerprint that they did not; a group without fixed point is an error.
        verify: whether changed modules are verified.
        verify_each: whether modules and kernels are verified after each pass, which names the
            culprit. Else modules are once, after the last pass, which saves a fifth of the passes'
            time, and kernels are not.
        disabled: names of passes and rules that do not run.
        dump: gets the module, or the loops of a kernel, at every stage at which it changed.
        to_text: prints a module for error reports (the printer lives in a higher layer).
        pass_fuel: how many pass executions are left, None for any number; bisecting sets it.
        rewrite_fuel: how many rule firings are left, None for any number.
        properties: properties that the module has now (`Pass.ensures`).
        log: every rule that fired.
        timings: every pass that ran.
        settled: version of a computation at which a rule set last found nothing more to do.
        remarks: messages for people: why a pass did or did not do something; `str` of each is made
            on demand, so it must not depend on anything that later passes change.
    """

    fp: Fp = Fp.CONTRACT
    debug: int = 0
    verify: bool = True
    verify_each: bool = True
    disabled: frozenset[str] = frozenset()
    dump: Callable[[Stage, object], None] | None = None
    to_text: Callable[[Module], str] | None = None
    pass_fuel: int | None = None
    rewrite_fuel: int | None = None
    properties: set[str] = fresh(factory=set)
    log: list[Firing] = fresh(factory=list)
    timings: list[PassTiming] = fresh(factory=list)
    settled: dict[tuple[int, Computation], int] = fresh(factory=dict)
    remarks: list[object] = fresh(factory=list)

    @property
    def runs_all(self) -> bool:
        """Whether no pass is left out: what is made is what any other compilation makes."""
        return not self.disabled and self.pass_fuel is None

    def may_run(self, name: str, *, lowers: bool = False) -> bool:
        """Whether a pass may run now; takes one unit of pass fuel if so.

        Args:
            name: the name of the pass.
            lowers: whether it runs even if disabled, because every program needs it.
        """
        left_out = name in self.disabled and not lowers
        if left_out or self.pass_fuel == 0:
            return False
        if self.pass_fuel is not None:
            self.pass_fuel -= 1
        return True

    def may_rewrite(self, rule: str) -> bool:
        """Whether rule `rule` may fire now; takes one unit of rewrite fuel if so."""
        if rule in self.disabled or self.rewrite_fuel == 0:
            return False
        if self.rewrite_fuel is not None:
            self.rewrite_fuel -= 1
        return True


@record
class Pass(ABC):
    """Base of passes.

    Attributes:
        name: XLA's name where XLA has the pass.
        concerns: words of a census (`hlo.rewrite.census`): where none of them is in a module, there
            is nothing to do and `ensures` holds; None: it may change any module.
        requires: properties of the module without which the pass does not work.
        ensures: properties that hold afterwards.
        breaks: properties that may no longer hold afterwards.
        lowers: whether every program needs it: if disabled by name, it does the necessary part.
    """

    name: ClassVar[str]
    concerns: ClassVar[frozenset[str] | None] = None
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset()
    breaks: ClassVar[frozenset[str]] = frozenset()
    lowers: ClassVar[bool] = False

    @abstractmethod
    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite `module`; return whether anything changed."""


Run = Callable[[Module, PassContext], bool]
"""Rewrites a module; returns whether anything changed."""

_Made = TypeVar("_Made", bound=Pass)


def module_pass(
    pass_name: str,
    *words: str,
    requires: Iterable[str] = (),
    ensures: Iterable[str] = (),
    lowers: bool = False,
) -> Callable[[Run], Pass]:
    """Make the decorated function the pass `pass_name`, which rewrites a module.

    `words`: what it concerns; without any it may change every module. The others: see `Pass`.
    """

    def make(function: Run) -> Pass:
        class Made(Pass):
            def run(self, module: Module, context: PassContext) -> bool:
                return function(module, context)

        Made.requires, Made.ensures, Made.lowers = frozenset(requires), frozenset(ensures), lowers
        return named_pass(Made, function, pass_name, words)

    return make


def named_pass(
    made: type[_Made], function: Callable[..., object], name: str, words: Iterable[str]
) -> _Made:
    """Return the pass of a class that was made for a function, whose name and docstring it gets."""
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    made.name, made.concerns = name, frozenset(words) or None
    return record(made)()


@record(eq=False)
class Group:
    """Base of groups of passes; `concerns` and `ensures` follow from their passes."""

    name: str
    passes: tuple[Step, ...]
    concerns: frozenset[str] | None = field(init=False, repr=False)
    ensures: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        words = [inner.concerns for inner in self.passes]
        known = [concerns for concerns in words if concerns is not None]
        concerns = frozenset[str]().union(*known) if len(known) == len(words) else None
        ensures = frozenset[str]().union(*(inner.ensures for inner in self.passes))
        object.__setattr__(self, "concerns", concerns)
        object.__setattr__(self, "ensures", ensures)


@record(eq=False)
class Pipeline(Group):
    """Passes and groups that run once each, in order."""


@record(eq=False)
class FixedPoint(Group):
    """Passes and groups that run in order, again and again, until none changes anything.

    `limit` bounds the rounds; meeting it means that two passes undo each other.
    """

    limit: int = 25


Step = Pass | Pipeline | FixedPoint


def passes_of(step: Step) -> Iterator[Pass]:
    """Yield every pass of a group, in order."""
    if isinstance(step, Pass):
        yield step
        return
    for inner in step.passes:
        yield from passes_of(inner)
