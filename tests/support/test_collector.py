# SPDX-License-Identifier: Apache-2.0
"""Pauses of the garbage collector."""

import gc
import subprocess
import sys

from ingot.support.collector import collector_paused, importing


def test_a_pause_ends_with_its_block() -> None:
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with importing():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_imported_objects_are_old_and_still_collected() -> None:
    with importing():
        cycle: list[object] = []
        cycle.append(cycle)
    assert any(item is cycle for item in gc.get_objects(generation=2))
    assert not gc.get_freeze_count()


PROGRAM = """
import gc
from ingot.support.collector import importing

gc.collect()
gc.freeze()
frozen = gc.get_freeze_count()
with importing():
    pass
assert gc.get_freeze_count() == frozen
"""


def test_what_the_program_froze_stays_frozen() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=False)
    assert ran.returncode == 0


FIRST_COMPILATION = """
import gc
from ingot.client.compile import _compiler

counts = []
gc.callbacks.append(lambda phase, info: counts.append(phase))
_compiler()
assert not counts, len(counts)
"""


def test_the_compiler_is_imported_without_a_collection() -> None:
    ran = subprocess.run([sys.executable, "-c", FIRST_COMPILATION], check=False)
    assert ran.returncode == 0
