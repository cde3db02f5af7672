# SPDX-License-Identifier: Apache-2.0
"""Linking foreign calls: from the call sites of an artifact to addresses for the host program.

The client, or an ahead-of-time loader, calls `link_calls` when it links a program. Invariant: the
owners of the code are returned too, and must live as long as the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from ingot.artifact.artifact import call_symbol
from ingot.runtime.foreign.builtin import register_builtin_targets
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall
from ingot.semantics.foreign_calls import is_runtime_target
from ingot.support.diagnostics import UnsupportedError

# On import and not when a call is linked, so that a user's target of the same name replaces it.
register_builtin_targets()

_NEAR = 12
"""Registered names that an error lists, at most."""


def link_calls(calls: Sequence[CallSite]) -> tuple[dict[str, int], list[object]]:
    """Return symbol -> address of every call's code, and the owners of that code.

    Raises:
        UnsupportedError: INGOT0332, no target of that name can be linked.
    """
    linked = [link_call(call) for call in calls]
    imports = {call_symbol(number): found.address for number, found in enumerate(linked)}
    return imports, [found.keep_alive for found in linked]


def link_call(call: CallSite) -> LinkedCall:
    """Return the code of one call site.

    Raises:
        UnsupportedError: INGOT0332, no target of that name can be linked.
    """
    target = custom_calls.find(call.target)
    if target is not None and target.link is not None:
        return target.link(call)
    names = [
        name
        for name in custom_calls.names()
        if not name.startswith(("ingot.", "lapack_")) and not is_runtime_target(name)
    ]
    names += get_close_matches(call.target, custom_calls.names(), _NEAR)
    names = list(dict.fromkeys(names)) or custom_calls.names()
    more = ", …" if len(names) > _NEAR else ""
    raise UnsupportedError(
        f"no custom-call target '{call.target}' is registered",
        code="INGOT0332",
        op_name=call.op_name,
        location=call.location,
        notes=(f"registered: {', '.join(names[:_NEAR])}{more}",) if names else (),
        hint=custom_calls.missing_hint(call.target),
    )
