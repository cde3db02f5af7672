# SPDX-License-Identifier: Apache-2.0
"""References of native functions: to other functions, and to globals of the module.

Below the emission of expressions and statements. Invariant: a function is requested when it is
first mentioned, and has one symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import PTR
from ingot.llvm.values import FunctionRef, Value, symbol_text
from ingot.native.functions import External, Native, llvm_signature
from ingot.native.pointers import Pointer
from ingot.native.statics import Static
from ingot.native.types import Known
from ingot.support.diagnostics import InternalError


class References:
    """The functions and globals that a module of native functions mentions.

    Attributes:
        module: the module.
        requested: native functions that are mentioned and not translated yet.
    """

    def __init__(self, module: ModuleBuilder) -> None:
        """Mention nothing yet."""
        self.module = module
        self._references: dict[Native, FunctionRef] = {}
        self._specialised: dict[tuple[object, ...], Native] = {}
        self._names: set[str] = set()
        self.requested: list[Native] = []
        self._statics: dict[int, Value] = {}

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
            self._specialised.setdefault(function.identity, function)
            self.requested.append(function)
        return found

    def specialised(self, function: Native, known: tuple[Known, ...]) -> Native:
        """Return a function for the objects that its `Known` parameters stand for, in order.

        If the module exports it for these objects, that is the one.
        """
        if not known:
            return function
        found = self._specialised.get((function.function, *known))
        if found is None:
            found = self._specialised[function.function, *known] = function.specialised(known)
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
