# SPDX-License-Identifier: Apache-2.0
"""`make faults FAULTS=n`: random faults of programs of several processes.

In each run one process is killed, terminated, stopped, late or never started, at a random moment of
a random phase (import, bootstrap, compile, steps, exit). The others must end within the limit: with
the right parameters if they had all they needed, else with an error that names the process that is
gone. No process is left, and all runs share a cache of compiled code, which must stay good.

Example:
    .venv/bin/python -m tests.soak.processes --faults 3
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = Path(__file__).with_name("process_program.py")
PHASES = ("import", "bootstrap", "compile", "steps", "exit")
KINDS = ("kill", "terminate", "stop", "late", "absent")
LIMIT = 12
"""Seconds: of the bootstrap, of heartbeats, of a collective, and of the end."""

SLACK = 60
"""Seconds that may pass beyond all limits: imports on a busy machine."""

MARK = "PROCESS_FAULTS_RUN"


@dataclass(frozen=True)
class Fault:
    """What happens to one process.

    Attributes:
        kind: one of `KINDS`.
        victim: the number of the process.
        count: how many processes there are.
        phase: the phase in which it happens, of those that run by themselves.
        delay: seconds after the beginning of the phase, or before a late start.
    """

    kind: str
    victim: int
    count: int
    phase: str
    delay: float

    @staticmethod
    def draw(choose: random.Random) -> Fault:
        """Return a random fault."""
        count = choose.choice((2, 3))
        kind = choose.choice(KINDS)
        delay = choose.uniform(0.5, 4.0) if kind == "late" else choose.choice((0.0, 0.02, 0.2, 0.6))
        return Fault(kind, choose.randrange(count), count, choose.choice(PHASES), delay)


@dataclass
class Process:
    """A running process, what it printed, and when it reached each phase."""

    running: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    @staticmethod
    def start(index: int, count: int, address: str, mark: str) -> Process:
        """Start process `index` of `count`."""
        made = Process(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(index), str(count), address, str(LIMIT)],
                env={
                    **os.environ,
                    "JAX_PLATFORMS": "ingot",
                    "INGOT_PROCESS_TIMEOUT": str(LIMIT),
                    MARK: mark,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        for stream, held in ((made.running.stdout, made.lines), (made.running.stderr, made.errors)):
            assert stream is not None
            reader = threading.Thread(target=held.extend, args=(map(str.rstrip, stream),))
            reader.start()
            made.readers.append(reader)
        return made

    def reached(self, phase: str, seconds: float) -> bool:
        """Wait until a phase has begun; return whether it has."""
        until = time.monotonic() + seconds
        while phase not in self.lines and self.running.poll() is None:
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return phase in self.lines

    def ends(self, until: float) -> bool:
        """Wait for the end; return whether it came before `until`."""
        try:
            self.running.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """End it, whatever it does."""
        self.running.kill()
        self.running.wait()
        for reader in self.readers:
            reader.join()

    @property
    def text(self) -> str:
        """All that it printed."""
        return "\n".join([*self.lines, *self.errors])


def free_address() -> str:
    """Return a free address on this machine."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{made.getsockname()[1]}"


def run(fault: Fault | None, count: int, wanted: str | None) -> str:
    """Run the program, with a fault or without one.

    Args:
        fault: what happens, None for a run in which nothing does.
        count: how many processes there are.
        wanted: the bits of the parameters, None to accept any.

    Returns:
        The bits of the parameters, empty if the run did not end with them.

    Raises:
        AssertionError: a process hung, gave wrong numbers, crashed or did not say who is gone.
    """
    address, mark = free_address(), f"{os.getpid()}-{time.monotonic_ns()}"
    victim = -1 if fault is None else fault.victim
    away = fault is not None and fault.kind in ("late", "absent")
    processes = {
        index: Process.start(index, count, address, mark)
        for index in range(count)
        if not (away and index == victim)
    }
    try:
        if fault is not None:
            _happen(fault, processes, address, mark)
        until = time.monotonic() + 3 * LIMIT + SLACK
        is_gone = fault is not None and fault.kind != "late"
        others = {n: one for n, one in processes.items() if not (is_gone and n == victim)}
        for index, one in others.items():
            assert one.ends(until), f"process {index} hangs\n{one.text}"
        if fault is not None and fault.kind == "terminate":
            processes[victim].ends(until)
    finally:
        for one in processes.values():
            one.close()
    _check(fault, {index: processes[index] for index in others}, wanted)
    left = [pid for pid in _marked(mark) if pid != os.getpid()]
    assert not left, f"processes {left} are left"
    ends = [line for one in others.values() for line in one.lines if line.startswith("done ")]
    return ends[0].removeprefix("done ") if len(ends) == len(others) else ""


