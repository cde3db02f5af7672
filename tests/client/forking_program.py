# SPDX-License-Identifier: Apache-2.0
"""Forks a number of children while threads compile and run; prints which did not end well.

A process of its own (`test_forking.py`): every child compiles and runs as well, serially and in
parallel, and has 60 seconds for it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np

import ingot

_CHILD_SECONDS = 60


def check(size: int) -> None:
    """Compile a program of this size and run it."""
    text = f"""HloModule m
      ENTRY e {{ x = f32[{size}] parameter(0)
        c = f32[] constant({size})
        b = f32[{size}] broadcast(c), dimensions={{}}
        s = f32[{size}] sine(x)
        ROOT y = f32[{size}] add(s, b) }}"""
    x = np.linspace(0, 1, size, dtype=np.float32)
    found = ingot.compile(ingot.parse_hlo(text))(x)
    np.testing.assert_allclose(found, np.sin(x) + np.float32(size), rtol=1e-6)


def child(number: int) -> None:
    """Be a child."""
    signal.alarm(_CHILD_SECONDS)
    status = 1
    try:
        check(5000 + number)
        check(1 << 18)
        status = 0
    finally:
        os._exit(status)


def main(count: int) -> int:
    """Return how many children failed."""
    check(3)
    stop = threading.Event()
    failures: list[str] = []

    def work(first: int) -> None:
        size = first
        while not stop.is_set():
            try:
                check(size)
            except BaseException as error:
                failures.append(f"thread: {error!r}")
                return
            size = first + (size + 4) % 2000

    threads = [threading.Thread(target=work, args=(10 + number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for number in range(count):
        pid = os.fork()
        if not pid:
            child(number)
        _, status = os.waitpid(pid, 0)
        if status:
            failures.append(f"child {number}: {os.waitstatus_to_exitcode(status)}")
    stop.set()
    for thread in threads:
        thread.join()
    print(*failures, sep="\n", end="")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
