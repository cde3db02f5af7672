# SPDX-License-Identifier: Apache-2.0
"""The functions of a program's kernels: those with the same generic kernel share one.

The layers of a network give kernels that differ only in sizes. If several kernels of a program have
the same generic kernel (`kernel.generic.generalize`), they become one function with sizes in env,
compiled once. Any other kernel keeps its numbers, since these make better code.

Invariant: which kernels share depends on the program alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.strategies.plans import CodePlan, LoopCode, loop_code
from ingot.kernel.expr import walk
from ingot.kernel.generic.generalize import GenericKernel, generalized
from ingot.kernel.ir import LoopKernel
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