def _happen(fault: Fault, processes: dict[int, Process], address: str, mark: str) -> None:
    """Let the fault happen."""
    if fault.kind == "late":
        time.sleep(fault.delay)
        processes[fault.victim] = Process.start(fault.victim, fault.count, address, mark)
    elif fault.kind != "absent":
        victim = processes[fault.victim]
        victim.reached(fault.phase, SLACK)
        time.sleep(fault.delay)
        signals = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "stop": signal.SIGSTOP}
        victim.running.send_signal(signals[fault.kind])


def _check(fault: Fault | None, others: dict[int, Process], wanted: str | None) -> None:
    """Raise AssertionError unless each process ended as it should."""
    for index, one in others.items():
        status, text = one.running.returncode, one.text
        found = [line.removeprefix("done ") for line in one.lines if line.startswith("done ")]
        if found:
            assert wanted in (None, found[0]), f"process {index} computed {found}, not {wanted}"
            continue
        assert fault is not None, f"process {index} fails although nothing happened\n{text}"
        assert fault.kind != "late", f"process {index} does not wait for one that is late\n{text}"
        assert status != 0, f"process {index} ends as if all were well\n{text}"
        crashed = status in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE)
        assert not crashed, f"process {index} crashes\n{text}"
        assert names(text, fault.victim), f"process {index} does not name {fault}\n{text}"


def names(text: str, victim: int) -> bool:
    """Whether an error names the victim, and Ingot's words no process that is well.

    What JAX's service says of process 0, in which it runs, is that it cannot be reached. While
    processes register at it, it does not say which one is missing.
    """
    blamed = set(re.findall(r"\bprocess (\d+):", text))
    if blamed:
        return blamed == {str(victim)}
    without_heartbeat = re.search(r"tasks are unhealthy[^\n]*:\n((?:\d+\n)+)", text)
    if without_heartbeat:
        return without_heartbeat[1].split() == [str(victim)]
    named = re.search(rf"\bprocess[ /]{victim}\b|\btask[:_ ]?{victim}\b", text, re.I)
    is_service = re.search(r"coordination service|DEADLINE_EXCEEDED|UNAVAILABLE", text, re.I)
    is_nameless = victim == 0 or "RegisterTask" in text
    return named is not None or (is_service is not None and is_nameless)


def _marked(mark: str) -> list[int]:
    """Return the processes that were started for a run, and theirs."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = (folder / "environ").read_bytes()
            is_zombie = "\nState:\tZ" in (folder / "status").read_text()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in held and not is_zombie:
            found.append(int(folder.name))
    return found


def soak(faults: int, seed: int) -> Counter[str]:
    """Make faults, and say each; return how many of each kind ended how.

    Raises:
        AssertionError: see `run`.
    """
    choose = random.Random(seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["INGOT_CACHE_DIR"] = folder
        wanted = {count: run(None, count, None) for count in (2, 3)}
        for number in range(faults):
            fault = Fault.draw(choose)
            begun = time.monotonic()
            ended = run(fault, fault.count, wanted[fault.count])
            how = "all computed" if ended else "all were told"
            counts[f"{fault.kind}: {how}"] += 1
            print(f"{number} {fault}: {how} after {time.monotonic() - begun:.0f} s", flush=True)
        for count, bits in wanted.items():
            assert run(None, count, bits) == bits, "the cache is not good"
    return counts


def main() -> int:
    """Make faults as the command line says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--faults", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    for row, count in sorted(soak(given.faults, given.seed).items()):
        print(f"{count:4} {row}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
