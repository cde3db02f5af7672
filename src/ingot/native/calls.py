# SPDX-License-Identifier: Apache-2.0
"""Calls of native functions: of functions, of addresses, conversions, atomics, memory on the stack.

It is above `operators`. Invariant: arguments are checked against the callee's annotations, and a
function of Python is called at translation only if all its arguments are known then.
"""

from __future__ import annotations

import ast
from functools import reduce
from typing import Any, ClassVar, cast

from ingot.llvm.index import Index
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import I64, PTR
from ingot.llvm.values import Value
from ingot.native.expressions import Cases, Typed
from ingot.native.functions import Emitted, Native, Signature
from ingot.native.operations import likely, unlikely
from ingot.native.operators import Operators
from ingot.native.pointers import Array, Atomic, Pointer, Struct
from ingot.native.types import (
    BOOL,
    INT64,
    FunctionType,
    IntegerType,
    Known,
    NativeType,
    is_known,
    item_type,
    llvm_type,
    type_text,
)

_FETCH = {"fetch_add": "add", "fetch_sub": "sub", "fetch_or": "or"}
_ATOMIC = ", ".join(("load", "store", "exchange", *_FETCH, "compare_exchange"))


class Calls(Operators):
    """Expressions with calls."""

    def call(self, node: ast.Call) -> object:
        """Emit a call."""
        if node.keywords:
            self.refuse(node, f"`{ast.unparse(node)}`", "arguments by position")
        if isinstance(node.func, ast.Attribute):
            base = self.expression(node.func.value)
            receiver = self.run_time(node.func.value, base)
            if receiver is not None and not _is_function_field(receiver.type, node.func.attr):
                return self._method(node, node.func.attr, receiver)
            if isinstance(base, type) and issubclass(base, Pointer):
                return self._of_class(node, node.func.attr, base)
        callee = self.expression(node.func)
        if isinstance(callee, Typed):
            return self._indirect(node, callee)
        if isinstance(callee, Signature):
            return self._direct(node, callee)
        if isinstance(callee, IntegerType):
            return self._conversion(node, callee)
        if callee in (likely, unlikely):
            self.refuse(node, "a likelihood in an expression", "`if unlikely(condition):`")
        return self._known(node, callee)

    def _arguments(self, node: ast.Call, types: list[NativeType]) -> list[Value | Known]:
        """Emit arguments; those that translation knows are the objects themselves."""
        if len(node.args) != len(types):
            self.refuse(node, f"{len(node.args)} arguments", f"{len(types)} of them")
        return [
            self._known_object(each, of) if is_known(of) else self.value(each, of)
            for each, of in zip(node.args, types, strict=True)
        ]

    def _known_object(self, node: ast.expr, of: NativeType) -> Known:
        made = self.expression(node)
        if isinstance(made, Known) and isinstance(made, cast(type[Known], of)):
            return made
        self.refuse(node, f"{made!r} where a {type_text(of)} is wanted", "an object of that class")

    def _direct(self, node: ast.Call, callee: Signature) -> Typed:
        types = [of for _, of in callee.params]
        arguments = self._arguments(node, types)
        if isinstance(callee, Emitted):
            made: Any = callee.emit(self.f, *arguments)
            return Typed(callee.result, made)
        known = tuple([each for each in arguments if isinstance(each, Known)])
        if isinstance(callee, Native):
            callee = self.references.specialised(callee, known)
        values = [each for each in arguments if isinstance(each, Value)]
        return Typed(callee.result, self.f.call(self.references.reference(callee), values))

    def _indirect(self, node: ast.Call, callee: Typed) -> Typed:
        of = callee.type
        if not isinstance(of, FunctionType):
            self.refuse(node, f"a call of a {type_text(of)}", "calls of functions")
        if len(node.args) != len(of.params):
            self.refuse(node, f"{len(node.args)} arguments", f"{len(of.params)} of them")
        values = [self.value(each, kind) for each, kind in zip(node.args, of.params, strict=True)]
        types = [llvm_type(each) for each in of.params]
        return Typed(
            of.result, self.f.call_indirect(callee.value, llvm_type(of.result), types, values)
        )

    def _known(self, node: ast.Call, callee: Any) -> object:
        args = [self.expression(each) for each in node.args]
        if (callee is min or callee is max) and any(isinstance(each, Typed) for each in args):
            return self._extreme(node, callee is min, args)
        if any(isinstance(each, Typed) for each in args) or not callable(callee):
            self.refuse(
                node,
                f"a call of the Python function `{ast.unparse(node.func)}`",
                "calls of @native, @external and @emitted functions",
            )
        return callee(*args)

    def _extreme(self, node: ast.Call, is_least: bool, args: list[object]) -> Typed:
        """Emit `min(...)` or `max(...)` of numbers."""
        of = next(each.type for each in args if isinstance(each, Typed))
        if not isinstance(of, IntegerType) or of == BOOL:
            self.refuse(node, f"an order of {type_text(of)}", "orders of numbers")
        choose = self.f.imin if is_least else self.f.imax
        values: list[Index] = [self.as_value(node, each, of) for each in args]
        return Typed(of, self.f.as_value(reduce(choose, values)))

    def _conversion(self, node: ast.Call, to: IntegerType) -> object:
        """Emit `i64(x)`: booleans are 0 or 1, numbers keep their sign, or lose high bits."""
        made = self.expression(node.args[0])
        if not isinstance(made, Typed):
            return Typed(to, self.f.const(to.llvm, made))  # type: ignore[arg-type]
        of = made.type
        if not isinstance(of, IntegerType):
            self.refuse(node, f"a {type_text(of)} as a number", "address_of(pointer)")
        if of.llvm.bits > to.llvm.bits:
            return Typed(to, self.f.trunc(made.value, to.llvm))
        widen = self.f.zext if of == BOOL else self.f.sext
        return Typed(to, widen(made.value, to.llvm))

    def _of_class(self, node: ast.Call, method: str, of: type[Pointer]) -> Typed:
        """Emit `Class.at(pointer)` or `Class.on_stack()`."""
        f = self.f
        if method == "at":
            return Typed(of, self.as_value(node, self.expression(node.args[0]), Pointer))
        if method == "on_stack" and issubclass(of, Struct):
            return Typed(of, f.alloca(I64, of.c_layout.size // 8))
        if method == "on_stack" and issubclass(of, Array):
            count = self.value(node.args[0], INT64)
            room = f"alloca {item_type(of.item).text}, i64 {count.text}, align {LINE_BYTES}"
            return Typed(of, f.define(PTR, room))
        self.refuse(node, f"'{method}' of {type_text(of)}", "at, on_stack")

    def _method(self, node: ast.Call, method: str, receiver: Typed) -> Typed:
        of = receiver.type
        if not isinstance(of, type) or not issubclass(of, Atomic):
            self.refuse(node, f"'{method}' of a {type_text(of)}", "methods of Atomic")
        f, at, item = self.f, receiver.value, of.item
        orders: list[str] = []
        args: list[ast.expr] = []
        for each in node.args:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                orders.append(each.value)
            else:
                args.append(each)
        values = [self.value(each, item) for each in args]
        if method == "load":
            return Typed(item, f.atomic_load(llvm_type(item), at, *orders))
        if method == "store":
            f.atomic_store(values[0], at, *orders)
            return Typed(None, values[0])
        if method == "compare_exchange":
            return Typed(BOOL, f.cmpxchg(at, values[0], values[1], *orders)[1])
        if method == "exchange":
            word = values[0] if isinstance(item, IntegerType) else f.ptrtoint(values[0])
            before = f.atomicrmw("xchg", at, word, *orders)
            return Typed(item, before if isinstance(item, IntegerType) else f.inttoptr(before, PTR))
        if method in _FETCH:
            return Typed(item, f.atomicrmw(_FETCH[method], at, values[0], *orders))
        self.refuse(node, f"'{method}' of an Atomic", _ATOMIC)

    cases: ClassVar[Cases] = {**Operators.cases, ast.Call: call}


def _is_function_field(of: NativeType, name: str) -> bool:
    """Whether `pointer.name(...)` calls an address that a field holds."""
    return isinstance(of, type) and issubclass(of, Struct) and name in of.c_layout.names
