# SPDX-License-Identifier: Apache-2.0
"""What fuzz runs have done so far: cases, time and findings by target, and what they reached."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.reach import KINDS, all_of
from tests.fuzz.watch import Outcome


@dataclass(slots=True)
class Record:
    """The counts of a target: cases, seconds, and how often each signature was found."""

    cases: int = 0
    seconds: float = 0.0
    findings: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class State:
    """The counts of all targets and what they reached by kind, kept in a file."""

    path: Path
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    reached: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    @staticmethod
    def load(path: Path) -> State:
        """Return what a file says, or nothing so far."""
        state = State(path)
        if path.exists():
            kept = json.loads(path.read_text())
            state.records = {name: Record(**row) for name, row in kept["records"].items()}
            state.reached = {kind: set(names) for kind, names in kept.get("reached", {}).items()}
        return state

    def save(self) -> None:
        """Write the file."""
        records = {name: asdict(row) for name, row in sorted(self.records.items())}
        reached = {kind: sorted(names) for kind, names in sorted(self.reached.items())}
        self.path.write_text(json.dumps({"records": records, "reached": reached}, indent=1))

    def record(self, name: str) -> Record:
        """Return the counts of a target."""
        return self.records.setdefault(name, Record())

    def count(self, name: str, outcome: Outcome) -> int:
        """Add what came of a command; return how much nothing had reached before."""
        self.record(name).cases += outcome.cases
        new = 0
        for kind, names in outcome.reached.items():
            known = self.reached.setdefault(kind, set())
            new += len(set(names) - known)
            known.update(names)
        return new

    def unreached(self, kind: str) -> list[str]:
        """Return what there is of a kind that no case reached."""
        known = self.reached.get(kind, set[str]())
        return [name for name in all_of(kind) if name not in known]

    def all_unreached(self) -> list[str]:
        """Return everything that generators can aim at and no case reached."""
        return [name for kind in KINDS[:-1] for name in self.unreached(kind)]
