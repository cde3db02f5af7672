# SPDX-License-Identifier: Apache-2.0
"""The results file and the page that is made of it: `results.json`, `docs/accuracy.md`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.accuracy.compositions import Figures
from tests.accuracy.dense import Worst
from tests.accuracy.functions import COMPLEX, FLOATS, find
from tests.accuracy.measure import Record

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
TEMPLATE = HERE / "page.md"
PAGE = HERE.parents[1] / "docs" / "accuracy.md"
Records = dict[tuple[str, str], Record]
Signs = dict[str, dict[str, dict[str, str]]]
"""By function, then level (or the evaluator), then operand: the sign of NaN results of f32."""

ALL_F32 = 1 << 32
_LIMIT = 2.0
_UNBOUNDED = 1000.0
"""Figures beyond have no bound in either: how far a search gets is luck."""
_SAMPLING = 1.25
"""In four dimensions the worst is not found: figures this near to each other are not told apart."""


def load() -> Records:
    """Return what was measured so far."""
    return {(row["name"], row["element"]): _record(row) for row in _file().get("rows", [])}


def load_signs() -> Signs:
    """Return the recorded signs of NaN results."""
    return _file().get("signs", {})


def facts(here: list[str]) -> list[str]:
    """Return what is said of the machines that measured: `here` after those of earlier runs."""
    known = {_undated(fact) for fact in here}
    return [fact for fact in _file().get("facts", []) if _undated(fact) not in known] + here


def _undated(fact: str) -> str:
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d, ", "", fact)


def _file() -> dict[str, Any]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def _record(row: dict[str, Any]) -> Record:
    worst = {name: _worst(item) for name, item in row["worst"].items()}
    xla = row["xla"] and _worst(row["xla"])
    return Record(**{**row, "worst": worst, "xla": xla})


def _worst(item: dict[str, Any]) -> Worst:
    return Worst(float(item["ulp"]), tuple(item["at"]))


def load_compositions() -> Figures:
    """Return the recorded figures of functions that JAX builds of HLO's."""
    return _file().get("compositions", {})


def save(records: Records, facts: list[str], signs: Signs, compositions: Figures) -> None:
    """Write the results file, whole or not at all."""
    rows = ",\n".join(
        json.dumps(asdict(record), default=str)
        for record in records.values()
        if record.done or record.xla
    )
    parts = {"facts": facts, "signs": signs, "compositions": compositions}
    head = "".join(f'"{name}": {json.dumps(item)},\n' for name, item in parts.items())
    part = RESULTS.with_suffix(".part")
    part.write_text(f'{{{head}"rows": [\n{rows}\n]}}\n', encoding="utf-8")
    part.replace(RESULTS)


def page() -> str:
    """Return the page of what is in the results file."""
    records, content = list(load().values()), _file()
    rows, exceptions = _sign_rows(content["signs"])
    return TEMPLATE.read_text(encoding="utf-8").format(
        facts="\n".join(f"* {fact}" for fact in content["facts"]),
        f32=_table(records, ("f32",), 1),
        f64=_table(records, ("f64",), 1),
        narrow=_table(records, ("bf16", "f16"), 1),
        pairs=_table(records, FLOATS, 2),
        complex="\n".join(
            [_table(records, COMPLEX, 1), *_table(records, COMPLEX, 2).splitlines()[2:]]
        ),
        compositions=_composition_table(content["compositions"]),
        signs="\n".join(rows),
        exceptions="\n".join(exceptions),
    )


def _table(records: list[Record], elements: tuple[str, ...], arity: int) -> str:
    levels = sorted({level for record in records for level in record.worst})
    lines = [
        "| function | type | inputs | " + " | ".join(levels) + " | XLA | worst operands |",
        "|---|---|---|" + "---|" * (len(levels) + 2),
    ]
    for record in records:
        if not record.worst or record.element not in elements:
            continue
        if find(record.name, record.element).arity != arity:
            continue
        xla = record.xla.ulp if record.xla else math.nan
        cells = [
            _cell(record.worst[level].ulp, record) if level in record.worst else ""
            for level in levels
        ]
        greatest = max(record.worst.values(), key=lambda item: item.ulp)
        inputs = _inputs(record)
        lines.append(
            f"| `{record.name}` | {record.element} | {inputs} | {' | '.join(cells)} |"
            f" {figure(xla)} | {', '.join(map(str, greatest.at))} |"
        )
    return "\n".join(lines)


def _composition_table(compositions: Figures) -> str:
    engines = list(next(iter(next(iter(compositions.values())).values())))
    lines = [f"| function | type | {' | '.join(engines)} |", "|---|---|" + "---|" * len(engines)]
    for name, by_element in compositions.items():
        for element, found in by_element.items():
            cells = " | ".join(figure(found[engine]) for engine in engines)
            lines.append(f"| `{name}` | {element} | {cells} |")
    return "\n".join(lines)


def _inputs(record: Record) -> str:
    """Return how many inputs were tried, at least and at most if levels differ."""
    every = ALL_F32 if record.element == "f32" else 1 << 16
    counts = sorted(set(record.inputs.values()))
    texts = ["all" if count == every else f"{count:,}" for count in counts]
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _cell(ulp: float, record: Record) -> str:
    return figure(ulp) + (" !" if is_behind(ulp, record) else "")


def is_behind(ulp: float, record: Record) -> bool:
    """Whether a figure is above both the limit and XLA's."""
    if record.xla is None or ulp <= _LIMIT or min(ulp, record.xla.ulp) > _UNBOUNDED:
        return False
    return ulp > record.xla.ulp * (_SAMPLING if record.element in COMPLEX else 1)


def figure(ulp: float) -> str:
    """Return a distance in words: rounded up to three digits."""
    if math.isnan(ulp):
        return ""
    if math.isinf(ulp):
        return "wrong"
    return f"{math.ceil(ulp * 1000) / 1000:.3f}" if ulp < 1000 else f"{ulp:.1e}"


def _sign_rows(signs: Signs) -> tuple[list[str], list[str]]:
    rows: list[str] = []
    exceptions: list[str] = []
    for name, by_level in signs.items():
        levels = list(by_level)
        first = by_level[levels[0]]
        cells = [_joined(first, "NaN"), _joined(first, "-NaN"), first.get("outside", "")]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
        for level in levels[1:]:
            if by_level[level] != first:
                other = ", ".join(f"{case}: {sign}" for case, sign in by_level[level].items())
                exceptions.append(f"* `{name}` at the level {level}: {other}")
    return rows, exceptions


def _joined(cases: dict[str, str], label: str) -> str:
    if label in cases:
        return cases[label]
    return ", ".join(f"{side} {cases[f'{label} {side}']}" for side in ("left", "right"))
