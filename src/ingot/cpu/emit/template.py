# SPDX-License-Identifier: Apache-2.0
"""Templates: code that is the same for all programs, with its sizes as parameters.

A driver of products, a sort by key, a micro-kernel, a function such as `exp`: each is compiled when
a machine first needs it, kept on its disk, and mapped once in a process (`cpu.library.parts`).
Kernels refer to its functions by name and pass numbers in env. A plan names the templates that it
needs and the numbers that it gives them.

Invariant: a template's name says all that its code depends on; equal names are equal code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol, TypeVar

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.optimization import PLAIN, Optimization
from ingot.support.records import record

Number = TypeVar("Number")


@record
class Template:
    """Code with declared parameters.

    Attributes:
        name: the prefix of all of its symbols.
        define: defines its functions in a module, visible to others.
        parameters: names of the numbers that its env holds, in their order; empty for functions
            that are called with arguments.
        how: what LLVM does with it.
    """

    name: str
    define: Callable[[ModuleBuilder], object] = field(compare=False, repr=False)
    parameters: tuple[str, ...] = field(default=(), compare=False)
    how: Optimization = field(default=PLAIN, compare=False)

    def given(self, *numbers: Number) -> tuple[Number, ...]:
        """Return what a call passes in env: one number for each parameter, in their order."""
        assert len(numbers) == len(self.parameters), f"{self.name} takes {self.parameters}"
        return numbers


class Function(Protocol):
    """A function that a module may hold itself, or call in the library."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def define(self, module: ModuleBuilder, linkage: str = ...) -> object:
        """Define it in a module."""
        ...


def template_of(function: Function) -> Template:
    """Return the template of a function that arguments are passed to."""
    return Template(function.name, lambda module: function.define(module, linkage=""))
