"""Native FFI handlers: what `jax.ffi.register_ffi_target` was given, for Ingot's custom calls.

jaxlib keeps every handler that was registered for the CPU, whenever that was. Before a program is
compiled, those that Ingot does not know yet are registered as its own. Invariant: a target that
Ingot has by that name (LAPACK's, callbacks) is never replaced.

Source: jax/_src/ffi.py, jaxlib's `custom_call_targets`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ingot.hlo import custom_calls
from ingot.runtime.foreign.builtin import register_builtin_targets
from ingot.runtime.foreign.register import register_custom_call_target

_PLATFORM = "cpu"


def take_handlers() -> None:
    """Register the handlers that came since the last time.

    Raises:
        UnsupportedError: INGOT0334, a handler speaks another version of the FFI API.
    """
    client: Any = importlib.import_module("jax._src.lib").xla_client
    handlers: dict[str, Any] = client.custom_call_targets(_PLATFORM)
    for name, stages in handlers.items():
        if name not in _known():
            register_custom_call_target(name, stages, api="ffi")


def _known() -> list[str]:
    register_builtin_targets()
    return custom_calls.names()
