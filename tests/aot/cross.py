# SPDX-License-Identifier: Apache-2.0
"""Many modules run on another architecture and compared with the evaluator.

`Case` holds a module with inputs; whoever runs it writes results as files of raw bytes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.aot.programs import MORE, PROGRAMS

import ingot
from ingot.aot.build import AotProgram, compile_aot
from ingot.evaluator import evaluate
from ingot.runtime.load import storage_of
from ingot.tools.programs.inputs import random_inputs

NAMES = (*PROGRAMS, *MORE)
SIZE = 6
_LOOSE = {"f16", "bf16", "halves"}


def leaves(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@dataclass
class Case:
    """A module, its inputs, and what it is compiled to."""

    name: str
    inputs: list[Any]
    wanted: list[Any]
    program: AotProgram

    def write_inputs(self, folder: Path) -> None:
        for number, value in enumerate(self.inputs):
            (folder / f"{self.name}.in{number}").write_bytes(np.asarray(value).tobytes())

    def results(self, folder: Path) -> list[Any]:
        """Return what a run wrote."""
        rows = zip(self.program.metadata.outputs, self.wanted, strict=True)
        return [
            np.frombuffer((folder / f"{self.name}.out{number}").read_bytes(), storage_of(row))
            .reshape(want.shape)
            for number, (row, want) in enumerate(rows)
        ]  # fmt: skip

    def check(self, folder: Path) -> None:
        """Compare the files that a run wrote with what the evaluator computes."""
        for got, want in zip(self.results(folder), self.wanted, strict=True):
            if got.dtype.kind in "biu":
                np.testing.assert_array_equal(got, want)
                continue
            wide = np.complex128 if got.dtype.kind == "c" else np.float64
            tolerance = 0.02 if self.name in _LOOSE else 2e-5
            np.testing.assert_allclose(
                got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance * 4
            )


def cases(triple: str, names: tuple[str, ...] = NAMES) -> dict[str, Case]:
    """Compile modules for a target."""
    found: dict[str, Case] = {}
    for name in names:
        module = ingot.parse_hlo((PROGRAMS | MORE)[name])
        inputs = random_inputs(module, 11, {"n": SIZE})
        wanted = [np.asarray(one) for one in leaves(evaluate(module, inputs))]
        program = compile_aot(module, f"p_{name}", triple=triple)
        found[name] = Case(name, inputs, wanted, program)
    return found
