"""What fuzz runs have done so far: cases, time and findings by target, and what they reached."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.reach import all_functions, all_rules
from tests.fuzz.watch import Outcome


@dataclass(slots=True)
class Record:
    """The counts of a target: cases, seconds, and how often each signature was found."""

    cases: int = 0
    seconds: float = 0.0
    findings: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(slots=True)
class State:
    """The counts of all targets, kept in a file."""

    path: Path
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    rules: Counter[str] = field(default_factory=Counter[str])
    functions: set[str] = field(default_factory=set[str])

    @staticmethod
    def load(path: Path) -> State:
        """Return what a file says, or nothing so far."""
        state = State(path)
        if path.exists():
            kept = json.loads(path.read_text())
            state.records = {name: Record(**row) for name, row in kept["records"].items()}
            state.rules = Counter(kept["rules"])
            state.functions = set(kept["functions"])
        return state

    def save(self) -> None:
        """Write the file."""
        records = {name: asdict(row) for name, row in sorted(self.records.items())}
        kept = {"records": records, "rules": self.rules, "functions": sorted(self.functions)}
        self.path.write_text(json.dumps(kept, indent=1))

    def record(self, name: str) -> Record:
        """Return the counts of a target."""
        return self.records.setdefault(name, Record())

    def count(self, name: str, outcome: Outcome) -> None:
        """Add what came of a command."""
        self.record(name).cases += outcome.cases
        self.rules.update(outcome.reached.get("rules", {}))
        self.functions.update(outcome.reached.get("functions", ()))

    def unreached_rules(self) -> list[str]:
        """Return the rules that never fired."""
        return [name for name in all_rules() if not self.rules[name]]

    def unreached_functions(self) -> list[str]:
        """Return the functions of passes, strategies and templates that never ran."""
        return [name for name in all_functions() if name not in self.functions]
