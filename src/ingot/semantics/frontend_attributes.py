# SPDX-License-Identifier: Apache-2.0
"""Entries of `frontend_attributes`, in which XLA's text keeps what it does not interpret.

Modules and instructions have them in `extra`. Invariant: an entry is written once; its text has no
quotes.

Example:
    >>> extra = {"frontend_attributes": '{kind="b"}'}
    >>> write_attribute(extra, "size", "1,0")
    >>> extra["frontend_attributes"]
    '{size="1,0",kind="b"}'
    >>> read_attribute(extra, "size"), read_attribute(extra, "colour")
    ('1,0', None)
    >>> drop_attribute(extra, "kind")
    >>> extra["frontend_attributes"]
    '{size="1,0"}'
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping

_KEY = "frontend_attributes"
SCHEDULING_GROUP = "scheduling_group"
"""The entry of a call that all ops of its body have once it is inlined."""


Extra = MutableMapping[str, str]


def read_attribute(extra: Extra, name: str) -> str | None:
    """Return the text of an entry; None if there is none."""
    found = re.search(rf'\b{name}="([^"]*)"', extra.get(_KEY, ""))
    return found.group(1) if found else None


def write_attribute(extra: Extra, name: str, text: str) -> None:
    """Add an entry before those that are there."""
    given = extra.get(_KEY, "").removeprefix("{").removesuffix("}")
    extra[_KEY] = "{" + ",".join(filter(None, [f'{name}="{text}"', given])) + "}"


def drop_attribute(extra: Extra, name: str) -> None:
    """Remove an entry; without any, the attribute itself goes."""
    given = extra.get(_KEY, "").removeprefix("{").removesuffix("}")
    rest = re.sub(rf'\b{name}="[^"]*",?', "", given).removesuffix(",")
    if rest:
        extra[_KEY] = "{" + rest + "}"
    else:
        extra.pop(_KEY, None)
