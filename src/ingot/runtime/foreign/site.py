# SPDX-License-Identifier: Apache-2.0
"""Foreign calls that are native code: one function with data per call site, or code of its own.

The function is `i32 f(ptr frame, ptr site)`. A call site's address is a thunk of a few instructions
that adds the site and, when the function fails, asks Python for the text of the error, unless the
status is negative. The thunk's code is the same for all, so it is compiled once; only linking is
per site.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_named, compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, PTR, VOID
from ingot.llvm.values import Value
from ingot.runtime.foreign.errors import set_error
from ingot.semantics.custom_calls import CallSite, LinkedCall
from ingot.support.diagnostics import UnsupportedError

_EXPLAIN = ctypes.CFUNCTYPE(None, ctypes.c_int32)
SYMBOL = "call"
NO_MEMORY, TOO_LARGE = 1, 2
STATUS = {
    NO_MEMORY: "out of memory",
    TOO_LARGE: "LAPACK's 32-bit integers cannot say how much workspace matrices of this size need",
}


def linked_site(function: int, site: Any, explain: Callable[[int], str]) -> LinkedCall:
    """Return the call of `function` with `site`.

    Args:
        function: address of `i32 f(ptr frame, ptr site)`.
        site: a ctypes structure; it is kept alive with everything that it holds in `kept`.
        explain: the text of a status above 0.
    """

    def fail(status: int) -> None:
        set_error(explain(status))

    callback = _EXPLAIN(fail)
    imports = {
        "function": function,
        "site": ctypes.addressof(site),
        "explain": ctypes.cast(callback, ctypes.c_void_p).value or 0,
    }
    library = link_object([_thunk()], imports)
    return LinkedCall(library.address(SYMBOL), (library, site, callback))


def linked_code(text: str) -> LinkedCall:
    """Return a call whose code was emitted for it: a module that defines `i32 call(ptr frame)`.

    A status that is not 0 is one of `STATUS`.
    """
    return _linked(compile_object(text, TargetSpec.host()), {})


def linked_library(
    name: str, sources: tuple[str, ...], make_text: Callable[[], str], imports: Mapping[str, int]
) -> LinkedCall:
    """Return a call whose code follows from its name: see `compile_named`."""
    return _linked(compile_named(name, sources, make_text, TargetSpec.host()).result(), imports)


def _linked(data: bytes, imports: Mapping[str, int]) -> LinkedCall:
    code = link_object([data], imports)
    site = _Nothing()
    site.kept = code
    return linked_site(code.address(SYMBOL), site, _status_text)


def failing_call(why: str) -> LinkedCall:
    """Return a call that only fails, for the reason `why`."""
    function = link_object([_failure()], {})
    site = _Nothing()
    site.kept = function
    return linked_site(function.address(SYMBOL), site, lambda _: why)


def refused(call: CallSite, *notes: str) -> UnsupportedError:
    """Return the error for a call whose operands or results its target does not support."""
    operands = ", ".join(map(str, call.operands))
    results = ", ".join(map(str, call.results))
    return UnsupportedError(
        f"custom call '{call.target}' of ({operands}) to ({results})",
        code="INGOT0333",
        notes=notes,
        op_name=call.op_name,
        location=call.location,
    )


class _Nothing(ctypes.Structure):
    """The data of a call that has none."""

    kept: object = None


def _status_text(status: int) -> str:
    return STATUS.get(status, f"status {status}")


@cache
def _failure() -> bytes:
    module = ModuleBuilder("failure")
    f = module.function(SYMBOL, I32, [("frame", PTR), ("site", PTR)])
    f.ret(f.const(I32, 1))
    return compile_object(module.text(), TargetSpec.host())


@cache
def _thunk() -> bytes:
    module = ModuleBuilder("site_call")
    f = module.function(SYMBOL, I32, [("frame", PTR)])
    site = module.global_text("site", "external global i8")
    function = module.declare("function", I32, [PTR, PTR])
    explain = module.declare("explain", VOID, [I32])
    status = f.call(function, [f.params[0], Value(PTR, site.text)])

    def fail() -> None:
        f.call(explain, [status])

    f.if_(f.icmp("sgt", status, f.const(I32, 0)), fail, likely=False)
    f.ret(status)
    return compile_object(module.text(), TargetSpec.host())
