"""`buffer_donor` of a module's header: parameters whose memory the program may take.

A donor that is no alias of a result: its memory may become any result, or none. The header keeps
the text as XLA writes it, `{ (0, {}), (2, {1}) }`: (parameter, path in it).

Example:
    >>> module = Module("m")
    >>> write_donors(module, [(0, ()), (2, (1,))])
    >>> module.extra["buffer_donor"], read_donors(module)
    ('{ (0, {}), (2, {1}) }', [(0, ()), (2, (1,))])
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.hlo.module import Module

Donor = tuple[int, tuple[int, ...]]
_KEY = "buffer_donor"
_ENTRY = re.compile(r"\(\s*(\d+)\s*,\s*\{([\d, ]*)\}\s*\)")


def read_donors(module: Module) -> list[Donor]:
    """Return (parameter, path) of every donor."""
    found = _ENTRY.findall(module.extra.get(_KEY, ""))
    return [(int(number), tuple(map(int, re.findall(r"\d+", path)))) for number, path in found]


def write_donors(module: Module, donors: Sequence[Donor]) -> None:
    """Set the donors; none are no header."""
    entries = [f"({number}, {{{', '.join(map(str, path))}}})" for number, path in donors]
    if entries:
        module.extra[_KEY] = f"{{ {', '.join(entries)} }}"
