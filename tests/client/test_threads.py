# SPDX-License-Identifier: Apache-2.0
"""Many threads build, compile and run programs at once: the same results as one after the other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client.test_memory import MAKERS

import ingot
from ingot.client import clear_caches
from ingot.evaluator import evaluate
from ingot.hlo import dim
from ingot.hlo.dim import Dim

THREADS = 8
PROGRAMS = range(600, 600 + 4 * len(MAKERS))


def _text(number: int) -> str:
    return f"HloModule program_{number}\n{MAKERS[number % len(MAKERS)](number)}"


def _arguments(executable: Any, number: int) -> list[Any]:
    rng = np.random.default_rng(number)
    rows = executable.artifact.info.params
    shapes = [[7 if size is None else size for size in row.dims] for row in rows]
    return [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]


def _result(number: int) -> tuple[str, bytes]:
    """Return a program after the passes, and what it gives."""
    executable = ingot.compile(ingot.parse_hlo(_text(number)))
    value = executable(*_arguments(executable, number))
    return executable.as_text("hlo"), np.asarray(value).tobytes()


def _at_once(work: Callable[[int], Any]) -> list[Any]:
    """Return what each thread found; the interpreter changes between them as often as it can."""
    found: list[Any] = [None] * THREADS
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        barrier.wait()
        try:
            found[number] = work(number)
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return found


@pytest.mark.slow
def test_compiling_at_once_gives_what_compiling_alone_gives() -> None:
    clear_caches()
    want = {number: _result(number) for number in PROGRAMS}
    clear_caches()

    def work(thread: int) -> dict[int, tuple[str, bytes]]:
        order = list(PROGRAMS)
        # Half of the threads meet at the same programs, the others come from the other end.
        return {number: _result(number) for number in (order if thread % 2 else order[::-1])}

    for found in _at_once(work):
        assert found == want


def test_building_at_once_finds_equal_sizes_equal() -> None:
    """Every symbolic program is new to all threads, so that all make its sizes first."""

    def work(thread: int) -> list[str]:
        found: list[str] = []
        for number in range(40):
            n = Dim.symbol(f"threads{number}")
            size = dim.floordiv(dim.maximum(3 * n + 1, n * n), 4)
            module = ingot.parse_hlo(
                f"HloModule m\nENTRY e {{\n  x = f32[?({size}),3] parameter(0)\n"
                f"  y = f32[?({size}),3] parameter(1)\n  ROOT z = f32[?({size}),3] add(x, y)\n}}"
            )
            found.append(str(module.result_shape))
        return found

    first, *others = _at_once(work)
    assert all(isinstance(text, str) for text in first)
    assert others == [first] * (THREADS - 1)


def test_the_programs_are_right() -> None:
    for number in PROGRAMS[:5]:
        module = ingot.parse_hlo(_text(number))
        executable = ingot.compile(module)
        arguments = _arguments(executable, number)
        want = evaluate(module, arguments)
        np.testing.assert_allclose(executable(*arguments), want, rtol=1e-5, atol=1e-5)
