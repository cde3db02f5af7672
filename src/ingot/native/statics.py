# SPDX-License-Identifier: Apache-2.0
"""Globals of a module that native functions name: structs, arrays, texts, a word.

Each is a pointer that plain Python reads and writes, and that translation turns into a global of
the module. Invariant: initial values are given where the global is made; two modules have two
globals.

Example:
    >>> from ingot.native.types import i64
    >>> table = static_array(i64, "sizes", [4, 8])
    >>> table[1]
    8
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value
from ingot.native.memory import raw_address
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import llvm_type
from ingot.support.records import record

S = TypeVar("S", bound=Struct)
P = TypeVar("P", bound=Pointer)

Resolve = Callable[[Pointer], Value]


@record
class Static:
    """The memory of a pointer that is a global of the module.

    Attributes:
        define: `define(module, resolve)` adds the global; `resolve` gives the address of another.
        memory: its memory in plain Python.
    """

    define: Callable[[ModuleBuilder, Resolve], Value]
    memory: object


def static(struct: type[S], name: str, **fields: Any) -> S:
    """Return a struct that is a global of the module; fields are numbers, bytes or globals."""
    memory = _memory(struct, [fields])
    if not fields:
        zeros = f"internal global [{struct.c_layout.size} x i8] zeroinitializer, align 64"
        of_zeros = Static(lambda module, _: module.global_text(name, zeros), memory)
        return struct(ctypes.addressof(memory[0]), of_zeros)

    def define(module: ModuleBuilder, resolve: Resolve) -> Value:
        of, text = _struct_text(module, resolve, (struct, name, fields))
        return module.global_text(name, f"internal global {of} {text}, align 64")

    return struct(ctypes.addressof(memory[0]), Static(define, memory))


def static_structs(struct: type[S], name: str, rows: Sequence[Mapping[str, Any]]) -> Structs[S]:
    """Return structs that are a constant of the module, one for each row of fields."""
    memory = _memory(struct, rows)

    def define(module: ModuleBuilder, resolve: Resolve) -> Value:
        texts = [
            _struct_text(module, resolve, (struct, f"{name}.{index}", row))
            for index, row in enumerate(rows)
        ]
        listed = ", ".join([f"{of} {text}" for of, text in texts])
        text = f"internal constant [{len(rows)} x {texts[0][0]}] [{listed}], align 64"
        return module.global_text(name, text)

    made: Any = Structs[struct]
    return made(ctypes.addressof(memory[0]), Static(define, memory))


def static_array(item: Any, name: str, values: Sequence[int], is_constant: bool = True) -> Any:
    """Return an `Array[item]` that is a global of the module."""
    made: Any = Array[item].on_stack(len(values))  # type: ignore[valid-type]
    of = llvm_type(made.item)
    for index, value in enumerate(values):
        made[index] = value
    listed = ", ".join([f"{of.text} {value or 'zeroinitializer'}" for value in values])
    kind = "constant" if is_constant else "global"
    text = f"internal {kind} [{len(values)} x {of.text}] [{listed}], align 64"
    static = Static(lambda module, _: module.global_text(name, text), made.backing)
    return type(made)(made.address, static)


def static_word(item: Any, name: str) -> Any:
    """Return an `Atomic[item]` that is a global of the module; it is 0, or null, at first."""
    made: Any = Atomic[item]
    memory = ctypes.c_int64()
    text = f"internal global {llvm_type(made.item).text} zeroinitializer, align 64"
    static = Static(lambda module, _: module.global_text(name, text), memory)
    return made(ctypes.addressof(memory), static)


def static_text(name: str, text: str, is_constant: bool = True) -> Pointer:
    """Return a C string that is a global of the module."""
    data = text.encode() + b"\0"
    memory = ctypes.create_string_buffer(data, len(data))
    static = Static(lambda module, _: module.global_bytes(name, data, 1, is_constant), memory)
    return Pointer(ctypes.addressof(memory), static)


def external_data(kind: type[P], symbol: str) -> P:
    """Return a pointer to data of another module, which has the name `symbol` there.

    In plain Python it is memory of its own, of one word, which is 0 at first.
    """
    memory = ctypes.c_int64()
    text = "external global i64"
    static = Static(lambda module, _: module.global_text(symbol, text), memory)
    return kind(ctypes.addressof(memory), static)


def _memory(struct: type[Struct], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the structs in plain Python, followed by the objects that they point to."""
    made: Any = (struct.c_layout.structure * len(rows))()
    keep: list[Any] = [made]
    for item, fields in zip(made, rows, strict=True):
        for field, value in fields.items():
            if isinstance(value, bytes):
                text = ctypes.create_string_buffer(value, max(1, len(value)))
                keep.append(text)
                value = ctypes.addressof(text)
            setattr(item, field, value if isinstance(value, int) else raw_address(value))
    return keep


def _struct_text(
    module: ModuleBuilder, resolve: Resolve, row: tuple[type[Struct], str, Mapping[str, Any]]
) -> tuple[str, str]:
    """Return LLVM's type and text of a constant struct."""
    struct, name, fields = row
    types: list[str] = []
    values: list[str] = []
    for field in struct.c_layout.names:
        of = struct.c_layout.type_of(field).text
        types.append(of)
        values.append(f"{of} {_initial(module, resolve, f'{name}.{field}', fields.get(field))}")
    return f"{{ {', '.join(types)} }}", f"{{ {', '.join(values)} }}"


def _initial(module: ModuleBuilder, resolve: Resolve, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return module.global_bytes(name, value, align=1).text
    if isinstance(value, Pointer):
        return resolve(value).text
    return str(value) if value else "zeroinitializer"
