# SPDX-License-Identifier: Apache-2.0
"""Every known disagreement with real XLA, every case that an engine cannot run, and why.

Seen with jaxlib 0.10.2. A case that differs and is not here fails; a row that no case needs any
more is reported by the whole run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.case import Case
from tests.differential.engine import Result


@dataclass(frozen=True, slots=True)
class Row:
    """One disagreement: names of cases, the engine that differs or cannot, and why."""

    pattern: str
    engine: str
    reason: str
    refuses: bool = True
    """Whether the engine has no result at all."""

    def matches(self, result: Result, engine: str) -> bool:
        """Whether the row is about this result on this engine."""
        return engine == self.engine and re.match(self.pattern, result.case.name) is not None


ROWS: tuple[Row, ...] = (
    Row(
        r"(acos|acosh|asin|asinh|atanh|cosh|sinh|stablehlo chlo\.sinh) ",
        "xla",
        "XLA:CPU has no code for these opcodes; its front ends expand them",
    ),
    Row(
        r"sqrt c(64|128) special",
        "xla",
        "XLA's square root of -2.5-0i is above the cut",
        refuses=False,
    ),
    Row(r"dot s4\*s4->s32 ", "xla", "XLA:CPU's operand-upcaster keeps the 4-bit layout of an s32"),
    Row(
        r"popcnt [su][24] ",
        "xla",
        "XLA counts the bits of the byte that holds an s4",
        refuses=False,
    ),
    Row(
        r"(async-start|call-start) ",
        "xla",
        "XLA's translator to StableHLO wraps the result once more; its verifier then refuses it",
    ),
    Row(r"(copy-start|ragged-dot) ", "xla", "XLA:CPU has no code for these opcodes"),
    Row(r"scaled-dot ", "xla", "XLA's translator to StableHLO does not know the opcode"),
    Row(r"custom-call TopK \d+ (f64|bf16|f16)", "xla", "XLA:CPU's TopK takes f32 only"),
    Row(
        r"(all-reduce|reduce-scatter|all-reduce-start) \S+ (and|or|xor) ",
        "xla",
        "XLA:CPU combines integers by arithmetic only",
    ),
)


def is_refused(case: Case) -> bool:
    """Whether XLA is known to refuse a case: it would take the others of its module with it."""
    return any(row.refuses and re.match(row.pattern, case.name) for row in ROWS)


def explain(result: Result) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, Row]]]:
    """Return a result's disagreements: without a reason, and with one."""
    found = [("evaluator", result.evaluator), ("cpu", result.cpu), ("xla", result.xla)]
    found += [(engine, text) for engine, text in result.unsupported]
    unknown: list[tuple[str, str, str]] = []
    known: list[tuple[str, str, Row]] = []
    for engine, text in found:
        if not text:
            continue
        row = next((row for row in ROWS if row.matches(result, engine)), None)
        if row is None:
            unknown.append((engine, result.case.name, text))
        else:
            known.append((engine, text, row))
    return unknown, known
