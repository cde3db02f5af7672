# SPDX-License-Identifier: Apache-2.0
"""Kernels of a module: each fusion lowered, scheduled, emitted; equal kernels compiled once.

`KernelSet` gathers the kernels that one program needs. Those that this process has compiled before
are reused by address; the rest share one LLVM module, so one compilation. Objects are cached on
disk by content (`ingot.llvm.cache`). How a kernel runs is decided by strategies
(`ingot.cpu.strategies`); those that run in the library have no code of their own.

The layers of a network give kernels that differ only in sizes. If several kernels of a program have
the same generic kernel (`kernel.generic.generalize`), they become one function with sizes in env
(`kernel_codes`). Any other kernel keeps its numbers, since these make better code.

Invariant: which kernels share code depends on the program alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ingot.cpu.code import Code, CompiledKernel, CompiledLoops, InlinedKernel, RegisterLoop
from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.emit.template import Template
from ingot.cpu.inlining import calls_library, is_small
from ingot.cpu.library.parts import LibraryKernel, LibraryPart, library_part, shared_addresses
from ingot.cpu.library.subroutines import subroutine_part
from ingot.cpu.strategies.plans import CodePlan, LoopCode, ScheduledCode, loop_code
from ingot.cpu.strategies.table import Planned, plan_kernel
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host.program_kernels import ProgramKernels
from ingot.host.unsupported import with_origin
from ingot.kernel.expr import walk
from ingot.kernel.generic.generalize import GenericKernel, generalized
from ingot.kernel.ir import Kernel, LoopKernel, general_kernel
from ingot.kernel.schedule.decide import Refusal, decide_loops
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import map_objects
from ingot.llvm.machine_model import MachineModel, Vectors
from ingot.llvm.optimization import PLAIN, SIMPLE, Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import UnsupportedError
from ingot.support.later import Later, usable_cpus
from ingot.support.lazy import function_at_home
from ingot.support.recent import RecentTable
from ingot.support.records import fresh, record


@record(eq=False)
class KernelCode:
    """A function to emit, and the kernels that it serves.

    Attributes:
        symbol: its name.
        plan: the code to emit.
        is_shared: whether several kernels share it, so that their sizes are in env.
        users: the kernels, with the sizes' values of each.
    """

    symbol: str
    plan: CodePlan
    is_shared: bool
    users: Mapping[str, Mapping[str, int]] = fresh(factory=dict)

    def called(self, made: EmittedKernel) -> Iterable[tuple[str, EmittedKernel]]:
        """Return how each kernel calls the function that was made."""
        for name, values in self.users.items():
            yield name, with_sizes(made, values) if self.is_shared else made


def kernel_codes(plans: Mapping[str, CodePlan]) -> list[KernelCode]:
    """Return the functions to emit for kernels, by name."""
    found: list[KernelCode] = []
    alike: dict[object, dict[str, LoopCode]] = defaultdict(dict)
    for name, plan in plans.items():
        if isinstance(plan, LoopCode):
            alike[_outline(plan.kernel)][name] = plan
        else:
            found.append(_own(name, plan))
    for group in alike.values():
        if len(group) > 1:
            found.extend(_of_loops(group))
        else:
            found.extend(_own(name, plan) for name, plan in group.items())
    return found


def _own(name: str, plan: CodePlan) -> KernelCode:
    return KernelCode(name, plan, False, {name: {}})


def _of_loops(plans: Mapping[str, LoopCode]) -> list[KernelCode]:
    """Return the functions for loop kernels that may have the same generic kernel."""
    found: list[KernelCode] = []
    alike: dict[str, dict[str, GenericKernel]] = defaultdict(dict)
    for name, plan in plans.items():
        generic = generalized(plan.kernel, plan.schedule)
        if isinstance(generic, str):
            found.append(_own(name, plan))
        else:
            alike[generic.symbol][name] = generic
    for symbol, users in alike.items():
        first, generic = next(iter(users.items()))
        if len(users) == 1:
            found.append(_own(first, plans[first]))
        else:
            values = {name: each.values for name, each in users.items()}
            plan = loop_code(generic.kernel, plans[first].target, generic.schedule)
            found.append(KernelCode(symbol, plan, True, values))
    return found


def _outline(kernel: LoopKernel) -> object:
    """Return what kernels with the same generic kernel have in common and is cheap to compute."""
    passes = tuple((len(p.axes), len(p.reductions), len(p.stores)) for p in kernel.passes)
    ops = tuple((item.op, item.dtype.name) for item in walk(kernel.exprs))
    return len(kernel.grid), passes, ops


verify_plan = function_at_home("ingot.kernel.plan_verifier", "verify_plan")
verify_schedule = function_at_home("ingot.kernel.schedule.verifier", "verify_schedule")
plan_text = function_at_home("ingot.cpu.strategies.text", "plan_text")

MODULE_WEIGHT = 150
"""Least work of a module, in the units of plans' weights: less is not worth a module of its own."""

LATER = 1.15
"""Emitting a group takes about 1/7 of compiling it, and groups are emitted one after the other.
Each is smaller than the one before by this factor, so that all finish together."""

