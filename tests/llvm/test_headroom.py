# SPDX-License-Identifier: Apache-2.0
"""Too little address space to compile is an error, never the end of the process."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ingot.llvm import headroom as module
from ingot.llvm.headroom import BYTES_PER_CHARACTER, headroom
from ingot.support.diagnostics import ResourceError

CHILD = """
import resource, sys
import numpy as np
import ingot
from ingot.support.diagnostics import IngotError
body = ["p = f32[64,64] parameter(0)"]
for n, op in enumerate(["exponential", "tanh", "sine", "log"]):
    before = f"e{n - 1}" if n else "p"
    body.append(f"d{n} = f32[64,64] dot({before}, p), lhs_contracting_dims={{1}}, "
                "rhs_contracting_dims={0}")
    body.append(f"e{n} = f32[64,64] {op}(d{n})")
text = "HloModule m\\nENTRY e {\\n" + "\\n".join(body) + "\\nROOT r = f32[64,64] negate(e3)\\n}"
modules = [ingot.parse_hlo(text.replace("64", str(size))) for size in (8, 24, 64)]
ingot.compile("HloModule loads ENTRY e { p = f32[3] parameter(0) ROOT n = f32[3] negate(p) }")
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
limit = pages * 4096 + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for size, module in zip((8, 24, 64), modules):
    try:
        ingot.compile(module)(np.zeros((size, size), np.float32))
        print("result")
    except (IngotError, MemoryError) as error:
        print(type(error).__name__)
"""


def test_room_is_looked_for() -> None:
    with headroom(1000):
        pass
    with pytest.raises(ResourceError, match="INGOT0404"), headroom(1 << 50):
        pass


def test_the_room_of_others_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def is_free(size: int) -> bool:
        asked.append(size)
        return True

    monkeypatch.setattr(module, "_is_free", is_free)
    with headroom(1000):
        with headroom(500):
            pass
        with headroom(0):
            pass
    with headroom(0):
        pass
    outer, nested, small, alone = asked
    assert small == outer + alone
    assert nested == small + 500 * BYTES_PER_CHARACTER


def test_a_call_waits_for_the_room_of_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    room = module.BASE_BYTES + 1500 * BYTES_PER_CHARACTER
    waits = threading.Event()

    def is_free(size: int) -> bool:
        if size > room:
            waits.set()
        return size <= room

    monkeypatch.setattr(module, "_is_free", is_free)
    order: list[str] = []

    def compile_another() -> None:
        with headroom(1000):
            order.append("second")

    other = threading.Thread(target=compile_another)
    with headroom(1000):
        other.start()
        assert waits.wait(60)
        with pytest.raises(ResourceError, match="INGOT0404"), headroom(1000):
            pass
        order.append("first")
    other.join(60)
    assert order == ["first", "second"]


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [0, 3, 12, 25, 100])
def test_a_child_with_little_address_space_ends_well(megabytes: int, tmp_path: Path) -> None:
    environment = {**os.environ, "INGOT_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CHILD, str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = done.stdout.split()
    assert len(outcomes) == 3
    assert set(outcomes) <= {"result", "ResourceError", "MemoryError"}
    assert "result" not in outcomes or megabytes > 1
    assert megabytes < 100 or outcomes == ["result"] * 3
