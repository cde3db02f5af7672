# SPDX-License-Identifier: Apache-2.0
"""Memory kinds of a module's results: in which memory of a device the host wants each one.

A host's program says so for its entry (`mhlo.memory_kind`); whoever makes the results' buffers
reads it. The module keeps them among its `frontend_attributes`, which XLA's text has too and does
not interpret. Invariant: no kinds are no attribute, and each result has one otherwise.

Example:
    >>> module = Module("m")
    >>> write_memory_kinds(module, ["device", "pinned_host"])
    >>> module.extra["frontend_attributes"]
    '{result_memory_kinds="device,pinned_host"}'
    >>> read_memory_kinds(module)
    ('device', 'pinned_host')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.hlo.module import Module

_KEY = "frontend_attributes"
_KINDS = re.compile(r'\bresult_memory_kinds="([\w,]*)"')


def read_memory_kinds(module: Module) -> tuple[str, ...]:
    """Return the kind of each result, or nothing where the module says none."""
    found = _KINDS.search(module.extra.get(_KEY, ""))
    return tuple(found.group(1).split(",")) if found else ()


def write_memory_kinds(module: Module, kinds: Sequence[str]) -> None:
    """Set the kind of each result."""
    module.extra[_KEY] = f'{{result_memory_kinds="{",".join(kinds)}"}}'
