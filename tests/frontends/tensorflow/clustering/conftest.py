# SPDX-License-Identifier: Apache-2.0
"""Auto-clustering; what sets flags runs in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

PROGRAMS = Path(__file__).with_name("programs.py")


@pytest.fixture(scope="session")
def run_programs(tmp_path_factory):
    """Return what runs some of `programs.py` with flags, and gives what they printed."""

    def run(names, flags=None, **environment):
        given = {key: value for key, value in os.environ.items() if key != "TF_XLA_FLAGS"}
        given |= {"TF_CPP_MIN_LOG_LEVEL": "3", **environment}
        if flags is not None:
            given["TF_XLA_FLAGS"] = flags
        file = tmp_path_factory.mktemp("programs") / "results.json"
        command = [sys.executable, str(PROGRAMS), str(file), str(flags is not None), *names]
        done = subprocess.run(
            command, env=given, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(file.read_text()), done.stderr

    return run
