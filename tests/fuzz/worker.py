# SPDX-License-Identifier: Apache-2.0
"""The child process of a fuzz run: makes cases and checks them, and says so line by line.

Commands come on standard input, one a line: `run SEED COUNT SECONDS` makes and checks so many
cases from that seed on, or until the time is over; `check PATH` checks the case in a file; `steer
JSON` names what to aim at. Answers go to the first standard output, which nothing else can reach:
`ready` once, `case SEED` before each, `finding SEED JSON` (with the case's bytes in Base64), `done
JSON`. The bytes of the case at work stand in a file, for a parent that sees this process end.

Example:
    echo 'run 0 100 10' | .venv/bin/python -m tests.fuzz.worker exact_programs /tmp/case.hlo
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import gc
import json
import os
import random
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from tests.fuzz import steering
from tests.fuzz.finding import Finding, of_exception, of_text
from tests.fuzz.reach import Reach
from tests.fuzz.target import Target, target


def main() -> int:
    """Answer commands until there are no more."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("target")
    options.add_argument("case", type=Path, help="where the case at work is written")
    options.add_argument("--functions", action="store_true", help="note which functions run")
    given = options.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what programs print goes to standard error
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chosen = target(given.target)
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory, chosen.memory))
    worker = _Worker(chosen, given.case, answers, Reach(functions=given.functions))
    gc.freeze()  # What was imported stays.
    print("ready", file=answers)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "run":
            seed, count, seconds = rest.split()
            worker.run(int(seed), int(count), float(seconds))
        elif word == "check":
            worker.check(0, Path(rest).read_bytes())
        elif word == "steer":
            steering.UNREACHED = tuple(json.loads(rest))
            continue
        print("done", json.dumps(worker.reach.names()), file=answers)
    # What a program left running, and destructors of frameworks, are no part of the search.
    answers.flush()
    os._exit(0)


class _Worker:
    def __init__(self, chosen: Target, case: Path, answers: TextIO, reach: Reach) -> None:
        self._target = chosen
        self._case = case
        self._answers = answers
        self.reach = reach

    def run(self, first: int, count: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        for seed in range(first, first + count):
            if time.monotonic() > end:
                break
            print("case", seed, file=self._answers)
            try:
                data = self._target.generate(random.Random(seed))
            except Exception as error:
                self._say(seed, of_exception(error), b"")
            else:
                self.check(seed, data)

    def check(self, seed: int, data: bytes) -> None:
        self._case.write_bytes(data)
        try:
            with self.reach:
                text = self._target.check(data)
        except Exception as error:
            self._say(seed, of_exception(error), data)
        else:
            if text:
                self._say(seed, of_text(text), data)

    def _say(self, seed: int, finding: Finding, data: bytes) -> None:
        # The file holds the next case by the time that the parent reads this line.
        said = {**asdict(finding), "case": base64.b64encode(data).decode()}
        print("finding", seed, json.dumps(said), file=self._answers)


if __name__ == "__main__":
    sys.exit(main())
