# SPDX-License-Identifier: Apache-2.0
"""What the native PJRT functions share: slots, the runtime's functions, errors, references.

The `native_code` files are above it. A slot is a function of the C API: it takes the address of its
arguments, whose fields are those of `c_api`. Invariant: a slot returns null, or a reference to an
error that the host destroys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ingot.client.pjrt.c_api import RESOURCE_EXHAUSTED, record
from ingot.client.pjrt.records import Buffer, Counted, Device, Error, Event, Executable, Memory
from ingot.client.pjrt.records import Layout as LayoutRecord
from ingot.native.functions import exported, inlined, symbol_of
from ingot.native.pointers import Array, Pointer, struct_of
from ingot.native.statics import static
from ingot.native.types import i64
from ingot.runtime.entries import ingot_allocate, ingot_execute, ingot_free

F = TypeVar("F", bound=Callable[..., Any])

FOREVER = 1 << 62
"""The reference count of objects that are never freed."""

HANDLES = {
    **{
        "buffer": Buffer,
        "src": Buffer,
        "dst_buffer": Buffer,
        "error": Error,
        "layout": LayoutRecord,
    },
    "callback": Callable[[Error | None, Pointer | None], None],
    **{"event": Event, "done_with_host_buffer": Event, "executable": Executable},
    **{"loaded_executable": Executable, "device": Device, "dst_device": Device},
    **{"execute_device": Device, "memory": Memory, "dst_memory": Memory},
    **{"dims": Array[i64], "byte_strides": Array[i64], "minor_to_major": Array[i64]},
    **{"non_donatable_input_indices": Array[i64], "output_lists": Array[Array[Buffer | None]]},
    **{"argument_lists": Array[Array[Buffer]], "device_complete_events": Array[Event]},
}
"""The types that arguments of these names point to."""


def arguments(name: str) -> Any:
    """Return the struct of a function's arguments, or of another struct of the C API."""
    return struct_of(record(name), HANDLES)


def slot(name: str) -> Callable[[F], F]:
    """Make `function(args)` the slot `name` of the C API."""
    return exported(name, args=arguments(name))


IMPORTS = tuple(map(symbol_of, (ingot_allocate, ingot_free, ingot_execute)))
"""The functions of the native runtime that the module imports."""


@inlined
def add_reference(object_: Counted) -> None:
    """Count one reference more."""
    object_.references.fetch_add(1, "monotonic")


@inlined
def drop_reference(object_: Counted) -> bool:
    """Count one reference less; return whether it was the last one."""
    return object_.references.fetch_sub(1, "acq_rel") == 1


def static_error(name: str, code: int, text: str) -> Error:
    """Return an error that is never freed."""
    message = text.encode()
    return static(
        Error, name, references=FOREVER, code=code, message=message, message_size=len(message)
    )


@inlined
def static_reference(error: Error) -> Error:
    """Return a reference to an error that is never freed."""
    add_reference(error)
    return error


NO_MEMORY_TEXT = "Out of memory."
NO_MEMORY = static_error("no_memory_error", RESOURCE_EXHAUSTED, NO_MEMORY_TEXT)
