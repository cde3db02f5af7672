# SPDX-License-Identifier: Apache-2.0
"""Arrays of C in memory that Python owns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any


def int64_array(values: Sequence[int]) -> Any:
    """Return an array of `int64_t` with the values, and with room for one where there are none.

    It must be kept while native code reads it.
    """
    return (ctypes.c_int64 * max(1, len(values)))(*values)
