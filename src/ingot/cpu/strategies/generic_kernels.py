# SPDX-License-Identifier: Apache-2.0
"""Strategies of loops in the library: plain reductions, gathers, scatters, `iota`, box copies.

Each is given by a function of `kernel.generic` that finds the generic
kernel or says why there is none. Invariant: extents, steps, lengths and the schedule's numbers are
in env; the code depends on what the generic kernel's symbol says.

One function runs every kernel that only copies and fills boxes (`kernel.generic.box_copies`), as a
table of the kernel's lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.emit.loop.box_copies import BOX_COPIES, call_of
from ingot.cpu.emit.loop.kernel import emit_loop_kernel
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import CACHED_PARTS, LibraryKernel, LibraryPart, library_part
from ingot.cpu.strategies.request import Request
from ingot.kernel.generic.box_copies import MIN_BITS, box_copies
from ingot.kernel.generic.generalize import GenericKernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import Vectors
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


def match_box_copies(request: Request) -> LibraryKernel | str:
    """Return how the library runs a loop kernel that is nothing but copies of boxes."""
    kernel = request.loop_kernel
    copies = box_copies(kernel, request.loops.schedule, request.vectors)
    if isinstance(copies, str):
        return copies
    return LibraryKernel(
        call_of(copies, len(kernel.buffers)), tuple(common_box_copies(request.target))
    )


def common_box_copies(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what copies of boxes need."""
    if Vectors.of(target).bits >= MIN_BITS:
        yield library_part(target, BOX_COPIES)
