# SPDX-License-Identifier: Apache-2.0
"""The strategies of the CPU in priority order, and the plan of a kernel: `plan_kernel`.

Each is asked once whether it takes a kernel, and gives a plan or says why not: library code that
needs nothing compiled, a driver of the library with an epilogue, or code of the kernel's own, which
takes whatever is left. Why the others refused stays with the kernel
(`executable.kernels[i].refused`).

Invariant: the plan depends on the kernel, its sizes, the target and the kernel passes that run.

Example:
    >>> [item.name for item in STRATEGIES if TopKKernel in item.kinds]
    ['selection']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ingot.cpu.library.parts import LibraryKernel
from ingot.cpu.strategies.generic_kernels import match_box_copies, match_generic
from ingot.cpu.strategies.plans import CodePlan, LoopCode, loop_code
from ingot.cpu.strategies.request import Request
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.generic.indexing import generic_indexing, generic_iota
from ingot.kernel.generic.reduction import generic_reduction
from ingot.kernel.ir import (
    AttentionKernel,
    ContractionKernel,
    ConvolutionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    SortKernel,
    TopKKernel,
    general_kernel,
)
from ingot.kernel.schedule.decide import Refusal
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError
from ingot.support.lazy import function_at_home
from ingot.support.records import record

Plan = LibraryKernel | CodePlan


@record
class Strategy:
    """A way to run kernels.

    Attributes:
        name: what reports call it.
        kinds: the kinds of kernels that it is asked about.
        match: returns the plan of a kernel, or why it does not take it.
    """

    name: str
    kinds: tuple[type[Kernel], ...]
    match: Callable[[Request], Plan | str]


def _match_loops(request: Request) -> Plan:
    return loop_code(request.loop_kernel, request.target, request.loops.schedule)


def _late(function: str) -> Callable[[Request], Plan | str]:
    """Return a matcher of kernels that few programs have: it is imported when one comes."""
    module, _, name = function.rpartition(".")
    return function_at_home(f"ingot.cpu.strategies.{module}", name)


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("filter gradient", (ConvolutionKernel,), _late("convolutions.match_filter_gradient")),
    Strategy("Winograd convolution", (ConvolutionKernel,), _late("convolutions.match_winograd")),
    Strategy("direct convolution", (ConvolutionKernel,), _late("convolutions.match_direct")),
    Strategy("product", (ContractionKernel,), _late("products.match_product")),
    Strategy("contraction", (ContractionKernel,), _late("contraction.match_contraction")),
    Strategy("attention", (AttentionKernel,), _late("attention.match_attention")),
    Strategy("library reduction", (LoopKernel,), match_generic(generic_reduction)),
    Strategy("library iota", (LoopKernel,), match_generic(generic_iota)),
    Strategy("box copies", (LoopKernel,), match_box_copies),
    Strategy("library gather or scatter", (LoopKernel,), match_generic(generic_indexing)),
    Strategy("loops", (LoopKernel,), _match_loops),
    Strategy("sorting network", (SortKernel,), _late("sorting_network.match_network")),
    Strategy("sort by key", (SortKernel,), _late("sorts.match_sort")),
    Strategy("merge sort", (SortKernel,), _late("sorts.match_merge_sort")),
    Strategy("Fourier transform", (FftKernel,), _late("transforms.match_transform")),
    Strategy("selection", (TopKKernel,), _late("selections.match_selection")),
)
"""In priority order. Drivers come before loops and contractions of a kernel's own, which take every
kernel of their kind. A convolution that no driver takes runs as its general kernel. Winograd comes
before direct sums: where it pays it is faster."""


@record
class Planned:
    """The plan of a kernel.

    Attributes:
        strategy: the name of the strategy that took it; of loops, the name of theirs.
        plan: how it runs.
        refused: strategies that come before it, and why each does not take the kernel.
    """

    strategy: str
    plan: Plan
    refused: tuple[Refusal, ...]


def plan_kernel(
    kernel: Kernel, target: TargetSpec, context: PassContext | None = None, label: str = ""
) -> Planned:
    """Return how a kernel runs on a target.

    Args:
        kernel: the kernel.
        target: what it runs on.
        context: which passes run on kernels that strategies build, and their record; default: all.
        label: what dumps of such kernels call them.

    Raises:
        InternalError: no strategy takes the kernel, or a pass left an invalid one (INGOT0932).
    """
    refused: list[Refusal] = []
    general = general_kernel(kernel)
    for asked in (kernel,) if general is kernel else (kernel, general):
        request = Request(asked, target, context, label)
        for strategy in _asked_about(type(asked)):
            found = strategy.match(request)
            if not isinstance(found, str):
                name = strategy.name
                if isinstance(found, LoopCode) and found.kernel is asked:
                    name = found.schedule.strategy.name
                    refused += request.loops.refused
                return Planned(name, found, tuple(refused))
            refused.append((strategy.name, found))
    raise InternalError("no strategy takes the kernel", notes=tuple(map(": ".join, refused)))


@cache
def _asked_about(kind: type[Kernel]) -> tuple[Strategy, ...]:
    return tuple(item for item in STRATEGIES if kind in item.kinds)
