# SPDX-License-Identifier: Apache-2.0
"""Rows of pipelines whose passes are imported when a module has what they look for.

A program has few of the ops that passes exist for. Its pipeline still has every pass, in order: a
row names the pass, where it is defined, and the words of the census (`hlo.rewrite.census`) that it
concerns. The import of a pass takes 0.3 ms, that of all passes a sixth of a first compilation.

Invariant: a row says of its pass what the pass says of itself (`tests/passes/test_late.py`).

Example:
    >>> late("topk-expander", "simplify.sorts.topk_expander", "topk").concerns
    frozenset({'topk'})
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.support.records import record


@record
class LatePass(Pass):
    """A pass that is defined elsewhere, with the options that it has by default."""

    def run(self, module: Module, context: PassContext) -> bool:
        """Import the pass and run it."""
        return self.loaded().run(module, context)

    def loaded(self) -> Pass:
        """Return the pass."""
        raise NotImplementedError


def late(
    pass_name: str, home: str, words: str, *, requires: str = "", ensures: str = ""
) -> LatePass:
    """Return the row of a pass.

    Args:
        pass_name: its name.
        home: where it is defined in `ingot.passes`: `package.module.name` of a pass or its class.
        words: what it concerns, separated by spaces.
        requires: properties of the module without which it does not work, likewise.
        ensures: properties that hold afterwards, likewise.
    """
    module_name, _, of_pass = home.rpartition(".")

    class Made(LatePass):
        name = pass_name
        concerns = frozenset(words.split())

        def loaded(self) -> Pass:
            found: Any = getattr(import_module(f"ingot.passes.{module_name}"), of_pass)
            return found if isinstance(found, Pass) else found()

    Made.__name__ = Made.__qualname__ = of_pass
    Made.requires, Made.ensures = frozenset(requires.split()), frozenset(ensures.split())
    return record(Made)()
