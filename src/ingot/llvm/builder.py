# SPDX-License-Identifier: Apache-2.0
"""The typed textual LLVM IR builder: `ModuleBuilder` makes modules, `FunctionBuilder` functions.

All of Ingot's code generators write IR through this builder. It writes text, because building text
and parsing it is 30 times faster than building llvmlite objects. Types are checked where an op
takes several operands, so a mistake is a Python error at the emitter's line, not a parse error.

Invariant: `text()` parses, and its order does not depend on hashing: equal calls, equal text.

Example:
    >>> from ingot.llvm.types import F32, I64, PTR, VOID
    >>> module = ModuleBuilder("example")
    >>> f = module.function("scale", VOID, [("x", PTR), ("n", I64)])
    >>> x, n = f.params
    >>> def body(i):
    ...     at = f.gep(x, i, F32)
    ...     f.store(f.mul(f.load(F32, at), f.const(F32, 2.0)), at)
    >>> f.for_range(n, body)
    >>> f.ret()
    >>> "fmul float" in module.text()
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ingot.llvm.control import Control
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import PTR, Type, is_bool
from ingot.llvm.values import FunctionRef, Scalar, Value, const, symbol_text, undef, zero
from ingot.llvm.writer import ModuleState, bytes_global
from ingot.support.diagnostics import InternalError
from ingot.support.records import record

__all__ = [
    "ALIGNED_STACK", "FunctionBuilder", "FunctionRef", "ModuleBuilder", "Subroutine", "Value",
    "const", "undef", "zero",
]  # fmt: skip


ALIGNED_STACK = '"frame-pointer"="all"'
"""For functions that keep vectors on the stack. LLVM aligns stack slots to vectors only where a
frame pointer is certain; a value stored across two cache lines cannot be read at once."""

CONSTANT_BYTES = 64
"""The alignment of vector constants in memory."""


class FunctionBuilder(Control):
    """One function under construction: every op of the families, and its parameters.

    Ops whose operands have types that do not fit raise InternalError, with the types and the
    function's name.
    """

    __slots__ = ("_constants", "_head", "_opt_level_0", "owner", "reference")

    def __init__(
        self,
        module: ModuleBuilder,
        reference: FunctionRef,
        params: list[Value],
        head: str,
        opt_level_0: bool,
    ) -> None:
        """Open the function; `ModuleBuilder.function` is the caller."""
        super().__init__(module, reference.name, reference.return_type, params)
        self.owner = module
        self.reference = reference
        self._head = head
        self._opt_level_0 = opt_level_0
        self._constants: dict[Value, Value] = {}

    @property
    def address(self) -> Value:
        """The function's address as an operand."""
        return Value(PTR, self.reference.text)

    def const(self, type: Type, value: Scalar | Sequence[Scalar]) -> Value:
        """Return a constant; see `values.const`."""
        return self._in_register(super().const(type, value))

    def splat(self, scalar: Value, lanes: int) -> Value:
        """Return a vector with `scalar` in every lane (the scalar itself for one lane)."""
        return self._in_register(super().splat(scalar, lanes))

    def _in_register(self, value: Value) -> Value:
        """Return a vector constant of a level-0 function as a load: FastISel supports no others.

        FastISel leaves whole blocks that have one to the slow instruction selector.
        """
        type = value.type
        if not self._opt_level_0 or value.text[0] == "%" or not type.is_vector or is_bool(type):
            return value
        found = self._constants.get(value)
        if found is None:
            text = f"private unnamed_addr constant {type.text} {value.text}, align {CONSTANT_BYTES}"
            address = self.owner.global_text(f"{self.name}_c{len(self._constants)}", text)
            found = self.at_entry(lambda: self.load(type, address, CONSTANT_BYTES))
            self._constants[value] = found
        return found

    def text(self) -> str:
        """Return the finished function."""
        return f"{self._head}{{\n{self.body_text()}\n}}"


@record
class Subroutine:
    """A function that many modules call, but rarely: its name determines its code.

    Attributes:
        name: its symbol.
        return_type, param_types: its signature.
        body: defines it in a module, with a linkage.
    """

    name: str
    return_type: Type
    param_types: tuple[Type, ...]
    body: Callable[[ModuleBuilder, str], FunctionRef]

    def define(self, module: ModuleBuilder, linkage: str = "internal") -> FunctionRef:
        """Define it in a module."""
        return self.body(module, linkage)


