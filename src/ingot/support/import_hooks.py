# SPDX-License-Identifier: Apache-2.0
"""Calls after the import of a module: how a front end waits for its framework.

Invariant: the module is found and executed as without the hook; the hook acts once per module.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import types
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext


class AfterImport(importlib.abc.MetaPathFinder):
    """Acts right after each of some modules was imported; is in `sys.meta_path`."""

    def __init__(self, names: Iterable[str]) -> None:
        """Wait for the imports of the modules `names`."""
        self._awaited = set(names)

    @abstractmethod
    def imported(self, module: types.ModuleType) -> None:
        """Act on a module that was executed."""

    def during(self) -> AbstractContextManager[None]:
        """Return the context in which a module is executed."""
        return nullcontext()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Find an awaited module as other finders do, with a loader that calls `imported`."""
        if fullname not in self._awaited:
            return None
        self._awaited.remove(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            # The class's method is back; another of these may have taken the attribute away.
            vars(loader).pop("exec_module", None)
            with self.during():
                execute(module)
            self.imported(module)

        loader.exec_module = exec_module
        return spec
