# SPDX-License-Identifier: Apache-2.0
"""Generic kernels as library code: plain reductions, gathers and scatters, `iota`.

Each is a strategy of loop kernels, given by a function of `kernel.generic` that finds the generic
kernel or says why there is none. Invariant: extents, steps, lengths and the schedule's numbers are
in env; the code depends on what the generic kernel's symbol says.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.emit.loop.kernel import emit_loop_kernel
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import CACHED_PARTS, LibraryKernel, library_part
from ingot.cpu.strategies.request import Request
from ingot.kernel.generic.generalize import GenericKernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.support.recent import RecentTable

Find = Callable[[LoopKernel, LoopSchedule], GenericKernel | str]
"""Returns the generic kernel that the library has for a kernel, or why it has none."""

_emitted = RecentTable[tuple[TargetSpec, str], EmittedKernel](most=CACHED_PARTS)


def match_generic(find: Find) -> Callable[[Request], LibraryKernel | str]:
    """Return the strategy of the loop kernels that `find` finds."""

    def match(request: Request) -> LibraryKernel | str:
        found = find(request.loop_kernel, request.loops.schedule)
        if isinstance(found, str):
            return found
        if request.context.debug:
            verify_kernel(found.kernel, found.symbol)
        return library_kernel(request.target, found)

    return match


def library_kernel(target: TargetSpec, generic: GenericKernel) -> LibraryKernel:
    """Return how the library runs a generic kernel at the sizes that it was made from."""
    symbol = generic.symbol

    def define(module: ModuleBuilder) -> EmittedKernel:
        made = emit_loop_kernel(module, symbol, generic.kernel, generic.schedule, target.has_fma)
        return _emitted.keep((target, symbol), made)

    code = library_part(target, Template(symbol, define, tuple(sorted(generic.values))))
    made = _emitted.find((target, symbol))
    if made is None:
        # The object was kept; how it is called follows from emitting it once.
        made = define(ModuleBuilder.for_target(symbol, target))
    return LibraryKernel(with_sizes(made, generic.values), (code,))
