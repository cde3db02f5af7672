# SPDX-License-Identifier: Apache-2.0
"""A target that does what its case says, for the tests of the machinery."""

from __future__ import annotations

import random
import time

from tests.fuzz.target import Target


def generate(choose: random.Random) -> bytes:
    """Return what is to be done."""
    return choose.choice((b"die", b"hang", b"raise", b"well"))


def check(data: bytes) -> str:
    """Do it."""
    if data == b"die":
        import ctypes

        ctypes.string_at(0)
    elif data == b"hang":
        time.sleep(1000)
    elif data == b"raise":
        return str(1 / 0)
    return ""


TARGET = Target("tests.fuzz.misbehaving", ".txt", generate, check, seconds=2.0)
