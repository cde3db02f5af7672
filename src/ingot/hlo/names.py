"""Names of instructions: unique in a module, numbered as XLA numbers them.

Example:
    >>> names: dict[str, int] = {}
    >>> [unique_name(names, "add") for _ in range(3)]
    ['add', 'add.1', 'add.2']
"""

from __future__ import annotations


def unique_name(names: dict[str, int], name: str) -> str:
    """Return `name`, or `name.N` when it is taken, and note it as taken."""
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
