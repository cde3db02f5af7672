# SPDX-License-Identifier: Apache-2.0
"""Threads that nobody waits for, as emitted code and for native functions.

Invariant: such a thread takes no signals, so the user's handlers run on the user's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I8, I32, I64, PTR
from ingot.llvm.values import Value, zero
from ingot.native.functions import emitted
from ingot.native.pointers import Pointer
from ingot.runtime.sync import discard

_SIGSET_BYTES = 128
_SIG_SETMASK = 2


def emit_detached_thread(f: FunctionBuilder, function: Value, argument: Value) -> Value:
    """Start a thread that takes no signals and nobody waits for; return whether it exists."""
    set_mask = f.module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
    create = f.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
    detach = f.module.declare("pthread_detach", I32, [I64])
    everything, before = f.alloca(I8, _SIGSET_BYTES, 8), f.alloca(I8, _SIGSET_BYTES, 8)
    thread = f.alloca(I64)
    f.memset(everything, 0xFF, _SIGSET_BYTES)
    # A thread inherits the mask: the user's signal handlers must run on the user's threads.
    mode = f.const(I32, _SIG_SETMASK)
    f.call(set_mask, [mode, everything, before])
    failed = f.call(create, [thread, zero(PTR), function, argument])
    f.call(set_mask, [mode, before, zero(PTR)])
    made = f.icmp("eq", failed, f.const(I32, 0))
    f.if_(made, lambda: discard(f.call(detach, [f.load(I64, thread)])))
    return made


@emitted(emit_detached_thread)
def start_detached(function: Callable[[Pointer], Pointer | None], argument: Pointer) -> bool:
    """Start a thread that takes no signals and nobody waits for; return whether it exists."""
    threading.Thread(target=function, args=(argument,), daemon=True).start()
    return True
