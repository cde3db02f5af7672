# SPDX-License-Identifier: Apache-2.0
"""The fuzz run's programs, in child processes: some seeds of each target, and its own machinery."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.bounds import limit
from tests.fuzz.finding import of_exception, of_text
from tests.fuzz.generator import exact_program
from tests.fuzz.program_case import ProgramCase, read_case
from tests.fuzz.reach import all_of
from tests.fuzz.reduce import part_of
from tests.fuzz.target import target, target_names
from tests.fuzz.watch import ROOT, Watched, findings

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import ParseError
from ingot.tools.programs.cases import Case
from ingot.tools.reduction.subgraph import subgraph, values_of

SEEDS = 12
"""Cases of each target in `make test`: the search itself is `make fuzz`."""


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_exact(seed: int) -> None:
    """The evaluator's results are whole numbers that their type holds exactly."""
    module, inputs = exact_program(seed)
    verify(module)
    results = evaluate(module, inputs)
    for value, shape in zip(results, module.result_shape.elements, strict=True):
        wide = np.abs(np.asarray(value).astype(np.complex128))
        assert wide.max(initial=0) <= 2 * limit(shape.dtype)
        assert np.array_equal(np.asarray(value), np.round(np.asarray(value).astype(np.complex128)))


def test_some_exact_programs(tmp_path: Path) -> None:
    assert not findings(target("exact_programs"), tmp_path, range(1_000_000, 1_000_030))


@pytest.mark.slow
def test_more_exact_programs(tmp_path: Path) -> None:
    assert not findings(target("exact_programs"), tmp_path, range(150))


@pytest.mark.slow
@pytest.mark.parametrize("name", target_names())
def test_every_target(name: str, tmp_path: Path) -> None:
    assert not findings(target(name), tmp_path, range(2_000_000, 2_000_000 + SEEDS))


@pytest.mark.parametrize("name", target_names())
def test_seeds_give_the_same_cases(name: str) -> None:
    makers = [target(name).generate(random.Random(5)) for _ in range(2)]
    assert makers[0] == makers[1]


_DIGESTS = """
import hashlib, random
from tests.fuzz.target import target, target_names
for name in target_names():
    cases = [target(name).generate(random.Random(seed)) for seed in range(2)]
    print(name, [hashlib.sha256(case).hexdigest() for case in cases])
"""


@pytest.mark.slow
@pytest.mark.long
def test_cases_do_not_depend_on_the_process() -> None:
    """A finding's seed gives its case again: nothing follows from the order of a set."""
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _DIGESTS]
        made = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        found.append(made.stdout)
    assert found[0] == found[1]


# ---- the machinery


def test_cases_are_read_as_they_were_written() -> None:
    module, inputs = exact_program(3)
    data = ProgramCase(module, inputs).to_bytes()
    again = read_case(data)
    assert again.to_bytes() == data
    assert not again.difference("again", again.wanted(), read_case(data).wanted())


def test_wrong_results_are_found() -> None:
    case = read_case(ProgramCase(*exact_program(3)).to_bytes())
    want = case.wanted()
    wrong = [value.copy() for value in want]
    wrong[0].flat[0] += 1
    assert "leaf 0" in case.difference("cpu", wrong, want)


def test_a_worker_that_dies_hangs_or_raises_is_a_finding(tmp_path: Path) -> None:
    chosen = target("tests.fuzz.misbehaving")
    for kind, wanted in (("die", "SIGSEGV"), ("hang", "hang"), ("raise", "ZeroDivisionError")):
        watched = Watched(chosen, tmp_path)
        found = watched.check(kind.encode())
        assert found is not None
        assert wanted in found.signature
        assert watched.check(b"well") is None  # a new process, if the old one ended
        watched.close()


def test_findings_keep_their_cases(tmp_path: Path) -> None:
    """A worker goes on to the next case before its parent reads what it found."""
    chosen = target("tests.fuzz.misbehaving")
    watched = Watched(chosen, tmp_path)
    cases = [chosen.generate(random.Random(seed)) for seed in range(23, 26)]
    assert cases == [b"raise", b"well", b"well"]
    ((_, _, data),) = watched.run(23, count=3).findings
    watched.close()
    assert data == b"raise"


def test_signatures_do_not_depend_on_numbers() -> None:
    assert of_text("at [1, 2]: 3.5 not 4").signature == of_text("at [7]: 1e-3 not 5").signature
    signatures = set()
    for text in ("HloModule m {", "HloModule other {"):
        try:
            ingot.parse_hlo(text)
        except ParseError as error:
            signatures.add(of_exception(error).signature.split(":")[0])
    assert len(signatures) == 1


def test_reached_names_are_those_of_the_tables(tmp_path: Path) -> None:
    """What workers note is in the table of its kind: tables and notes are made apart."""
    watched = Watched(target("mixed_cases"), tmp_path, functions=True)
    reached = watched.run(7, count=2).reached
    watched.close()
    for kind in ("rules", "passes", "strategies"):
        assert set(reached[kind]) <= set(all_of(kind)), kind
    for kind in ("passes", "strategies", "templates", "functions"):
        assert set(reached[kind]) & set(all_of(kind)), kind


def test_parts_of_a_case_keep_their_numbers() -> None:
    """A value that became an input gives the results that it gave when it was computed."""
    case = ProgramCase(*exact_program(11))
    whole, wanted = Case(case.module, tuple(case.inputs)), case.wanted()
    values, root = values_of(whole), case.module.entry.root
    compared = 0
    for item in root.operands if root.opcode == "tuple" else (root,):
        made = subgraph(whole, {item.name}, values)
        if made is None:
            continue
        verify(made.module)
        part, (number,) = part_of(case, made), made.outputs
        assert part is not None
        assert number is not None
        assert not part.difference("part", part.wanted(), [wanted[number]])
        assert part.module.instruction_count < case.module.instruction_count
        compared += 1
    assert compared
