# SPDX-License-Identifier: Apache-2.0
"""A process may fork while its threads compile and run programs; its children compile and run."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_children_of_a_process_whose_threads_compile() -> None:
    command = [sys.executable, "-m", "tests.client.forking_program", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr[-2000:]
