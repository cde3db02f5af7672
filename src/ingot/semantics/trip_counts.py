# SPDX-License-Identifier: Apache-2.0
"""Known trip counts, as XLA writes them beside a `while`.

Example:
    %w = (...) while(%s), condition=%c, body=%b, backend_config={"known_trip_count":{"n":"5"}}

Source: xla/service/while_loop_trip_count_annotator.cc.
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.support.regex import regex

_CONFIG = "backend_config"
_KNOWN = regex(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"(\d+)"')


def known_trip_count(loop: Instruction) -> int | None:
    """Return how often the body of a `while` runs, if that is noted."""
    found = _KNOWN.search(loop.extra.get(_CONFIG, ""))
    return None if found is None else int(found[1])


def set_trip_count(loop: Instruction, count: int | None) -> bool:
    """Note how often the body runs, or that it is unknown; return whether that is a change."""
    extra = {name: text for name, text in loop.extra.items() if name != _CONFIG}
    if count is not None:
        extra[_CONFIG] = f'{{"known_trip_count":{{"n":"{count}"}}}}'
    if extra == loop.extra:
        return False
    loop.computation.set_extra(loop, extra)
    return True
