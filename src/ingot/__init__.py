"""Ingot: an optimizing compiler for machine learning programs, an open and readable XLA in Python.

The public names are `parse_hlo(text) -> Module`, `parse_stablehlo(text or bytes) -> Module`,
`compile(module) -> Executable`, `register_custom_call_target(name, function)`, the errors, and the
front ends (`ingot.tensorflow.enable()`). They are loaded on first use: `import ingot` itself loads
nothing, and so no layer imports another one through this package.

Example:
    >>> import ingot
    >>> "compile" in dir(ingot)
    True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.client import Executable, compile
    from ingot.formats.hlo_text import parse_hlo
    from ingot.formats.load import dump, load
    from ingot.formats.stablehlo import parse_stablehlo
    from ingot.hlo.module import Module
    from ingot.runtime.foreign import register_custom_call_target
    from ingot.support.diagnostics import IngotError, UnsupportedError

__version__ = "0.1.0"
__all__ = [
    "Executable",
    "IngotError",
    "Module",
    "UnsupportedError",
    "compile",
    "dump",
    "load",
    "parse_hlo",
    "parse_stablehlo",
    "register_custom_call_target",
]

# Public name -> the module that defines it.
_HOMES = {
    "Executable": "ingot.client",
    "IngotError": "ingot.support.diagnostics",
    "Module": "ingot.hlo.module",
    "UnsupportedError": "ingot.support.diagnostics",
    "compile": "ingot.client",
    "dump": "ingot.formats.load",
    "load": "ingot.formats.load",
    "parse_hlo": "ingot.formats.hlo_text",
    "parse_stablehlo": "ingot.formats.stablehlo",
    "register_custom_call_target": "ingot.runtime.foreign",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ingot' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
