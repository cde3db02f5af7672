# SPDX-License-Identifier: Apache-2.0
"""`RuleTable`: the rules of one family of ops, by the names of PyTorch's overloads.

Example:
    >>> RULES = RuleTable("aten")
    >>> @RULES.rule("neg")
    ... def _neg(op, x):
    ...     return op.b.negate(x)
    >>> list(RULES.rules)
    ['aten.neg.default']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ingot.frontends.torch.lowering.context.op import Rule
from ingot.support.diagnostics import InternalError


class RuleTable:
    """Rules of ops of one namespace.

    Attributes:
        rules: each rule by `namespace.op.overload`.
    """

    __slots__ = ("_namespace", "rules")

    def __init__(self, namespace: str = "aten") -> None:
        """Make an empty table."""
        self._namespace = namespace
        self.rules: dict[str, Rule] = {}

    def add(self, rule: Rule, *names: str) -> None:
        """Give ops a rule; a name without a dot means the overload `default`."""
        for name in names:
            full = (
                f"{self._namespace}.{name}" if "." in name else f"{self._namespace}.{name}.default"
            )
            if full in self.rules:
                raise InternalError(f"{full} has two rules")
            self.rules[full] = rule

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Return a decorator that gives ops their rule."""

        def give(rule: Rule) -> Rule:
            self.add(rule, *names)
            return rule

        return give


def merged(*tables: RuleTable) -> Mapping[str, Rule]:
    """Return one table of all families; InternalError if two have a rule for one op."""
    made: dict[str, Rule] = {}
    for table in tables:
        twice = made.keys() & table.rules.keys()
        if twice:
            raise InternalError(f"{min(twice)} has rules in two families")
        made.update(table.rules)
    return made


def with_copies(rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
    """Return rules with those of views for `select_copy` and the like, which return a new tensor.

    Functional bodies of higher-order ops have these; in HLO a view is a new array, too.
    """
    made = dict(rules)
    for name, rule in rules.items():
        namespace, op, overload = name.split(".")
        packet = getattr(torch.ops.aten, f"{op}_copy", None) if namespace == "aten" else None
        if packet is not None and hasattr(packet, overload):
            made.setdefault(f"aten.{op}_copy.{overload}", rule)
    return made
