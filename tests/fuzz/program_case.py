# SPDX-License-Identifier: Apache-2.0
"""Cases that are programs: HLO text, with its inputs and how results are compared in comments.

    // FP: fast
    // LEVEL: avx2
    // COMPARE: exact; ulps 4; ulps 2 of largest; close 0.001
    // INPUT: f32[3] {1, nan, -0}
    HloModule ...

There is one word of comparison for each leaf of the result, or one for all: equal numbers, so many
units in the last place of the number or of the array's largest one, or a tolerance relative to the
number and absolute. FP is the floating-point licence and LEVEL the level of the CPU, if they are
not the default; at a level that this machine does not have, the program is compiled only. Inputs
are literals as HLO text writes them, one for each entry parameter in order, so that a case can be
read, changed and run by hand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.differential.comparison import difference

import ingot
from ingot.client.executables.executable import Executable
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.dtype import from_numpy
from ingot.hlo.module import Module
from ingot.llvm.target import CPU_LEVELS, TargetSpec, host_levels
from ingot.support import flags
from ingot.tools.programs.cases import input_lines, inputs_in

Array = np.ndarray[Any, np.dtype[Any]]
EXACT = "exact"
_FP, _LEVEL, _COMPARE = "// FP: ", "// LEVEL: ", "// COMPARE: "


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """A program, its inputs, and how each leaf of its result is compared, or all of them."""

    module: Module
    inputs: Sequence[Array]
    compare: tuple[str, ...] = (EXACT,)
    fp: str = "default"
    level: str = "auto"

    def to_bytes(self) -> bytes:
        """Return the case as a file holds it."""
        lines = [] if self.fp == "default" else [f"{_FP}{self.fp}"]
        lines += [] if self.level == "auto" else [f"{_LEVEL}{self.level}"]
        lines += [f"{_COMPARE}{'; '.join(self.compare)}"]
        lines += input_lines(self.inputs)
        return "\n".join([*lines, print_module(self.module)]).encode()

    def wanted(self) -> list[Array]:
        """Return what the evaluator says."""
        with np.errstate(all="ignore"):
            return flat(evaluate(self.module, self.inputs))

    def compiled(self) -> Executable:
        """Return the program compiled under its licence."""
        with flags.override(flags.FP, self.fp):
            return ingot.compile(self.module, target=TargetSpec.at_level(self.level))

    @property
    def runs_here(self) -> bool:
        """Whether this machine has the case's level."""
        return self.level in ("auto", *host_levels())

    def difference(self, engine: str, got: Sequence[Array], want: Sequence[Array]) -> str:
        """Return how an engine's results differ, or ""."""
        how = self.compare if len(self.compare) > 1 else self.compare * len(want)
        for number, (mine, other, word) in enumerate(zip(got, want, how, strict=True)):
            text = _difference(mine, other, word)
            if text:
                return f"{engine}: leaf {number} of {other.dtype} {text}"
        return ""


def read_case(data: bytes) -> ProgramCase:
    """Return the case in a file."""
    text = data.decode()
    compare: tuple[str, ...] = (EXACT,)
    fp, level = "default", "auto"
    for line in text.splitlines():
        if line.startswith(_COMPARE):
            compare = tuple(line.removeprefix(_COMPARE).split("; "))
        elif line.startswith(_FP):
            fp = line.removeprefix(_FP)
        elif line.startswith(_LEVEL):
            level = line.removeprefix(_LEVEL)
    return ProgramCase(parse(text), inputs_in(text), compare, fp, level)


def some_level(choose: random.Random) -> str:
    """Return this machine's level most of the time, else any: some cases are compiled only."""
    return choose.choice(tuple(CPU_LEVELS)) if choose.random() < 0.3 else "auto"


def flat(value: Any) -> list[Array]:
    """Return the leaves of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]


def _difference(mine: Array, other: Array, compare: str) -> str:
    word, *rest = compare.split()
    if word == "close":
        return _beyond(mine, other, float(rest[0]))
    ulps = float(rest[0]) if word == "ulps" else 0.0
    if mine.shape != other.shape:
        return difference(mine, other, 0)
    # A zero may have either sign: ops that choose among equal numbers may choose any.
    zeros = None if ulps else (mine == 0) & (other == 0)
    return difference(mine, other, ulps, of_largest="largest" in rest, leave_out=zeros)


def _beyond(mine: Array, other: Array, tolerance: float) -> str:
    """Return where arrays differ by more than a tolerance, or ""."""
    kind = from_numpy(other.dtype)
    if not (kind.is_float or kind.is_complex):
        return difference(mine, other, 0)
    wide = np.complex128 if kind.is_complex else np.float64
    with np.errstate(all="ignore"):
        near = np.isclose(
            mine.astype(wide), other.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    return difference(mine, other, 0, leave_out=near)
