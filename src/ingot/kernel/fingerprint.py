# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of kernels: equal kernels have equal names, in every process.

The hash of the kernel's text (`kernel.text`), in which all of it stands.
"""

from __future__ import annotations

import hashlib

from ingot.kernel.ir import Kernel
from ingot.kernel.text import kernel_text


def fingerprint(kernel: Kernel) -> str:
    """Return 16 hex digits that equal kernels share."""
    return hashlib.blake2b(kernel_text(kernel).encode(), digest_size=8).hexdigest()
