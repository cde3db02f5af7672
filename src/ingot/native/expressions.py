# SPDX-License-Identifier: Apache-2.0
"""Expressions of native functions as instructions.

An expression is either `Typed`, a value of run time, or known: an object of Python that translation
computes (numbers, None, functions, classes, globals of the module). Numbers take the type of the
other operand, as Go's constants do. Invariant: all conversions are explicit in the source.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I1, I8, I64, PTR
from ingot.llvm.values import Value, zero
from ingot.native.functions import External, Native
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs, sizeof
from ingot.native.references import References
from ingot.native.types import (
    BOOL,
    INT64,
    FunctionType,
    IntegerType,
    NativeType,
    PointerType,
    TranslationError,
    item_type,
    llvm_type,
    type_text,
)
from ingot.support.diagnostics import SourceLocation

Cases = dict[type[ast.expr], Callable[[Any, Any], object]]


class Typed(NamedTuple):
    """A value of run time."""

    type: NativeType
    value: Value


class Variable(NamedTuple):
    """A local variable that is assigned more than once: it lives on the stack until SROA."""

    type: NativeType
    address: Value


class Expressions:
    """The expressions of one function; `scope` holds its local names."""

    def __init__(self, references: References, function: Native, f: FunctionBuilder) -> None:
        """Write into `f`."""
        self.references, self.function, self.f = references, function, f
        self.names = function.namespace
        self.scope: dict[str, Typed | Variable | int] = {}

    def refuse(self, node: ast.AST, message: str, allowed: str) -> NoReturn:
        """Raise the error for a piece of source."""
        file = self.function.function.__code__.co_filename
        line = getattr(node, "lineno", self.function.function.__code__.co_firstlineno)
        raise TranslationError(
            f"{message} in native function '{self.function.name}'",
            SourceLocation(file, line),
            allowed,
        )

    def expression(self, node: ast.expr) -> object:
        """Emit an expression; return a `Typed`, or the object if it is known."""
        case = self.cases.get(type(node))
        if case is None:
            names = ", ".join(sorted(each.__name__ for each in self.cases))
            self.refuse(node, f"the expression `{ast.unparse(node)}`", f"one of {names}")
        return case(self, node)

    def value(self, node: ast.expr, wanted: NativeType) -> Value:
        """Emit an expression of a type."""
        return self.as_value(node, self.expression(node), wanted)

    def as_value(self, node: ast.AST, made: object, wanted: NativeType) -> Value:
        """Return an emitted expression as a value of the type `wanted`."""
        if isinstance(made, Typed):
            if made.type == wanted or _is_upcast(made.type, wanted):
                return made.value
            self.refuse(
                node,
                f"a {type_text(made.type)} where a {type_text(wanted)} is wanted",
                "a conversion that is written: i64(number), Class.at(pointer)",
            )
        if isinstance(wanted, IntegerType) and isinstance(made, int) and wanted.holds(made):
            return self.f.const(wanted.llvm, made)
        if wanted is not None and not isinstance(wanted, IntegerType):
            if made is None:
                return zero(PTR)
            if isinstance(made, (Native, External)) and self._fits(made, wanted):
                return Value(PTR, self.references.reference(made).text)
            if isinstance(made, Pointer) and _is_upcast(type(made), wanted):
                return self.references.static(made)
        self.refuse(node, f"{made!r} where a {type_text(wanted)} is wanted", "a value of that type")

    def _fits(self, function: Native | External, wanted: NativeType) -> bool:
        if not isinstance(wanted, FunctionType):
            return wanted is Pointer
        given = (*(of for _, of in function.params), function.result)
        asked = (*wanted.params, wanted.result)
        return [llvm_type(of) for of in given] == [llvm_type(of) for of in asked]

    def run_time(self, node: ast.expr, made: object) -> Typed | None:
        """Return an emitted expression as a value of run time, None if its type is open."""
        if isinstance(made, Pointer):
            return Typed(type(made), self.references.static(made))
        if isinstance(made, bool):
            return Typed(BOOL, self.f.const(I1, made))
        return made if isinstance(made, Typed) else None

    def typed(self, node: ast.expr) -> Typed:
        """Emit an expression that determines its own type."""
        found = self.run_time(node, self.expression(node))
        if found is None:
            self.refuse(node, f"`{ast.unparse(node)}` has no type of its own", "i64(...)")
        return found

    def condition(self, node: ast.expr) -> Value | bool:
        """Emit a condition; a Python bool if it is known."""
        made = self.expression(node)
        if isinstance(made, Typed) and made.type == BOOL:
            return made.value
        if isinstance(made, bool):
            return made
        self.refuse(
            node, f"the condition `{ast.unparse(node)}`", "a bool: compare with 0, or `is None`"
        )

    def _constant(self, node: ast.Constant) -> object:
        return node.value

    def _name(self, node: ast.Name) -> object:
        found = self.scope.get(node.id)
        if found is None:
            if node.id in self.names:
                return self.names[node.id]
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id)
            self.refuse(node, f"'{node.id}' has no value here", "a name that every way assigns")
        if isinstance(found, Variable):
            return Typed(found.type, self.loaded(found))
        return found

    def loaded(self, variable: Variable) -> Value:
        """Load a variable; memory holds booleans as bytes."""
        f = self.f
        if variable.type == BOOL:
            return f.trunc(f.load(I8, variable.address), I1)
        return f.load(llvm_type(variable.type), variable.address)

    def _attribute(self, node: ast.Attribute) -> object:
        base = self.expression(node.value)
        if not isinstance(base, (Typed, Pointer)):
            return getattr(base, node.attr)
        pointer = self.run_time(node.value, base)
        assert pointer is not None
        of, address = self.field(node, pointer)
        if isinstance(of, type) and (issubclass(of, Atomic) or self.is_row(node, pointer)):
            return Typed(of, address)
        is_constant = cast(type[Struct], pointer.type).is_constant
        return Typed(of, self.f.load(llvm_type(of), address, invariant=is_constant))

    def is_row(self, node: ast.Attribute, struct: Typed) -> bool:
        """Return whether a field is an array that lies in the struct."""
        assert isinstance(struct.type, type)
        assert issubclass(struct.type, Struct)
        return struct.type.c_layout.count(node.attr) > 1

    def field(self, node: ast.Attribute, struct: Typed) -> tuple[NativeType, Value]:
        """Return type and address of a field."""
        of = struct.type
        if isinstance(of, type) and issubclass(of, Struct):
            try:
                return of.type_of(node.attr), self.f.gep(
                    struct.value, of.c_layout.offset(node.attr)
                )
            except KeyError:
                names = ", ".join(of.c_layout.names)
                self.refuse(node, f"'{node.attr}' is no field of {type_text(of)}", names)
        self.refuse(node, f"a field of a {type_text(of)}", "fields of structs")

    def _subscript(self, node: ast.Subscript) -> object:
        base: Any = self.expression(node.value)
        if not isinstance(base, (Typed, Pointer)):
            index = self.expression(node.slice)
            if isinstance(index, Typed):
                self.refuse(node, f"`{ast.unparse(node)}`", "items of an Array")
            return base[index]
        of, address = self.element(node, base)
        if of is not None and isinstance(address, Typed):
            return address
        assert isinstance(address, Value)
        return Typed(of, self.f.load(llvm_type(of), address))

    def element(self, node: ast.Subscript, base: object) -> tuple[NativeType, Value | Typed]:
        """Return type and address of an item; a `Typed` for a struct that lies there."""
        array = self.run_time(node.value, base)
        index = self.value(node.slice, INT64)
        of = None if array is None else array.type
        if array is not None and isinstance(of, type) and issubclass(of, (Array, Structs)):
            f, item = self.f, of.item
            if issubclass(of, Array):
                return item, f.gep(array.value, index, item_type(item))
            assert isinstance(item, type)
            assert issubclass(item, Struct)
            size = f.const(I64, sizeof(item))
            return item, Typed(item, f.gep(array.value, f.mul(index, size)))
        self.refuse(node, f"an item of a {type_text(of)}", "items of Array and Structs")

    cases: ClassVar[Cases] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
    }


def _is_upcast(of: object, wanted: NativeType) -> bool:
    """Whether a pointer is converted to a more general type: `Pointer` takes any."""
    return (
        isinstance(of, type)
        and isinstance(wanted, type)
        and issubclass(of, PointerType)
        and issubclass(of, wanted)
    )
