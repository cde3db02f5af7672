# SPDX-License-Identifier: Apache-2.0
"""The parent's side of a worker process: sends commands, reads answers, sees it die or hang.

Invariant: a worker that has not answered for as long as its target allows is made to print its
stack and is ended; the case that it worked at is a finding, and the next command starts a new one.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.fuzz.finding import Finding, of_death
from tests.fuzz.target import Target

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0
"""What a process may take to begin, frameworks and all."""


@dataclass(slots=True)
class Outcome:
    """What came of a command.

    Attributes:
        findings: each with the seed and the bytes of its case.
        cases: how many cases were begun.
        next_seed: the seed after the last one begun.
        reached: names by kind (`reach`), of a command that came to its end.
    """

    next_seed: int
    cases: int = 0
    findings: list[tuple[int, Finding, bytes]] = field(default_factory=list)
    reached: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class Watched:
    """A worker process of a target."""

    def __init__(self, chosen: Target, folder: Path, *, functions: bool = False) -> None:
        """Start nothing yet; the case at work is kept in `folder`."""
        self._target = chosen
        self._functions = functions
        self._case = folder / f"case-{os.getpid()}-{id(self):x}{chosen.suffix}"
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as this does)
        self._pending = b""
        self._steering: tuple[str, ...] = ()

    def steer(self, unreached: Sequence[str]) -> None:
        """Say what was not reached yet, to every process from the next one on."""
        self._steering = tuple(unreached)

    def run(self, seed: int, *, count: int = sys.maxsize, seconds: float = 1e9) -> Outcome:
        """Make and check cases from `seed` on, so many or for so long.

        A process that dies ends the command; the outcome says from which seed to go on.
        """
        return self._command(f"run {seed} {count} {seconds}", seed)

    def check(self, data: bytes) -> Finding | None:
        """Check one case."""
        path = self._case.with_name(f"given-{self._case.name}")
        path.write_bytes(data)
        found = self._command(f"check {path}", 0).findings
        path.unlink()
        return found[0][1] if found else None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._case.unlink(missing_ok=True)

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)
        self._errors.truncate()
        self._pending = b""
        flags = ["--functions"] if self._functions else []
        environment = {**os.environ, **dict(self._target.environment), "PYTHONUNBUFFERED": "1"}
        if self._functions:
            environment["INGOT_CACHE"] = "0"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", self._target.name, self._case, *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        self._send(process, "steer " + json.dumps(self._steering))
        return process

    def _send(self, process: subprocess.Popen[bytes], command: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{command}\n".encode())
        process.stdin.flush()

    def _command(self, command: str, seed: int) -> Outcome:
        outcome = Outcome(seed)
        is_new = self._process is None or self._process.poll() is not None
        process = self._process = self._start() if is_new else self._process
        assert process is not None
        self._send(process, command)
        limit = START_SECONDS if is_new else self._target.seconds
        for line in self._lines(process, limit):
            word, _, rest = line.partition(" ")
            if word == "case":
                outcome.cases += 1
                outcome.next_seed = int(rest) + 1
            elif word == "finding":
                number, _, text = rest.partition(" ")
                said = json.loads(text)
                data = base64.b64decode(said.pop("case"))
                outcome.findings.append((int(number), Finding(**said), data))
            elif word == "done":
                outcome.reached = json.loads(rest)
                return outcome
        self._bury(process, outcome)
        return outcome

    def _lines(self, process: subprocess.Popen[bytes], limit: float) -> Iterator[str]:
        """Yield answers until the process ends or is silent for too long."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while True:
            while b"\n" in self._pending:
                line, _, self._pending = self._pending.partition(b"\n")
                yield line.decode()
                limit = self._target.seconds
            ready, _, _ = select.select([descriptor], [], [], limit)
            if not ready:
                return
            read = os.read(descriptor, 1 << 16)
            if not read:
                return
            self._pending += read

    def _bury(self, process: subprocess.Popen[bytes], outcome: Outcome) -> None:
        """Note how a process ended that did not come to the end of its command."""
        try:
            process.wait(timeout=1)
            hung = False
        except subprocess.TimeoutExpired:
            hung = True
            process.send_signal(signal.SIGABRT)  # faulthandler prints the stack
            time.sleep(0.5)
            process.kill()
            process.wait()
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        case = self._case.read_bytes() if self._case.exists() else b""
        finding = of_death(process.returncode, errors, hung)
        outcome.findings.append((outcome.next_seed - 1, finding, case))
        self._process = None


def findings(chosen: Target, folder: Path, seeds: range) -> list[str]:
    """Return what is found in the cases of some seeds, a line each: for tests."""
    watched, found, seed = Watched(chosen, folder), list[str](), seeds.start
    while seed < seeds.stop:
        outcome = watched.run(seed, count=seeds.stop - seed)
        found += [f"seed {n}: {finding.detail}" for n, finding, _ in outcome.findings]
        seed = max(outcome.next_seed, seed + 1)
    watched.close()
    return found
