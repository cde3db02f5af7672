# SPDX-License-Identifier: Apache-2.0
"""Measures which op runs on which element type, and writes docs/coverage.md.

For every opcode and element type the programs of `op_programs` are verified, evaluated and
compiled for the CPU; the results must agree. `INGOT0320` and the like are holes; a hole needs a
reason in `REASONS`, else it is an error. `--check` writes nothing and fails when the page differs.

Example:
    .venv/bin/python tools/op_coverage.py --only dot sort
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo import opdef
from ingot.hlo.dtype import DTYPES, DType
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError
from op_programs import WITHOUT_PROGRAM, programs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Cell:
    """What was found for one op and element type; `error` is empty where all is well."""

    defined: bool
    evaluator: str = ""
    cpu: str = ""

    @property
    def error(self) -> str:
        """What is wrong, or nothing."""
        return self.evaluator or self.cpu


def element_types() -> list[DType]:
    """Return the element types of arrays, as the page orders them."""
    return [element for element in DTYPES.values() if element.storage is not None]


def inputs_of(module: Module) -> list[Array]:
    """Return numbers that every type holds, and that sums of a few stay exact in."""
    generator = np.random.default_rng(7)
    return [
        random_array(generator, parameter.shape.dtype, parameter.shape.static_dims)
        for parameter in module.entry.parameters
    ]


def random_array(generator: np.random.Generator, element: DType, dims: tuple[int, ...]) -> Array:
    """Return an array of small numbers of a type."""
    if element.name == "pred":
        return generator.integers(0, 2, dims).astype(np.bool_)
    if element.is_integer:
        low = max(-3, -(1 << (element.bits - 1))) if element.is_signed else 0
        high = min(3, (1 << (element.bits - element.is_signed)) - 1)
        return generator.integers(low, high + 1, dims).astype(np.int64).astype(element.numpy)
    if element.name == "f8e8m0fnu":
        return np.exp2(generator.integers(-2, 3, dims)).astype(np.float32).astype(element.numpy)
    parts = [generator.integers(-4, 5, dims) / 2 for _ in range(2)]
    values = parts[0] + 1j * parts[1] if element.is_complex else parts[0]
    return (
        np.asarray(values)
        .astype(np.complex128 if element.is_complex else np.float32)
        .astype(element.numpy)
    )


def probe(opcode: str, element: DType) -> Cell:
    """Return what is found when the programs of an op run on a type."""
    texts = programs(opcode, element)
    if not texts:
        return Cell(False)
    for text in texts:
        cell = probe_text(text)
        if not cell.defined or cell.error:
            return cell
    return Cell(True)


def probe_text(text: str) -> Cell:
    """Return what is found when one program runs."""
    try:
        module = parse(text)
    except IngotError:
        return Cell(False)
    inputs = inputs_of(module)
    try:
        with np.errstate(all="ignore"):
            wanted = flat(evaluate(module, inputs))
    except Exception as error:
        return Cell(True, evaluator=summary(error))
    try:
        got = flat(ingot.compile(parse(text))(*inputs))
    except Exception as error:
        return Cell(True, cpu=summary(error))
    pairs = enumerate(zip(got, wanted, strict=True))
    found = [f"output {n}: {d}" for n, (a, b) in pairs if (d := difference(a, b))]
    return Cell(True, cpu="; ".join(found))


def summary(error: Exception) -> str:
    """Return the first line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return lines[0] if isinstance(error, IngotError) else f"{type(error).__name__}: {lines[0]}"


def flat(value: Any) -> list[Array]:
    """Return the leaves of a result."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]


def difference(got: Array, want: Array) -> str:
    """Return what differs by more than a few units in the last place."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    element = next(e for e in DTYPES.values() if e.storage == want.dtype)
    if not (element.is_float or element.is_complex):
        return "" if np.array_equal(got, want) else f"{got.tolist()}, not {want.tolist()}"
    wide = np.complex128 if element.is_complex else np.float64
    a, b = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        # Whether it is the op, not how accurate it is: other tests have the bounds.
        size = np.nanmax(np.abs(b), initial=1e-30)
        near = np.abs(a - b) <= 16 * 2.0**-element.mantissa * size
        same = near | (a == b) | (np.isnan(a) & np.isnan(b))
    return "" if same.all() else f"{a[~same][0]}, not {b[~same][0]}"


HOLES: tuple[tuple[str, frozenset[str], str], ...] = ()
"""Explained holes: an opcode, names of element types, and why."""


