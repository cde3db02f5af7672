# SPDX-License-Identifier: Apache-2.0
"""`tf.distribute`: compiled replicas learn what uncompiled ones do."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.frontends.tensorflow.strategies.training"]
    command += [str(item) for item in arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def check(process: subprocess.Popen[str]) -> None:
    printed, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    found = json.loads(printed.splitlines()[-1])
    assert found["programs"]
    for name, (plain, compiled) in found["losses"].items():
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, err_msg=name)
        assert plain[-1] != plain[0]


def test_replicas_on_devices_of_one_process() -> None:
    check(start("devices"))


def test_workers_in_two_processes() -> None:
    ports = free_ports(2)
    workers = [start("workers", index, *ports) for index in range(2)]
    for worker in workers:
        check(worker)
