# SPDX-License-Identifier: Apache-2.0
"""Functions that compute one block of sums: their names, their strides, how a module calls them.

`MicroKernel` and `DotProducts` describe such functions. A stride that is known when the function is
emitted becomes a constant of its code; the others are parameters. A shared function lies in the
library and is declared where it is called; any other is defined, once, in the module that calls it.

Invariant: equal names are equal code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import Type
from ingot.llvm.values import Value


class BlockFunction(Protocol):
    """The description of a function that computes one block of sums."""

    @property
    def name(self) -> str:
        """Its symbol."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether its code lies in the library."""
        ...

    @property
    def strides(self) -> Mapping[str, int | None]:
        """Its strides by name, in elements; None: a parameter."""
        ...

    @property
    def params(self) -> Sequence[tuple[str, Type]]:
        """Its parameters."""
        ...

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define it in a module."""
        ...


def stride_params(function: BlockFunction) -> list[tuple[str, Type]]:
    """Return the parameters of the strides that are not known."""
    return [(name, lt.I64) for name, step in function.strides.items() if step is None]


def strides_text(function: BlockFunction) -> str:
    """Return the strides as the part of a name; `x` is a parameter."""
    return "_".join("x" if step is None else str(step) for step in function.strides.values())


def known_strides(function: BlockFunction, given: Mapping[str, Value]) -> dict[str, Index]:
    """Return every stride inside the function, whose parameters are `given`."""
    return {n: given[n] if step is None else step for n, step in function.strides.items()}


def call_block(
    f: FunctionBuilder, function: BlockFunction, args: Sequence[Value], strides: Sequence[Index]
) -> None:
    """Call a function with `args` and, of all its `strides`, those that it does not know."""
    known = function.strides.values()
    passed = [f.as_value(i) for i, step in zip(strides, known, strict=True) if step is None]
    f.call(_reference(f.owner, function), [*args, *passed])


def _reference(module: ModuleBuilder, function: BlockFunction) -> FunctionRef:
    if function.is_shared:
        return module.declare(function.name, lt.VOID, [type_ for _, type_ in function.params])
    return module.helper(function.name, function.define)
