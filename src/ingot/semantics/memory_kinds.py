# SPDX-License-Identifier: Apache-2.0
"""Memory kinds of a module's results: in which memory of a device the host wants each one.

A host's program says so for its entry (`mhlo.memory_kind`); whoever makes the results' buffers
reads it. The module keeps them among its `frontend_attributes`. Invariant: no kinds are no
attribute, and each result has one otherwise.

Example:
    >>> module = Module("m")
    >>> write_memory_kinds(module, ["device", "pinned_host"])
    >>> module.extra["frontend_attributes"]
    '{result_memory_kinds="device,pinned_host"}'
    >>> read_memory_kinds(module)
    ('device', 'pinned_host')
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.module import Module
from ingot.semantics.frontend_attributes import read_attribute, write_attribute

_NAME = "result_memory_kinds"


def read_memory_kinds(module: Module) -> tuple[str, ...]:
    """Return the kind of each result, or nothing where the module says none."""
    found = read_attribute(module.extra, _NAME)
    return () if found is None else tuple(found.split(","))


def write_memory_kinds(module: Module, kinds: Sequence[str]) -> None:
    """Set the kind of each result."""
    write_attribute(module.extra, _NAME, ",".join(kinds))
