# SPDX-License-Identifier: Apache-2.0
"""Observations go to those who listen, and nothing is kept for nobody."""

from ingot.support import observing
from ingot.support.observing import COMPILED_AGAIN, Observation, note, observed

ONE = Observation(COMPILED_AGAIN, "f", ("x differs",))


def test_all_who_listen_are_told():
    with observed() as outer:
        note(ONE)
        with observed() as inner:
            note(ONE)
        note(ONE)
    note(ONE)
    assert len(outer) == 3
    assert inner == [ONE]
    assert observing._listeners == []
