# SPDX-License-Identifier: Apache-2.0
"""The soak: its gauges see growth, and a minute of it goes well."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.soak.gauges import Reading, growth, read
from tests.soak.processes import names


def test_what_grows_is_named() -> None:
    flat = [Reading(300.0 + n % 3, 8, 12, 1) for n in range(40)]
    assert not growth(flat)
    leaking = [replace(reading, memory=300.0 + 2 * n) for n, reading in enumerate(flat)]
    (memory,) = growth(leaking)
    assert memory.startswith("memory grew")
    open_files = [replace(reading, descriptors=8 + n // 20) for n, reading in enumerate(flat)]
    assert growth(open_files) == ["descriptors grew from 8.0 to 9.0"]


def test_warming_up_is_no_growth() -> None:
    assert not growth([Reading(100.0 if n < 10 else 300.0, 8, 12, 1) for n in range(40)])


def test_a_reading_counts_open_files(tmp_path: Path) -> None:
    before = read(os.getpid())
    with (tmp_path / "file").open("w"):
        assert read(os.getpid()).descriptors == before.descriptors + 1


@pytest.mark.slow
def test_a_short_soak() -> None:
    command = [sys.executable, "-m", "tests.soak", "--hours", "0.005"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing grew" in done.stdout


@pytest.mark.slow
def test_a_fault_of_a_process() -> None:
    command = [sys.executable, "-m", "tests.soak.processes", "--faults", "1", "--seed", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_error_names_the_process_that_is_gone() -> None:
    told = "INGOT0519: process 1: the connection to it is closed"
    assert names(told, 1)
    assert names("UNAVAILABLE: failed to connect to all addresses", 0)
    assert not names("RuntimeError: something went wrong", 1)
    unhealthy = "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n1\n"
    assert names(unhealthy, 1)
    assert not names(unhealthy, 0)
    assert not names(unhealthy + "2\n", 1)
