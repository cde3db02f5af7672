# SPDX-License-Identifier: Apache-2.0
"""JAX programs of several processes on this machine, by sockets and by MPI, and faults."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "processes"
MPIEXEC = Path(sys.prefix) / "bin" / "mpiexec"
LIMIT = 240


def coordinator() -> str:
    """Return an address that is free."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{made.getsockname()[1]}"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "ingot", "TF_CPP_MIN_LOG_LEVEL": "3", **more}


def start(name: str, count: int, *arguments: str, **more: str) -> list[subprocess.Popen[str]]:
    address = coordinator()
    return [start_one(name, index, count, address, *arguments, **more) for index in range(count)]


def start_one(name: str, index: int, *arguments: object, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(FOLDER / name), str(index), *map(str, arguments)],
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def expect_done(running: list[subprocess.Popen[str]]) -> None:
    try:
        for each in running:
            output, errors = each.communicate(timeout=LIMIT)
            assert output == "done\n", errors[-4000:]
    finally:
        for each in running:
            each.kill()


def test_two_processes_of_two_devices() -> None:
    expect_done(start("collectives.py", 2))


def test_four_processes() -> None:
    expect_done(start("collectives.py", 4))


def test_arrays_move_to_devices_of_other_processes() -> None:
    expect_done(start("transfers.py", 2))


def test_one_process_computes_alone_with_what_all_have() -> None:
    expect_done(start("alone.py", 2))


FAULTS = {
    "end": "process 1: the connection to it is closed",
    "stop": "process 1: waited for another device in vain",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_others_are_told_of(fault: str) -> None:
    running = start("faults.py", 3, fault, INGOT_PROCESS_TIMEOUT="5")
    try:
        for index in (0, 2):
            output, errors = running[index].communicate(timeout=LIMIT)
            assert FAULTS[fault] in output, (output, errors[-4000:])
    finally:
        running[1].send_signal(signal.SIGKILL)
        running[1].communicate()


@pytest.mark.parametrize("fault", ["other", "scale", "after", "perm", "loop"])
def test_programs_that_differ_are_found(fault: str) -> None:
    running = start("faults.py", 3, fault, INGOT_PROCESS_TIMEOUT="20")
    wanted = {0: "process 1", 1: "process [02]", 2: "process 1"}
    try:
        for index, each in enumerate(running):
            output, errors = each.communicate(timeout=LIMIT)
            told = re.search(f": {wanted[index]}: it runs another program", output)
            assert told, (index, output, errors[-4000:])
    finally:
        for each in running:
            each.kill()


def test_processes_on_different_cpus() -> None:
    address = coordinator()
    running = [
        start_one("collectives.py", index, 2, address, INGOT_CPU_LEVEL=level)
        for index, level in enumerate(("avx2", "auto"))
    ]
    expect_done(running)


def wrapper(folder: Path) -> Path:
    """Return a script that takes its number from MPI."""
    path = folder / "ranked.py"
    path.write_text(
        "import os, runpy, sys\n"
        "sys.argv = [sys.argv[1], os.environ['PMI_RANK'], os.environ['PMI_SIZE'], sys.argv[2]]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return path


@pytest.mark.skipif(not MPIEXEC.exists(), reason="no MPICH in this environment")
@pytest.mark.parametrize("library", ["libmpi.so.12", "libmpi_abi.so.1"])
def test_mpi(tmp_path: Path, library: str) -> None:
    if library == "libmpi_abi.so.1" and not (Path(sys.prefix) / "lib" / library).exists():
        pytest.skip("this MPICH has no library of the standard's ABI")
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, wrapper(tmp_path), FOLDER / "collectives.py",
         coordinator()],
        env=environment(
            INGOT_COLLECTIVES="mpi", INGOT_MPI_LIBRARY=str(Path(sys.prefix) / "lib" / library)
        ),
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.stdout.count("done") == 2, done.stderr[-4000:]


def test_no_mpi_is_said() -> None:
    program = "from ingot.runtime.foreign.collectives.mpi_library import mpi_library; mpi_library()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(INGOT_MPI_LIBRARY="/nowhere/libmpi.so"),
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert "INGOT0519" in done.stderr
    assert "/nowhere/libmpi.so" in done.stderr
