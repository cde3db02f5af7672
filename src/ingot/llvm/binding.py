"""The border to llvmlite, which ships no types: `llvm` is `llvmlite.binding`, once, as `Any`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

llvm: Any = import_module("llvmlite.binding")
