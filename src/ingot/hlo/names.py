# SPDX-License-Identifier: Apache-2.0
"""Names: valid in HLO text, unique in a module, numbered as XLA numbers them.

Names from front ends and protos may have blanks, quotes or other alphabets. Like XLA, Ingot
replaces every byte that is no ASCII letter, digit, `_`, `.` or `-` by `_`, so that the printed text
can be parsed; no name begins with `__`.

Source: NameUniquer::GetSanitizedName of xla/service/name_uniquer.cc.

Example:
    >>> names: dict[str, int] = {}
    >>> [unique_name(names, name) for name in ("add", "add", "my add", "my/add")]
    ['add', 'add.1', 'my_add', 'my_add.1']
"""

from __future__ import annotations

from ingot.support.regex import regex

_PLAIN = regex(r"(?!__(?!xla_))[A-Za-z0-9_.\-]+").fullmatch
_OTHER = regex(rb"[^A-Za-z0-9_.\-]")


def sanitized(name: str) -> str:
    """Return a name made valid for HLO text."""
    # Most names are letters and digits, which is a faster check.
    if (name.isalnum() and name.isascii()) or _PLAIN(name):
        return name
    made = _OTHER.sub(b"_", name.encode("utf-8", "surrogatepass")).decode("ascii") or "_"
    # XLA reserves such names.
    return made if _PLAIN(made) else "a" + made[1:]


def unique_name(names: dict[str, int], name: str) -> str:
    """Return `name`, sanitized, or `name.N` when it is taken, and note it as taken."""
    if name not in names:
        # Only valid names are noted, so a name in use needs no check.
        name = sanitized(name)
        if name not in names:
            names[name] = 0
            return name
    base, _, tail = name.rpartition(".")
    if not base or not tail.isdigit():
        base = name
    number = names.get(base, 0)
    while True:
        number += 1
        candidate = f"{base}.{number}"
        if candidate not in names:
            break
    names[base] = number
    names[candidate] = 0
    return candidate
