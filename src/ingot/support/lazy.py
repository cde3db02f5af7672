# SPDX-License-Identifier: Apache-2.0
"""Names and functions that are imported when they are used.

Example, at the end of a package's `__init__`:
    __getattr__ = names_at_home(__name__, {"parse": ".parser"})
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_at_home(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose names are defined in other modules.

    Args:
        package: its name.
        homes: each name with the module that defines it; one with a dot before is the package's.
    """

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute {name!r}")
        value = getattr(importlib.import_module(home, package), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def function_at_home(home: str, name: str) -> Callable[..., Any]:
    """Return a function that imports the one which it stands for when it is called.

    For what most processes do not use: rows of a table, sources of machine code that is on disk.

    Args:
        home: the module that defines the function.
        name: its name there.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(home), name)(*args, **kwargs)

    return call


def value_at_home(home: str, name: str) -> Callable[[], Any]:
    """Return a function that imports a module and returns what it calls `name`.

    Args:
        home: the module.
        name: of a function that is not called, or of a table.
    """
    return lambda: getattr(importlib.import_module(home), name)
