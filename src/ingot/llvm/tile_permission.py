# SPDX-License-Identifier: Apache-2.0
"""Linux's permission to use the tile registers of Intel's AMX, which a process must ask for.

Their 8 KB of state do not fit into the signal frames of old programs. A permission holds for all
threads of the process and for children that it forks.

Source: Linux, `Documentation/arch/x86/xstate.rst`.
"""

from __future__ import annotations

import ctypes
from functools import cache

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18


@cache
def may_use_tiles() -> bool:
    """Ask for the permission, once; return whether the process has it.

    Only on x86-64 with AMX: the number of the system call is another elsewhere.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = (ctypes.c_long(each) for each in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    return int(libc.syscall(*numbers)) == 0
