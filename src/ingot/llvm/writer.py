# SPDX-License-Identifier: Apache-2.0
"""The core of the text IR builder: module-level text and the instruction stream of one function.

`ModuleState` holds what functions share (declarations, globals, metadata); `FunctionWriter` holds
the lines of one function and numbers its values. The op families (`arithmetic`, `memory`,
`control`, `index`) are mixins over `FunctionWriter`; `builder` joins them.

Invariants: a block holds an instruction without effects once (`define_once`); text is appended,
never searched or rewritten, except for the phi slot of a loop header that is filled in when the
loop is closed. This is what makes the builder fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.intrinsics import INTRINSICS, fits
from ingot.llvm.types import I8, Type, array
from ingot.llvm.values import FunctionRef, Value, symbol_text
from ingot.support.diagnostics import InternalError


class ModuleState:
    """The shared state of a module's functions: declarations, globals, metadata, attributes."""

    __slots__ = (
        "_declares",
        "_globals",
        "_metadata",
        "_metadata_ids",
        "architecture",
        "contracts",
        "intrinsics",
        "name",
        "vector_bits",
    )

    def __init__(self, name: str, architecture: str = "x86", vector_bits: int = 0) -> None:
        """Start an empty module for `architecture` ("x86" or "nvptx").

        `vector_bits`: bits of the target's vector registers; masked accesses are split into pieces
        of that size (0: not split).
        """
        self.contracts = True
        self.name = name
        self.architecture = architecture
        self.vector_bits = vector_bits
        self.intrinsics: dict[tuple[str, Type, tuple[Type, ...]], FunctionRef] = {}
        self._declares: dict[str, tuple[FunctionRef, str]] = {}
        self._globals: dict[str, str] = {}
        self._metadata: list[str] = []
        self._metadata_ids: dict[str, str] = {}

    def declare(self, name: str, return_type: Type, param_types: Sequence[Type]) -> FunctionRef:
        """Declare an external function; declaring it again returns the first declaration.

        Raises:
            InternalError: the function is declared with other types.
        """
        known = self._declares.get(name)
        params = tuple(param_types)
        if known is not None:
            if known[0].return_type is not return_type or known[0].param_types != params:
                raise InternalError(f"{name} of {params} to {return_type} is {known[1]}")
            return known[0]
        symbol = symbol_text(name)
        reference = FunctionRef(name, return_type, params, symbol)
        types = ", ".join(item.text for item in params)
        text = f"declare {return_type.text} {symbol}({types})"
        self._declares[name] = (reference, text)
        return reference

    def metadata(self, body: str) -> str:
        """Return the `!N` of a metadata node with this body; equal bodies share a node."""
        found = self._metadata_ids.get(body)
        if found is None:
            found = self.distinct_metadata(body)
            self._metadata_ids[body] = found
        return found

    def distinct_metadata(self, body: str) -> str:
        """Return the `!N` of a new node; `{self}` in `body` stands for the node itself."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {body.replace('{self}', name)}")
        return name


class FunctionWriter:
    """The instruction stream of one function; values are `%vN`, blocks `bN`."""

    __slots__ = (
        "_blocks",
        "_count",
        "_factors",
        "_first",
        "_joined",
        "_known",
        "_off",
        "block_name",
        "lines",
        "module",
        "name",
        "params",
        "return_type",
        "terminated",
    )

    def __init__(
        self, module: ModuleState, name: str, return_type: Type, params: list[Value]
    ) -> None:
        """Open the function at its entry block; `ModuleBuilder.function` is the caller."""
        self.module = module
        self.name = name
        self.return_type = return_type
        self.params = params
        self.lines: list[str] = []
        self.block_name = "entry"
        self.terminated = False
        self._first: list[str] = []
        self._joined: dict[str, list[Value]] = {}
        self._known: dict[str, Value] = {}
        self._off: dict[str, tuple[bool, ...]] = {}
        self._factors: dict[str, tuple[Value, Value]] = {}
        self._count = 0
        self._blocks = 0

    def ill_typed(self, what: str, *operands: Value) -> InternalError:
        """Return the error that an op does not take operands of these types."""
        types = " and ".join(operand.type.text for operand in operands) or "nothing"
        return InternalError(f"{what} of {types} in '{self.name}'")

    def emit(self, text: str) -> None:
        """Append one instruction that defines nothing."""
        self.lines.append("  " + text)

    def define(self, type: Type, text: str) -> Value:
        """Append one instruction and return the value that it defines."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return Value(type, name)

    def define_once(self, type: Type, text: str) -> Value:
        """Return the value of an instruction without effects; a block has equal ones once."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.define(type, text)
        return found

    def reserve(self, type: Type) -> Value:
        """Return a name for a value whose instruction is written later (a phi)."""
        self._count += 1
        return Value(type, f"%v{self._count}")

    def block(self, label: str = "") -> str:
        """Return a new label; `open_block` starts it."""
        self._blocks += 1
        return f"{label or 'b'}{self._blocks}"

    def open_block(self, label: str) -> None:
        """Start the block `label`; the block before it must be terminated.

        Raises:
            InternalError: the block before it is not terminated.
        """
        if not self.terminated:
            raise InternalError(f"block '{self.block_name}' of '{self.name}' has no terminator")
        self.lines.append(label + ":")
        self.block_name = label
        self.terminated = False
        self._known = {}

    def terminate(self, text: str) -> None:
        """Append the terminator of the current block.

        Raises:
            InternalError: the block is terminated already.
        """
        if self.terminated:
            raise InternalError(f"block '{self.block_name}' of '{self.name}' is terminated twice")
        self.lines.append("  " + text)
        self.terminated = True

    def emit_alloca(self, type: Type, text: str) -> Value:
        """Append a stack slot to the entry block, wherever the stream is."""
        return self.at_entry(lambda: self.define(type, text))

    def at_entry(self, make: Callable[[], Value]) -> Value:
        """Return the value that `make` emits into the entry block, wherever the stream is.

        It may use the function's parameters and other values made by this method.
        """
        lines, self.lines = self.lines, self._first
        known, self._known = self._known, {}
        try:
            return make()
        finally:
            self.lines, self._known = lines, known

    @property
    def line_count(self) -> int:
        """The number of instructions and labels."""
        return len(self._first) + len(self.lines)

    def body_text(self) -> str:
        """Return the function's lines; every block must be terminated.

        Raises:
            InternalError: a block is not terminated.
        """
        if not self.terminated:
            raise InternalError(f"block '{self.block_name}' of '{self.name}' has no terminator")
        return "\n".join(["entry:", *self._first, *self.lines])

    def intrinsic(self, name: str, return_type: Type, args: Sequence[Value]) -> Value:
        """Call a whitelisted intrinsic; `name` has no overload suffix (`llvm.fma`)."""
        function = self.declared_intrinsic(name, return_type, args)
        return self._call(function.text, return_type, args, "")

    def declared_intrinsic(
        self, name: str, return_type: Type, args: Sequence[Value]
    ) -> FunctionRef:
        """Return the declaration of an intrinsic that takes values of these types.

        Raises:
            InternalError: the target has no such intrinsic (`INTRINSICS`), or not for these types.
        """
        types = tuple([item.type for item in args])
        key = (name, return_type, types)
        found = self.module.intrinsics.get(key)
        if found is not None:
            return found
        row = INTRINSICS.get(name)
        if row is None or self.module.architecture not in row.architectures:
            raise InternalError(
                f"intrinsic '{name}' is not in the whitelist of {self.module.architecture}",
                hint="add a row to ingot/llvm/intrinsics.py after compiling it once",
            )
        if not fits(row.signature, return_type, types):
            raise self.ill_typed(f"{name} to {return_type.text}", *args)
        full = name
        for position in row.overloads:
            full += "." + (return_type if position < 0 else types[position]).suffix
        found = self.module.intrinsics[key] = self.module.declare(full, return_type, types)
        return found

    def call(self, function: FunctionRef, args: Sequence[Value], attrs: str = "") -> Value:
        """Call `function`; the value of a void call is never to be used."""
        if tuple([item.type for item in args]) != function.param_types:
            raise self.ill_typed(f"call of {function.name}{function.param_types}", *args)
        return self._call(function.text, function.return_type, args, attrs)

    def call_indirect(
        self, pointer: Value, return_type: Type, param_types: Sequence[Type], args: Sequence[Value]
    ) -> Value:
        """Call through a pointer; `param_types` are checked against the arguments."""
        if pointer.type.kind != "pointer" or [item.type for item in args] != list(param_types):
            raise self.ill_typed(f"call of {tuple(param_types)} through", pointer, *args)
        return self._call(pointer.text, return_type, args, "")

    def inline_assembly(
        self,
        text: str,
        constraints: str,
        return_type: Type,
        args: Sequence[Value],
    ) -> Value:
        """Emit assembly text with LLVM's operand constraints (PTX that has no intrinsic)."""
        callee = f'asm sideeffect "{quoted(text)}", "{quoted(constraints)}"'
        return self._call(callee, return_type, args, "")

    def _call(self, callee: str, result: Type, args: Sequence[Value], attrs: str) -> Value:
        operands = ", ".join([f"{item.type.text} {item.text}" for item in args])
        text = (
            f"call {result.text} {callee}({operands}) {attrs}"
            if attrs
            else (f"call {result.text} {callee}({operands})")
        )
        if result.kind == "void":
            self.lines.append("  " + text)
            return Value(result, "")
        return self.define(result, text)


def quoted(text: str) -> str:
    """Return the inside of an LLVM string literal."""
    return "".join([_BYTE_TEXT[byte] for byte in text.encode()])


def bytes_global(symbol: str, data: bytes, align: int, constant: bool) -> str:
    """Return the text of a private global that holds `data`."""
    escaped = "".join([_BYTE_TEXT[byte] for byte in data])
    kind = "constant" if constant else "global"
    type_text = array(I8, len(data)).text
    return f'{symbol} = private unnamed_addr {kind} {type_text} c"{escaped}", align {align}'


_BYTE_TEXT = [
    chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}"
    for byte in range(256)
]
