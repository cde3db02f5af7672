# SPDX-License-Identifier: Apache-2.0
"""Translating native functions to functions of an LLVM module.

`Translation` is the entry of `ingot.native`: it translates requested functions and all that they
call. Sources are read when a module is built. Invariant: functions are in the order
in which they are requested and first mentioned, so equal sources give equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_named
from ingot.llvm.target import TargetSpec
from ingot.native.functions import Native
from ingot.native.references import References
from ingot.native.types import llvm_type


def compiled(
    name: str, packages: tuple[str, ...], functions: Callable[[], Iterable[Callable[..., Any]]]
) -> bytes:
    """Return the object of native functions, and of all that they call, for this machine.

    It comes from the cache, without translation, as long as none of its sources changes.

    Args:
        name: the module's name; one name has one text.
        packages: packages of Ingot, besides `support`, `llvm` and `native`, that have its sources.
        functions: returns the exported functions.
    """

    def text() -> str:
        module = ModuleBuilder(name)
        Translation(module).add(*functions())
        return module.text()

    sources = ("support", "llvm", "native", *packages)
    return compile_named(name, sources, text, TargetSpec.host()).result()


class Translation(References):
    """Translates native functions into a module."""

    def add(self, *functions: Callable[..., Any]) -> None:
        """Translate functions and all that they call."""
        for function in functions:
            self.reference(function)
        while self.requested:
            self._translate(self.requested.pop(0))

    def _translate(self, function: Native) -> None:
        # Imported here: a process that finds its objects in the cache translates nothing.
        from ingot.native.sources import definition_of
        from ingot.native.statements import Statements

        reference = self.reference(function)
        f = self.module.function(
            reference.name,
            reference.return_type,
            [(name, llvm_type(of)) for name, of in function.params],
            linkage="" if function.symbol else "internal",
            attrs=function.attributes,
        )
        Statements(self, function, f).translate(definition_of(function.function))