def reason_of(opcode: str, element: str) -> str:
    """Return why there is a hole, or nothing."""
    found = [reason for name, types, reason in HOLES if name == opcode and element in types]
    return found[0] if found else ""


def row_of(opcode: str) -> dict[str, Cell]:
    """Return what is found for an op, by the name of the element type."""
    return {element.name: probe(opcode, element) for element in element_types()}


GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pred", ("pred",)),
    ("s1 s2 s4", ("s1", "s2", "s4")),
    ("u1 u2 u4", ("u1", "u2", "u4")),
    ("s8 to s64", ("s8", "s16", "s32", "s64")),
    ("u8 to u64", ("u8", "u16", "u32", "u64")),
    ("f4", ("f4e2m1fn",)),
    ("f8", tuple(e.name for e in DTYPES.values() if e.name.startswith("f8"))),
    ("bf16 f16", ("bf16", "f16")),
    ("f32 f64", ("f32", "f64")),
    ("c64 c128", ("c64", "c128")),
)


def symbol(cell: Cell) -> str:
    """Return how a cell is shown."""
    if not cell.defined:
        return ""
    return "✓" if not cell.error else "no" if cell.evaluator else "evaluator"


def row_text(opcode: str, cells: dict[str, Cell]) -> str:
    """Return the table row of an op."""
    columns: list[str] = []
    for _, names in GROUPS:
        kinds: dict[str, list[str]] = {}
        for name in names:
            kinds.setdefault(symbol(cells[name]), []).append(name)
        if len(kinds) == 1:
            columns.append(next(iter(kinds)))
        else:
            columns.append(
                "; ".join(f"{s or 'not in HLO'}: {' '.join(n)}" for s, n in kinds.items())
            )
    return f"| `{opcode}` | " + " | ".join(columns) + " |"


def page(rows: dict[str, dict[str, Cell]]) -> str:
    """Return the page, from what was found for every op."""
    lines = ["# Coverage: every op on every element type", "", INTRODUCTION, ""]
    lines.append("| op | " + " | ".join(title for title, _ in GROUPS) + " |")
    lines.append("|---" * (len(GROUPS) + 1) + "|")
    lines += [row_text(opcode, cells) for opcode, cells in rows.items()]
    lines += ["", "## Ops whose element types need no program", "", "| op | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(WITHOUT_PROGRAM.items())]
    lines += ["", "## Holes", ""]
    holes = [
        f"* `{opcode}` of {name}: {reason_of(opcode, name) or 'NOT EXPLAINED: ' + cell.error}"
        for opcode, cells in rows.items()
        for name, cell in cells.items()
        if cell.error
    ]
    lines += holes or ["None: what HLO defines, the evaluator and the CPU run, with equal results."]
    return "\n".join(lines) + "\n"


INTRODUCTION = """\
Measured by `tools/op_coverage.py`: for each op and element type a small program is verified,
evaluated and compiled for the CPU, and the results must agree. ✓: both run and agree. Empty: HLO
does not define the op for the type. `evaluator`: only the evaluator runs it; `no`: neither does.
The ops themselves are in [ops.md](ops.md), and how narrow types lie in memory in
[element_types.md](element_types.md)."""


def measured_opcodes() -> list[str]:
    """Return the opcodes that have a row."""
    return sorted(set(opdef.table()) - set(WITHOUT_PROGRAM))


def main(arguments: list[str]) -> int:
    """Write the page, or compare it, or print the rows of some ops; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when it differs")
    parser.add_argument("--only", nargs="*", default=[], help="print what is found for these ops")
    given = parser.parse_args(arguments)
    rows = {opcode: row_of(opcode) for opcode in given.only or measured_opcodes()}
    holes = [(o, n, c.error) for o, cells in rows.items() for n, c in cells.items() if c.error]
    unexplained = [hole for hole in holes if not reason_of(hole[0], hole[1])]
    for opcode, name, error in unexplained:
        print(f"{opcode} of {name} has no reason in HOLES: {error}")
    if given.only:
        print("\n".join(row_text(opcode, cells) for opcode, cells in rows.items()))
        return bool(unexplained)
    text = page(rows)
    behind = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
    if behind and given.check:
        print(f"{PAGE} is behind: run {Path(__file__).name}")
    elif behind:
        PAGE.write_text(text, encoding="utf-8")
    return bool(unexplained) or (behind and given.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
