"""Foreign calls that are one native function with data of their own per call site.

The function is `i32 f(ptr frame, ptr site)`. A call site's address is a thunk of a few instructions
that adds the site and, when the function fails, asks Python for the text of the error. The thunk's
code is the same for all, so it is compiled once; only linking is per site.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from ingot.hlo.custom_calls import LinkedCall
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, PTR, VOID
from ingot.llvm.values import Value
from ingot.runtime.foreign.errors import set_error

_EXPLAIN = ctypes.CFUNCTYPE(None, ctypes.c_int32)
_SYMBOL = "call"


def linked_site(function: int, site: Any, explain: Callable[[int], str]) -> LinkedCall:
    """Return the call of `function` with `site`.

    Args:
        function: address of `i32 f(ptr frame, ptr site)`.
        site: a ctypes structure; it is kept alive with everything that it holds in `kept`.
        explain: the text of a status that is not 0.
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
    return LinkedCall(library.address(_SYMBOL), (library, site, callback))


@cache
def _thunk() -> bytes:
    module = ModuleBuilder("site_call")
    f = module.function(_SYMBOL, I32, [("frame", PTR)])
    site = module.global_text("site", "external global i8")
    function = module.declare("function", I32, [PTR, PTR])
    explain = module.declare("explain", VOID, [I32])
    status = f.call(function, [f.params[0], Value(PTR, site.text)])

    def fail() -> None:
        f.call(explain, [status])

    f.if_(f.icmp("ne", status, f.const(I32, 0)), fail, likely=False)
    f.ret(status)
    return compile_object(module.text(), TargetSpec.host())
