# SPDX-License-Identifier: Apache-2.0
"""Which kernels of a program share code: those of one form (`kernel.forms.form`).

A network's layers give kernels that differ in sizes alone. Where a program has several of a form,
they become one function with sizes in env, compiled once. A form that one kernel has is not worth
it: known numbers make better code.

Invariant: which kernels share depends on the program alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.kernel.expr import walk
from ingot.kernel.forms.form import Form, form_of
from ingot.kernel.ir import Kernel, LoopKernel
from ingot.kernel.schedule.decide import Vectors, schedule_loops


@dataclass(frozen=True, slots=True, eq=False)
class KernelCode:
    """A function to emit, and the kernels that it serves.

    Attributes:
        symbol: its name.
        kernel: what is emitted.
        form: if several share it.
        users: the kernels, with the sizes' values of each.
    """

    symbol: str
    kernel: Kernel
    form: Form | None
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])

    def called(self, made: EmittedKernel) -> Iterable[tuple[str, EmittedKernel]]:
        """Return how each kernel calls the function that was made."""
        for name, values in self.users.items():
            yield name, made if self.form is None else with_sizes(made, values)


def kernel_codes(kernels: Mapping[str, Kernel], vectors: Vectors) -> list[KernelCode]:
    """Return the functions to emit for kernels, by name."""
    found: list[KernelCode] = []
    alike: dict[object, dict[str, LoopKernel]] = defaultdict(dict)
    for name, kernel in kernels.items():
        if isinstance(kernel, LoopKernel):
            alike[_outline(kernel)][name] = kernel
        else:
            found.append(_own(name, kernel))
    for group in alike.values():
        if len(group) > 1:
            found.extend(_of_loops(group, vectors))
        else:
            found.extend(_own(name, kernel) for name, kernel in group.items())
    return found


def _own(name: str, kernel: Kernel) -> KernelCode:
    return KernelCode(name, kernel, None, {name: {}})


def _of_loops(kernels: Mapping[str, LoopKernel], vectors: Vectors) -> list[KernelCode]:
    """Return the functions for loop kernels that may be of one form."""
    found: list[KernelCode] = []
    forms: dict[str, dict[str, Form]] = defaultdict(dict)
    for name, kernel in kernels.items():
        form = form_of(kernel, schedule_loops(kernel, vectors))
        if form is None:
            found.append(_own(name, kernel))
        else:
            forms[f"k_{form.name}"][name] = form
    for symbol, users in forms.items():
        first, form = next(iter(users.items()))
        if len(users) == 1:
            found.append(_own(first, kernels[first]))
        else:
            values = {name: each.values for name, each in users.items()}
            found.append(KernelCode(symbol, form.kernel, form, values))
    return found


def _outline(kernel: LoopKernel) -> object:
    """Return what kernels of one form have in common and is quick to tell."""
    passes = tuple((len(p.axes), len(p.reductions), len(p.stores)) for p in kernel.passes)
    ops = tuple((item.op, item.dtype.name) for item in walk(kernel.exprs))
    return len(kernel.grid), passes, ops
