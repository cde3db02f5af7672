# SPDX-License-Identifier: Apache-2.0
"""Shared notions of the emitted PJRT functions: their module, slots, static errors, references.

Beneath the `hot_*` files. A slot is a function `ptr (ptr arguments)` of the C API; its arguments
are read and written through the records of `c_api`. Invariant: a slot returns null, or a reference
to an error that the host destroys.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.client.pjrt.c_api import record
from ingot.client.pjrt.records import ERROR
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero

FOREVER = 1 << 62
"""References of what is never freed."""

IMPORTS: dict[str, tuple[Type, list[Type]]] = {
    "ingot_allocate": (PTR, [I64]),
    "ingot_free": (VOID, [PTR]),
    "ingot_execute": (I32, [PTR, PTR, PTR, PTR]),
}
"""What the module takes from the native runtime."""


class Slot:
    """One function of the C API under construction."""

    __slots__ = ("_record", "arguments", "f")

    def __init__(self, module: ModuleBuilder, name: str) -> None:
        """Open the function `name`."""
        self.f: FunctionBuilder = module.function(name, PTR, [("arguments", PTR)])
        self.arguments = self.f.params[0]
        self._record = record(name)

    def get(self, name: str) -> Value:
        """Load an argument."""
        return self._record.load(self.f, self.arguments, name)

    def set(self, name: str, value: Value) -> None:
        """Store a result."""
        self._record.store(self.f, self.arguments, name, value)

    def address(self, name: str) -> Value:
        """Return where an argument lies."""
        return self._record.address(self.f, self.arguments, name)

    def check_memory(self, made: Value, no_memory: Value) -> None:
        """Return the error `no_memory` if `made` is null."""
        f = self.f
        f.if_(is_null(f, made), lambda: self.done(return_static(f, no_memory)), likely=False)

    def done(self, error: Value | None = None) -> None:
        """Return `error`, or success."""
        self.f.ret(zero(PTR) if error is None else error)


def runtime_function(module: ModuleBuilder, name: str) -> FunctionRef:
    """Return a function of `IMPORTS`."""
    result, params = IMPORTS[name]
    return module.declare(name, result, params)


def is_null(f: FunctionBuilder, pointer: Value) -> Value:
    """Emit whether a pointer is null."""
    return f.icmp("eq", pointer, zero(PTR))


def not_null(f: FunctionBuilder, pointer: Value) -> Value:
    """Emit whether a pointer is not null."""
    return f.icmp("ne", pointer, zero(PTR))


def when(f: FunctionBuilder, condition: Value, then: Callable[[], object]) -> None:
    """Emit `then()` under a condition; it gives no values."""

    def branch() -> None:
        then()

    f.if_(condition, branch)


def unless_null(f: FunctionBuilder, pointer: Value, then: Callable[[], object]) -> None:
    """Emit `then()` where the pointer is not null."""
    when(f, not_null(f, pointer), then)


def refuse_when(f: FunctionBuilder, condition: Value, result: Value) -> None:
    """Emit: return `result` if the (rare) condition holds."""
    f.if_(condition, lambda: f.ret(result), likely=False)


def add_reference(f: FunctionBuilder, object_: Value) -> None:
    """Emit one more reference; `references` is the first field of every counted record."""
    f.atomicrmw("add", object_, f.const(I64, 1), "monotonic")


def drop_reference(f: FunctionBuilder, object_: Value) -> Value:
    """Emit one reference less; return whether it was the last one."""
    before = f.atomicrmw("sub", object_, f.const(I64, 1), "acq_rel")
    return f.icmp("eq", before, f.const(I64, 1))


def static_error(module: ModuleBuilder, name: str, code: int, text: str) -> Value:
    """Return the address of an error that is never freed."""
    data = text.encode()
    message = module.global_bytes(f"{name}.text", data, align=1)
    return module.global_text(
        name,
        f"internal global {{ i64, i32, ptr, i64 }} "
        f"{{ i64 {FOREVER}, i32 {code}, ptr {message.text}, i64 {len(data)} }}, align 64",
    )


def return_static(f: FunctionBuilder, error: Value) -> Value:
    """Return a reference to a static error."""
    add_reference(f, error)
    return error


def error_size(f: FunctionBuilder, message_bytes: Value) -> Value:
    """Return the bytes of an error record with its message."""
    return f.add(message_bytes, f.const(I64, ERROR.size))
