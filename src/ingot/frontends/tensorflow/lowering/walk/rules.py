# SPDX-License-Identifier: Apache-2.0
"""The rules of ops, from the families' tables, and what is said of an op that has none.

A family is imported when one of its ops is asked for (`op_families`).
"""

from __future__ import annotations

import importlib
from functools import cache

from ingot.frontends.tensorflow.graphs.captured import CapturedNode
from ingot.frontends.tensorflow.lowering.context.op import Rule, located
from ingot.frontends.tensorflow.partitioning.op_families import FAMILY_OF, reason
from ingot.support.diagnostics import UnsupportedError

_LOWERING = __name__.rsplit(".", 2)[0]


@cache
def family(name: str) -> dict[str, Rule]:
    """Return the rules of a family by op type."""
    rules: dict[str, Rule] = importlib.import_module(f"{_LOWERING}.{name}").RULES
    return rules


def find(node: CapturedNode) -> Rule:
    """Return the rule of a node's op; UnsupportedError when there is none."""
    found = FAMILY_OF.get(node.op)
    if found is not None:
        return family(found)[node.op]
    why, hint = reason(node.op)
    raise located(
        node,
        UnsupportedError(f"op {node.op} cannot be compiled: {why}", code="INGOT0310", hint=hint),
    )
