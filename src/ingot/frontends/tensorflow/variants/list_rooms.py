# SPDX-License-Identifier: Apache-2.0
"""Room for lists that grow in loops, learnt from calls that had too little.

A list whose length only the loop knows lies in a buffer with some room. A program whose list gets
longer ends with an error that names the kind of the list; the launch compiles the function with
several times the room for lists of that kind, and runs it again. So there is no bound but memory,
and programs that fit are as fast as with a fixed size.

Invariant: a program that may end so writes no variable in place: it can run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingot.support.regex import regex

_GROWTH, _GROWTH_OF_LARGE = 4, 2
_LARGE_BYTES = 64 << 20

Rooms = Mapping[str, int]
"""By kind of list: how many times its room has grown."""

_TEXT = "a list of {kind} that grows in a loop got more than {rows} elements"
_PATTERN = regex(_TEXT.format(kind=r"(.+?)", rows=r"(.+?)"))


def grown(room: int, element_bytes: int, times: int) -> int:
    """Return how many elements there is room for when the room has grown some times."""
    for _ in range(times):
        room *= _GROWTH if room * element_bytes < _LARGE_BYTES else _GROWTH_OF_LARGE
    return room


def room_text(kind: str, rows: object) -> str:
    """Return what a program says whose list has more elements than there is room for."""
    return _TEXT.format(kind=kind, rows=rows)


def lacking_kind(text: str) -> str | None:
    """Return the kind of the list for which an error says that there is too little room."""
    found = _PATTERN.search(text)
    return None if found is None else found[1]


def may_lack_room(texts: Iterable[str]) -> bool:
    """Whether some of a program's errors says that there is too little room."""
    return any(lacking_kind(text) is not None for text in texts)


class ListRooms:
    """What one function has learnt."""

    __slots__ = ("_times", "_told")

    def __init__(self) -> None:
        """Start with the usual room."""
        self._times: dict[str, int] = {}
        self._told: dict[str, int] = {}

    @property
    def latest(self) -> Rooms:
        """The room that the next program has."""
        return self._times

    def learn(self, text: str, had: Rooms) -> bool:
        """Make more room after an error of a program that had some; False if that cannot help."""
        kind = lacking_kind(text)
        if kind is None:
            return False
        times = had.get(kind, 0)
        if self._told.setdefault(text, times) < times:
            return False  # There was no more room than before.
        wanted = max(self._times.get(kind, 0), times + 1)
        self._times = {**self._times, kind: wanted}
        return True
