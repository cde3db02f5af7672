"""Cases that are programs: HLO text, with its inputs and how results are compared in comments.

    // COMPARE: exact          (or a relative tolerance: `close 0.001`)
    // INPUT: f32[3] {1, nan, -0}
    HloModule ...

Inputs are literals as HLO text writes them, one for each entry parameter in order, so that a case
can be read, changed and run by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.dtype import from_numpy
from ingot.hlo.module import Module
from ingot.tools.literals import literal_text, read_literal

Array = np.ndarray[Any, np.dtype[Any]]
EXACT = "exact"
_COMPARE, _INPUT = "// COMPARE: ", "// INPUT: "


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """A program, its inputs, and "exact" or "close <tolerance>"."""

    module: Module
    inputs: Sequence[Array]
    compare: str = EXACT

    def to_bytes(self) -> bytes:
        """Return the case as a file holds it."""
        lines = [f"{_COMPARE}{self.compare}"]
        lines += [f"{_INPUT}{literal_text(np.asarray(value))}" for value in self.inputs]
        return "\n".join([*lines, print_module(self.module)]).encode()

    def wanted(self) -> list[Array]:
        """Return what the evaluator says."""
        with np.errstate(all="ignore"):
            return flat(evaluate(self.module, self.inputs))

    def difference(self, engine: str, got: Sequence[Array], want: Sequence[Array]) -> str:
        """Return how an engine's results differ, or ""."""
        for number, (mine, other) in enumerate(zip(got, want, strict=True)):
            text = _difference(mine, other, self.compare)
            if text:
                return f"{engine}: leaf {number} of {other.dtype} {text}"
        return ""


def read_case(data: bytes) -> ProgramCase:
    """Return the case in a file."""
    text = data.decode()
    inputs: list[Array] = []
    compare = EXACT
    for line in text.splitlines():
        if line.startswith(_INPUT):
            inputs.append(read_literal(line.removeprefix(_INPUT)))
        elif line.startswith(_COMPARE):
            compare = line.removeprefix(_COMPARE)
    return ProgramCase(parse(text), inputs, compare)


def flat(value: Any) -> list[Array]:
    """Return the leaves of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]


def _difference(mine: Array, other: Array, compare: str) -> str:
    if (mine.dtype, mine.shape) != (other.dtype, other.shape):
        return f"is {mine.dtype}{mine.shape}, not {other.dtype}{other.shape}"
    if compare == EXACT:
        same = (mine == other) | ((mine != mine) & (other != other))
    else:
        same = _close(mine, other, float(compare.split()[1]))
    differs = np.argwhere(~np.asarray(same))
    if not len(differs):
        return ""
    index = tuple(map(int, differs[0]))
    return f"at {index}: {mine[index]} not {other[index]}, {len(differs)} of {other.size}"


def _close(mine: Array, other: Array, tolerance: float) -> Any:
    kind = from_numpy(other.dtype)
    if not (kind.is_float or kind.is_complex):
        return mine == other
    wide = np.complex128 if kind.is_complex else np.float64
    with np.errstate(all="ignore"):
        return np.isclose(
            mine.astype(wide), other.astype(wide), rtol=tolerance, atol=tolerance, equal_nan=True
        )