CACHE_BYTES = 16 << 20
"""IR and objects of kernels that stay while no program uses them."""

INSIDE = "inside its loop"
"""The strategy of a small kernel of a loop."""

Job = tuple[Code, Later[bytes]]
"""A module and its object."""


class KernelSet(ProgramKernels):
    """The kernels of one program, by fusion instruction.

    Attributes:
        target: what code is made for.
        pending: plans whose code is not compiled yet, by the kernels' names.
        compiled: kernels with code.
        inlined: small kernels of loops, which are emitted where they are called.
        loops: loops that are functions.
    """

    def __init__(self, target: TargetSpec, context: PassContext | None = None) -> None:
        """Have no kernels."""
        super().__init__(context or PassContext())
        self.target = target
        self.pending: dict[str, CodePlan] = {}
        self.compiled: dict[str, CompiledKernel] = {}
        self.inlined: dict[str, InlinedKernel] = {}
        self.loops = CompiledLoops({})
        self._planned: dict[str, Planned] = {}
        self._jobs: list[Job] = []

    @property
    def sources(self) -> Mapping[str, Kernel]:
        """The kernel IR of each kernel, by name."""
        every = chain(self.compiled.items(), self.inlined.items())
        return {name: made.kernel for name, made in every}

    def add(self, fusion: Instruction, *, in_loop: bool = False) -> None:
        """Lower a fusion; equal ones share a kernel, small ones of loops go to `inlined`."""
        name, kernel = self.lowered(fusion)
        if in_loop and self._inline(name, general_kernel(kernel)):
            return
        if name in self.compiled or name in self.pending:
            return
        known = _known.find((self.target, name)) if self.context.runs_all else None
        if known is not None:
            self.compiled[name] = known
            return
        planned = plan_kernel(kernel, self.target, self.context, fusion.attributes.calls.name)
        plan = planned.plan
        if isinstance(plan, LibraryKernel):
            self.compiled[name] = CompiledKernel(
                name, kernel, plan.emitted, None, plan.parts, planned.strategy, planned.refused
            )
        else:
            self.pending[name], self._planned[name] = plan, planned

    def _inline(self, name: str, kernel: Kernel) -> bool:
        """Add a small kernel of a loop to `inlined`; return whether it is one that can be there."""
        if name in self.inlined or not isinstance(kernel, LoopKernel) or not is_small(kernel):
            return name in self.inlined
        decided = decide_loops(kernel, Vectors.of(self.target))
        if calls_library(decided.schedule):
            return False
        self.inlined[name] = InlinedKernel(kernel, decided.schedule, decided.refused)
        self._verify(decided.schedule.kernels, decided.schedule.strategy.name)
        self._verify_schedule(kernel, decided.schedule)
        return True

    def _parts(self, needed: Iterable[Template]) -> tuple[LibraryPart, ...]:
        return tuple(library_part(self.target, item) for item in dict.fromkeys(needed))

    def emit(self) -> None:
        """Emit pending kernels and begin to compile it, on other CPUs where there are some.

        The thread that waits for the last module compiles it: another one would first have to warm
        its memory and caches, which takes some milliseconds.
        """
        codes = kernel_codes(self.pending)
        for function in codes:
            plan = function.plan
            self._verify(plan.kernels, self._planned[next(iter(function.users))].strategy)
            if isinstance(plan, LoopCode):
                self._verify_schedule(plan.kernel, plan.schedule)
            elif isinstance(plan, ScheduledCode) and self.context.debug:
                verify_plan(plan.kernel, plan.schedule)
        groups = share_out(codes, usable_cpus())
        for group in groups:
            target = self.target
            module = ModuleBuilder.for_target("kernels", target, imports=True)
            emitted = [self._emitted(module, function) for function in group]
            is_simple = all(function.plan.how == SIMPLE for function in group)
            imported = tuple(subroutine_part(self.target, i) for i in module.imported.values())
            parts = [self._parts(made.templates) + imported for made in emitted]
            every = tuple(dict.fromkeys(chain.from_iterable(parts)))
            code = Code(module.text(), SIMPLE if is_simple else PLAIN, every)
            for function, made, shared in zip(group, emitted, parts, strict=True):
                for name, how in function.called(made):
                    kernel, planned = self.pending[name].kernel, self._planned[name]
                    self.compiled[name] = CompiledKernel(
                        name, kernel, how, code, shared, planned.strategy, planned.refused
                    )
            self._jobs.append(self._job(code, begins=group is not groups[-1]))

    def _verify(self, kernels: Iterable[Kernel], made_by: str) -> None:
        """Verify kernels that no pass sees, in debug mode; the error names who made them."""
        for kernel in kernels if self.context.debug else ():
            verify_kernel(kernel, made_by)

    def _verify_schedule(self, kernel: LoopKernel, schedule: LoopSchedule) -> None:
        if self.context.debug:
            verify_schedule(kernel, schedule)

    def _job(self, code: Code, *, begins: bool) -> Job:
        made = Later(partial(compile_object, code.text, self.target, code.how))
        if begins:
            made.begin()
        return code, made

    def _emitted(self, module: ModuleBuilder, function: KernelCode) -> EmittedKernel:
        try:
            return function.plan.emit(module, function.symbol)
        except UnsupportedError as error:
            fusion = next(fusion for fusion, name in self.names.items() if name in function.users)
            raise with_origin(error, fusion.attributes.calls) from error

    def add_loops(
        self,
        loops: dict[Instruction, RegisterLoop],
        module: ModuleBuilder,
        how: Optimization,
    ) -> None:
        """Begin to compile loops that are functions of `module`."""
        imported = tuple(subroutine_part(self.target, item) for item in module.imported.values())
        code = Code(module.text(), how, imported)
        self.loops = CompiledLoops(loops, code, imported)
        self._jobs.insert(0, self._job(code, begins=bool(self._jobs)))

    def finish(self) -> None:
        """Wait for the machine code and map it.

        What was begun last comes first: helpers begin at the other end.
        """
        for code, made in reversed(self._jobs):
            code.object = made.result()
        self.parts()
        if not self._jobs:
            return
        needed = shared_addresses(part for code, _ in self._jobs for part in code.shared)
        library = map_objects([code.object for code, _ in self._jobs], self.target, needed)
        for code, _ in self._jobs:
            code.library = library
        for name in self.pending if self.context.runs_all else ():
            kernel = self.compiled[name]
            _known.keep((self.target, name), kernel, kernel.bytes)
        self.pending.clear()
        self._planned.clear()
        self._jobs.clear()

    def of(self, fusion: Instruction) -> CompiledKernel:
        """Return the kernel of a fusion; it has machine code after `finish`."""
        return self.compiled[self.names[fusion]]

    def strategy(self, fusion: Instruction) -> str:
        """Return in words how the kernel of a fusion runs."""
        name = self.names[fusion]
        return INSIDE if name in self.inlined else self.compiled[name].strategy

    def schedule(self, name: str) -> str:
        """Return how the kernel of a name runs, and the strategies that refused it.

        It is planned again, as it was when it was added.
        """
        inlined = self.inlined.get(name)
        if inlined is not None:
            plan = loop_code(inlined.kernel, self.target, inlined.schedule)
            return plan_text(Planned(INSIDE, plan, inlined.refused))
        made = self.compiled[name]
        planned = plan_kernel(made.kernel, self.target)
        return plan_text(Planned(made.strategy, planned.plan, made.refused))

    def refused(self, fusion: Instruction) -> tuple[Refusal, ...]:
        """Return the strategies that do not take the kernel of a fusion, and why."""
        name = self.names[fusion]
        inlined = self.inlined.get(name)
        return self.compiled[name].refused if inlined is None else inlined.refused

    @property
    def model(self) -> MachineModel:
        """The rates of the target, by the table of CPUs."""
        return MachineModel.of(self.target)

    def imports(self) -> dict[str, int]:
        """Return the addresses of every kernel function that a host program may call."""
        found: dict[str, int] = {}
        for kernel in self.compiled.values():
            found |= kernel.addresses()
        return found | self.loops.addresses()

    @property
    def _held(self) -> tuple[CompiledKernel | CompiledLoops, ...]:
        return (*self.compiled.values(), self.loops)

    def objects(self) -> tuple[bytes, ...]:
        """Return the distinct ELF objects that hold the program's own kernels and loops."""
        codes = (one.code for one in self._held)
        return tuple(dict.fromkeys(code.object for code in codes if code is not None))

    def parts(self) -> tuple[bytes, ...]:
        """Return the distinct ELF objects of the library that `objects` and kernels need.

        An object may hold kernels of an earlier program beside those of this one.
        """
        codes = (one if one.code is None else one.code for one in self._held)
        shared = dict.fromkeys(part for one in codes for part in one.shared)
        return tuple(dict.fromkeys(part.object for part in reversed(shared)))

    def tables(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the tables of numbers that kernels read, by symbol."""
        kernels = self.compiled.values()
        return dict(item for kernel in kernels for item in kernel.emitted.tables.items())

    def llvm_modules(self) -> list[tuple[str, Optimization]]:
        """Return the distinct modules of the kernels and the loops: LLVM IR, and what LLVM does."""
        return list(dict.fromkeys(module for one in self._held for module in one.llvm_modules))


def share_out(functions: Iterable[KernelCode], cpus: int) -> list[list[KernelCode]]:
    """Return groups that are compiled at about the same time, one for each CPU that is worth it."""
    weights = {function: function.plan.weight for function in functions}
    count = min(cpus, 1 + sum(weights.values()) // MODULE_WEIGHT, len(weights))
    groups: list[list[KernelCode]] = [[] for _ in range(count)]
    loads = [0] * count
    for function in sorted(weights, key=lambda function: -weights[function]):
        lightest = min(range(count), key=lambda group: loads[group] * LATER**group)
        groups[lightest].append(function)
        loads[lightest] += weights[function]
    return groups


_known = RecentTable[tuple[TargetSpec, str], CompiledKernel](most=CACHE_BYTES)


def forget_kernels() -> None:
    """Compile every kernel anew from now on; code in use stays."""
    _known.clear()
