# SPDX-License-Identifier: Apache-2.0
"""`ingot.register_custom_call_target`: the user's code as the target of custom calls.

There are three kinds: a Python function on NumPy arrays, a native XLA FFI handler, and a native
function on Ingot's own frame. Programs compiled after the registration call it; programs that are
linked already keep the old target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from ingot.runtime.foreign.builtin import register_builtin_targets
from ingot.runtime.foreign.capsules import native_address
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.ffi import ffi_target
from ingot.runtime.foreign.python_targets import python_target
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError


def register_custom_call_target(
    name: str, function: Any, *, api: Literal["python", "ffi", "frame"] = "python"
) -> None:
    """Let `custom-call`s of target `name` call `function`, in programs compiled from now on.

    Args:
        name: the `custom_call_target` (JAX: the first argument of `jax.ffi.ffi_call`).
        function: the code, as `api` says.
        api: `"python"`: a function of the operands as NumPy arrays (read-only, valid during the
            call) and the attributes as keywords, which returns an array or a tuple of arrays, one
            per result. `"ffi"`: a native handler written with XLA's `ffi.h`: its address, a ctypes
            function, a capsule (`jax.ffi.pycapsule`), or a dict from stage (`instantiate`,
            `prepare`, `initialize`, `execute`) to one. `"frame"`: a native function
            `int32_t f(IngotCallFrame*)` that returns 0 for success.

    Raises:
        UnsupportedError: INGOT0334, the handler speaks another version of the XLA FFI API.
        ArgumentError: `function` is not of the kind that `api` names, or there is no such `api`.

    Example:
        >>> register_custom_call_target("twice", lambda x, *, times=2: x * times)
    """
    require_type(name, str, "the name of a target")
    require_type(api, str, "api")
    if api not in _KINDS:
        raise ArgumentError(f"api is one of {', '.join(map(repr, _KINDS))}, not {api!r}")
    # First, because the user's target replaces one of ours.
    register_builtin_targets()
    custom_calls.register(_KINDS[api](name, function))


def _python(name: str, function: Any) -> Target:
    if not callable(function):
        raise ArgumentError(f"a Python target is a function, not {type(function).__name__}")
    return python_target(name, function)


def _ffi(name: str, function: Any) -> Target:
    if isinstance(function, Mapping):
        stages = cast("Mapping[str, Any]", function)
    else:
        stages = {"execute": function}
    target = ffi_target(name, {stage: native_address(found) for stage, found in stages.items()})
    inner = target.link
    assert inner is not None, "a native target has a link"
    return _linked(name, inner, function)


def _frame(name: str, function: Any) -> Target:
    address = native_address(function)
    return _linked(name, lambda call: LinkedCall(address), function)


def _linked(name: str, inner: Callable[[CallSite], LinkedCall], function: Any) -> Target:
    """Return the target whose programs keep `function` alive, since it may own the code."""

    def link(call: CallSite) -> LinkedCall:
        found = inner(call)
        return LinkedCall(found.address, (found.keep_alive, function))

    return Target(name, evaluator_of(link), link)


_KINDS: dict[str, Callable[[str, Any], Target]] = {
    "python": _python,
    "ffi": _ffi,
    "frame": _frame,
}
