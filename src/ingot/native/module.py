# SPDX-License-Identifier: Apache-2.0
"""Translating native functions to functions of an LLVM module.

`Translation` is the entry of `ingot.native`: it translates requested functions and all that they
call. Sources are read when a module is built, each file once. Invariant: functions are in the order
in which they are requested and first mentioned, so equal sources give equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_named
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import PTR
from ingot.llvm.values import FunctionRef, Value, symbol_text
from ingot.native.functions import External, Native, llvm_signature
from ingot.native.pointers import Pointer
from ingot.native.statics import Static
from ingot.native.types import llvm_type
from ingot.support.diagnostics import InternalError


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


class Translation:
    """Translates native functions into a module."""

    def __init__(self, module: ModuleBuilder) -> None:
        """Translate into `module`."""
        self.module = module
        self._references: dict[Native, FunctionRef] = {}
        self._names: set[str] = set()
        self._waiting: list[Native] = []
        self._statics: dict[int, Value] = {}
        self._files: dict[str, Any] = {}

    def add(self, *functions: Callable[..., Any]) -> None:
        """Translate functions and all that they call."""
        for function in functions:
            self.reference(function)
        while self._waiting:
            self._translate(self._waiting.pop(0))

    def reference(self, function: Callable[..., Any]) -> FunctionRef:
        """Return a reference to a native or external function; a native one is translated later.

        Raises:
            InternalError: the function is not decorated with `@native`.
        """
        if isinstance(function, External):
            result, params = llvm_signature(function)
            return self.module.helper(
                function.symbol, lambda module: module.declare(function.symbol, result, params)
            )
        if not isinstance(function, Native):
            raise InternalError(f"{function!r} is no native function", hint="decorate it: @native")
        found = self._references.get(function)
        if found is None:
            name = function.symbol or self._internal_name(function)
            result, params = llvm_signature(function)
            found = FunctionRef(name, result, tuple(params), symbol_text(name))
            self._references[function] = found
            self._waiting.append(function)
        return found

    def static(self, pointer: Pointer) -> Value:
        """Return the address of a global, or an address within one (`pointer + bytes`).

        Raises:
            InternalError: the pointer is not one to a `static(...)`.
        """
        found = self._statics.get(pointer.address)
        if found is None:
            if isinstance(pointer.backing, Pointer):
                base, offset = pointer.backing, pointer.address - pointer.backing.address
                text = self.static(base).text
                return Value(PTR, f"getelementptr (i8, ptr {text}, i64 {offset})")
            if not isinstance(pointer.backing, Static):
                raise InternalError(f"{pointer!r} is no global of a module", hint="use static(...)")
            found = self._statics[pointer.address] = pointer.backing.define(
                self.module, self.static
            )
        return found

    def _internal_name(self, function: Native) -> str:
        file = function.function.__module__.rpartition(".")[2]
        name = f"{file}.{function.name}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def _translate(self, function: Native) -> None:
        # Imported here: a process that finds its objects in the cache translates nothing.
        from ingot.native.sources import definition_of
        from ingot.native.statements import Statements

        reference = self._references[function]
        f = self.module.function(
            reference.name,
            reference.return_type,
            [(name, llvm_type(of)) for name, of in function.params],
            linkage="" if function.symbol else "internal",
            attrs=function.attributes,
        )
        Statements(self, function, f).translate(definition_of(function.function, self._files))