class ModuleBuilder(ModuleState):
    """A module under construction.

    Attributes:
        contracts: whether a product and a sum of floats may be one operation, rounded once.
        imports: whether the linker provides its subroutines.
        imported: the imported subroutines that it calls, by name.
    """

    __slots__ = ("_functions", "imported", "imports")

    def __init__(
        self,
        name: str,
        architecture: str = "x86",
        vector_bits: int = 0,
        *,
        imports: bool = False,
    ) -> None:
        """Start an empty module for `architecture` ("x86" or "nvptx"); see `ModuleState`."""
        super().__init__(name, architecture, vector_bits)
        self._functions: dict[str, FunctionBuilder] = {}
        self.imports = imports
        self.imported: dict[str, Subroutine] = {}

    @staticmethod
    def for_target(name: str, target: TargetSpec, *, imports: bool = False) -> ModuleBuilder:
        """Start an empty module of code for a target."""
        made = ModuleBuilder(name, target.architecture, target.vector_bits, imports=imports)
        made.contracts = target.contracts
        return made

    def function(
        self,
        name: str,
        return_type: Type,
        params: Sequence[tuple[str, Type]],
        *,
        linkage: str = "",
        param_attrs: Mapping[str, str] | None = None,
        attrs: str = "nounwind",
        opt_level_0: bool = False,
    ) -> FunctionBuilder:
        """Define a function; `param_attrs` maps a parameter's name to its attributes.

        `linkage` precedes the type: "internal", "private", a calling convention ("ptx_kernel").
        `opt_level_0`: it is written for level 0, at which LLVM compiles fast and optimizes little.

        Raises:
            InternalError: the module has a function of this name.
        """
        if name in self._functions or name in self._declares:
            raise InternalError(f"function '{name}' is already in module '{self.name}'")
        attributes = param_attrs or {}
        values = [Value(type, f"%{label}") for label, type in params]
        listed = ", ".join(
            f"{type.text} {attributes.get(label, '')} %{label}" for label, type in params
        )
        symbol = symbol_text(name)
        reference = FunctionRef(name, return_type, tuple(type for _, type in params), symbol)
        head = f"define {linkage} {return_type.text} {symbol}({listed}) {attrs} "
        builder = FunctionBuilder(self, reference, values, head, opt_level_0)
        self._functions[name] = builder
        return builder

    def defined(self, name: str) -> FunctionBuilder:
        """Return the function of this name, which must be defined already."""
        return self._functions[name]

    def helper(self, name: str, define: Callable[[ModuleBuilder], FunctionRef]) -> FunctionRef:
        """Return the function `name`, calling `define` the first time; for shared subroutines."""
        known = self._functions.get(name)
        return define(self) if known is None else known.reference

    def subroutine(self, code: Subroutine) -> FunctionRef:
        """Return a subroutine: declared if the module imports them, else defined here."""
        if not self.imports:
            return self.helper(code.name, code.define)
        self.imported[code.name] = code
        return self.declare(code.name, code.return_type, code.param_types)

    def global_bytes(self, name: str, data: bytes, align: int = 64, constant: bool = True) -> Value:
        """Return the address of a private global with these bytes.

        Raises:
            InternalError: the module has a global of this name.
        """
        if name in self._globals:
            raise InternalError(f"global '{name}' is already in module '{self.name}'")
        symbol = symbol_text(name)
        self._globals[name] = bytes_global(symbol, data, align, constant)
        return Value(PTR, symbol)

    def global_text(self, name: str, text: str, address: Type = PTR) -> Value:
        """Add a global by LLVM's own text after `@name =` (shared memory, tables of pointers)."""
        if name not in self._globals:
            self._globals[name] = f"{symbol_text(name)} = {text}"
        return Value(address, symbol_text(name))

    def text(self) -> str:
        """Return the whole module as LLVM IR."""
        parts = [f'source_filename = "{self.name}"']
        parts.extend(self._globals.values())
        parts.extend(text for _, text in self._declares.values())
        parts.extend(function.text() for function in self._functions.values())
        parts.extend(self._metadata)
        return "\n".join(parts) + "\n"
