# SPDX-License-Identifier: Apache-2.0
"""Rows of pipelines whose passes are imported when a module has what they look for.

A program has few of the ops that passes exist for. Its pipeline still has every pass, in order: a
row names the pass, the module that defines it under that name (with `_` for `-`), and the words of
the census (`hlo.rewrite.census`) that it concerns. The import of a pass takes 0.3 ms, that of all
passes a sixth of a first compilation.

Invariant: a row says of its pass what the pass says of itself (`tests/passes/test_late.py`).

Example:
    >>> late("topk-expander", "simplify.sorts", "topk").concerns
    frozenset({'topk'})
"""

from __future__ import annotations

from importlib import import_module

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext


class LatePass(Pass):
    """A pass that is defined elsewhere, with the options that it has by default."""

    def __init__(self, home: str, **facts: object) -> None:
        """Stand for the pass at `home`; `facts` are its attributes as `Pass` has them."""
        self._home = home
        vars(self).update(facts)

    def __repr__(self) -> str:
        """Return where the pass is."""
        return f"late({self._home})"

    def run(self, module: Module, context: PassContext) -> bool:
        """Import the pass and run it."""
        return self.loaded().run(module, context)

    def loaded(self) -> Pass:
        """Return the pass."""
        home = import_module(f"ingot.passes.{self._home}")
        return getattr(home, self.name.replace("-", "_"))


def late(name: str, home: str, words: str, *, requires: str = "", ensures: str = "") -> LatePass:
    """Return the row of a pass.

    Args:
        name: its name.
        home: the module of `ingot.passes` that defines it.
        words: what it concerns, separated by spaces.
        requires: properties of the module without which it does not work, likewise.
        ensures: properties that hold afterwards, likewise.
    """
    lists = {"concerns": words, "requires": requires, "ensures": ensures}
    facts = {key: frozenset(text.split()) for key, text in lists.items()}
    return LatePass(home, name=name, **facts)
