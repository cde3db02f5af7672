# SPDX-License-Identifier: Apache-2.0
"""What a soak does over and over: each activity is one round of work that must go well.

An activity raises or fails an assertion when something is wrong. Faults are part of it: the cache's
folder vanishes or is full, memory runs out, signals arrive, children and servers are killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.close_results import difference_of_leaf
from tests.support.random_modules import random_module

import ingot
from ingot.evaluator import evaluate
from ingot.support.diagnostics import ResourceError
from ingot.support.flags import CACHE_DIR
from ingot.tools.serving.framing import Message, packet, read_packet

CHILD_SECONDS = 180.0
"""A child that works for longer hangs."""


def recompile(choose: random.Random) -> None:
    """Compile programs that nobody saw before, and compare their results with the evaluator's."""
    for _ in range(3):
        module, inputs = random_module(choose.getrandbits(48), steps=10)
        with np.errstate(all="ignore"):
            want = _leaves(evaluate(module, inputs))
        _same(_leaves(ingot.compile(module)(*inputs)), want)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _same(got: list[Any], want: list[Any]) -> None:
    for mine, other in zip(got, want, strict=True):
        found = difference_of_leaf(np.asarray(mine), np.asarray(other), np.asarray(other))
        assert not found, found


def train(choose: random.Random) -> None:
    """Train a small model in JAX; sometimes its program is compiled anew."""
    from tests.soak.training import step, weights

    state = weights(choose.getrandbits(16))
    losses = []
    for _ in range(100):
        state, loss = step(state)
        losses.append(float(loss))
    assert losses[-1] < losses[0], f"loss went from {losses[0]} to {losses[-1]}"
    if choose.random() < 0.2:
        import jax

        jax.clear_caches()


_TEXT = """HloModule soak
ENTRY main {
  x = f32[64] parameter(0)
  factor = f32[] constant(FACTOR)
  all = f32[64] broadcast(factor), dimensions={}
  ROOT r = f32[64] multiply(x, all)
}
"""


_WIDE = """HloModule wide
ENTRY main {
  n = f32[?n] parameter(0)
  ROOT r = f32[?n,4096] broadcast(n), dimensions={0}
}
"""


class Server:
    """A server on pipes that lives over rounds, and that a round may kill."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, choose: random.Random) -> None:
        """Compile and run in the server; one round in ten kills it first."""
        if self.process is not None and choose.random() < 0.1:
            self.close()
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ingot", "serve", "--stdio"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        factor = choose.randint(1, 1 << 20)
        compiled = self._ask(op="compile", program=_TEXT.replace("FACTOR", str(factor)))
        number = compiled.header["executable"]
        x = np.arange(64, dtype=np.float32)
        row = {"dtype": "f32", "shape": [64]}
        answer = self._ask(x.tobytes(), op="execute", executable=number, arguments=[row])
        np.testing.assert_array_equal(np.frombuffer(answer.payload, np.float32), x * factor)
        self._ask(op="free", executables=[number])

    def _ask(self, payload: bytes = b"", **header: Any) -> Message:
        assert self.process is not None
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(packet(Message(header, payload)))
        self.process.stdin.flush()
        size = int.from_bytes(self.process.stdout.read(4), "big")
        answer = read_packet(self.process.stdout.read(size))
        assert answer.header["ok"], answer.header
        return answer

    def close(self) -> None:
        """Kill the server."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@contextlib.contextmanager
def _limited(kind: int, most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def full_disk(choose: random.Random) -> None:
    """Compile while no file may grow: the cache cannot be written."""
    with _limited(resource.RLIMIT_FSIZE, 0):
        recompile(choose)


def lost_cache(choose: random.Random) -> None:
    """Compile after the cache's folder has vanished."""
    shutil.rmtree(CACHE_DIR.value(), ignore_errors=True)
    recompile(choose)


def no_memory(choose: random.Random) -> None:
    """Ask for more memory than there may be, then run again with enough."""
    wide = ingot.compile(ingot.parse_hlo(_WIDE))
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    with _limited(resource.RLIMIT_AS, held + (64 << 20)):
        try:
            wide(np.zeros(1 << 20, np.float32))
        except (ResourceError, MemoryError):
            pass
        else:
            raise AssertionError("16 GiB were found in 64 MiB")
    size = choose.randint(1, 9)
    assert wide(np.ones(size, np.float32)).sum() == 4096 * size


def signals(choose: random.Random) -> None:
    """Compile and run while a signal arrives every two milliseconds."""
    arrived = []
    before = signal.signal(signal.SIGALRM, lambda *_: arrived.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        recompile(choose)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert arrived


def killed_child(choose: random.Random) -> None:
    """Fork a child that compiles, and kill it in the middle; then one that ends well."""
    for kill in (True, False):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                recompile(choose)
                status = 0
            finally:
                os._exit(status)
        if kill:
            time.sleep(0.05)
            os.kill(child, signal.SIGKILL)
        status = _ended(child)
        assert kill or status == 0, f"the child ended with {status}"
    recompile(choose)


def _ended(child: int) -> int:
    """Return the status of a child that ends in good time; kill it otherwise."""
    for _ in range(int(CHILD_SECONDS / 0.05)):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"a child hung for {CHILD_SECONDS} seconds")


def threads(choose: random.Random) -> None:
    """Compile and run in several threads at once."""
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            recompile(random.Random(seed))
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(choose.getrandbits(48),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
