# SPDX-License-Identifier: Apache-2.0
"""The platform that Ingot runs on; `import ingot` asks first of all.

Compiled code sleeps on futexes, follows the System V calling convention, and its kernels are tuned
and tested on x86-64 only; child processes share memory through `memfd_create`. On other platforms
the import would succeed, and failures would come much later and be less clear. This imports nothing
else of Ingot.
"""

from __future__ import annotations

import platform
import sys

_MACHINES = ("x86_64", "AMD64")


def require_supported_platform() -> None:
    """Check the operating system, the processor and the Python.

    Raises:
        ImportError: this is not a 64-bit CPython on Linux x86-64.
    """
    machine, python = platform.machine(), sys.implementation.name
    is_linux, is_wide = sys.platform.startswith("linux"), sys.maxsize > 1 << 32
    if is_linux and machine in _MACHINES and is_wide and python == "cpython":
        return
    width = "64-bit" if is_wide else "32-bit"
    raise ImportError(
        f"Ingot runs on Linux x86-64 with 64-bit CPython; this is {width} {python} on "
        f"{sys.platform} {machine}. On Windows use WSL 2, on a Mac an x86-64 Linux container "
        "(docker run --platform linux/amd64) or another machine",
        name="ingot",
    )
