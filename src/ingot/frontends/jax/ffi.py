# SPDX-License-Identifier: Apache-2.0
"""Native FFI handlers: those of `jax.ffi.register_ffi_target`, for Ingot's custom calls.

jaxlib keeps registrations for a platform until a handler is installed, which then gets every later
one, too. Ingot installs one for the CPU, which also passes registrations on to jaxlib's own CPU
client. They are registered here when the first custom call is compiled. Invariant: a target that
Ingot has by that name (LAPACK's, callbacks) is never replaced.

Source: jax/_src/ffi.py, jaxlib/xla_client.py (register_custom_call_handler).
"""

from __future__ import annotations

import importlib
from typing import Any

from ingot.client.pjrt.objects import CPU
from ingot.semantics import custom_calls

_TYPED = 1
"""The API version of handlers written with XLA's ffi.h."""
_waiting: list[tuple[str, Any]] = []
"""Typed handlers that are not registered here yet."""


def install_handlers() -> None:
    """Take all registrations, past and future."""
    client: Any = importlib.import_module("jax._src.lib").xla_client
    client.register_custom_call_handler(CPU, _take)


def _take(name: str, function: Any, platform: str, api_version: int = 0, *traits: Any) -> None:
    """Register one handler with jaxlib's CPU client, and here before the next custom call."""
    extension: Any = importlib.import_module("jaxlib._jax")
    extension.register_custom_call_target(name, function, platform, api_version, *traits)
    if api_version == _TYPED:
        if not _waiting:
            custom_calls.before_use(_register)
        _waiting.append((name, function))


def _register() -> None:
    """Register the handlers that wait."""
    from ingot.runtime.foreign.builtin import register_builtin_targets
    from ingot.runtime.foreign.register import register_custom_call_target

    register_builtin_targets()
    while _waiting:
        name, function = _waiting.pop(0)
        if custom_calls.find(name) is None:
            register_custom_call_target(name, function, api="ffi")
