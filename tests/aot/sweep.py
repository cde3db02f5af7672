# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.aot.sweep wasm`: random programs on another architecture and in the evaluator.

The programs are those of the fuzzer, with its comparison. A program that differs is printed with
its seed; one that cannot be in an artifact is counted.
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from tests.aot import test_aarch64, test_wasm
from tests.aot.cross import Case
from tests.fuzz.program_case import ProgramCase, read_case
from tests.fuzz.targets import exact_programs, op_programs

import ingot
from ingot.aot.build import compile_aot

MACHINES = {"aarch64": test_aarch64, "wasm": test_wasm}
TARGETS = {"exact": exact_programs, "ops": op_programs}
AT_ONCE = 20


def compiled(architecture: str, name: str, case: ProgramCase) -> Case:
    """Compile a case of the fuzzer."""
    triple = MACHINES[architecture].TRIPLE
    program = compile_aot(case.module, name, triple=triple)
    wanted = [np.asarray(one) for one in case.wanted()]
    return Case(name, list(case.inputs), wanted, program)


def sweep(architecture: str, seeds: range) -> tuple[list[str], Counter[str]]:
    """Run a program for each seed; return what differs, and how many ran or were refused."""
    machine, counts = MACHINES[architecture], Counter[str]()
    different: list[str] = []
    made: dict[str, tuple[Case, ProgramCase]] = {}
    for seed in seeds:
        for kind, target in TARGETS.items():
            name = f"{kind}_{seed}"
            case = read_case(target.generate(random.Random(seed)))
            if case.fp != "default":
                counts["of another licence"] += 1
                continue
            try:
                made[name] = compiled(architecture, name, case), case
            except ingot.IngotError as error:
                counts[f"refused: {error.diagnostic.message[:90]}"] += 1
    rows = list(made.values())
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            printed = machine.run(folder, [ahead for ahead, _ in part])
            for ahead, case in part:
                counts["ran"] += 1
                if f"{ahead.name} 0\n" not in printed:
                    said = [line for line in printed.splitlines() if line.startswith(ahead.name)]
                    different.append(f"{ahead.name}: {said}")
                    continue
                found = case.difference(architecture, ahead.results(folder), ahead.wanted)
                different += [f"{ahead.name}: {found}"] if found else []
    return different, counts


def main() -> int:
    """Sweep, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("architecture", choices=MACHINES)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    different, counts = sweep(given.architecture, seeds)
    for key, number in counts.most_common():
        print(f"{number:5d}  {key}")
    print(f"{len(different)} differ", *different, sep="\n")
    return bool(different)


if __name__ == "__main__":
    raise SystemExit(main())
