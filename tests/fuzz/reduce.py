# SPDX-License-Identifier: Apache-2.0
"""Makes a case that fails as small as it gets while it fails in the same way.

Text is cut by lines, then by words of the lines that stay; anything else by bytes. Both are delta
debugging: ever smaller pieces are left out as long as the finding keeps its signature. A case of
HLO whose module can be read is first cut as a graph. The means are those of `ingot reduce`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.program_case import ProgramCase, read_case
from tests.fuzz.target import Target
from tests.fuzz.watch import Watched

from ingot.tools.programs.cases import Case
from ingot.tools.reduction.cutting import cut, cut_lines
from ingot.tools.reduction.graph import reduce_graph

TEXTS = (".hlo", ".py", ".mlir", ".txt", ".json")

Fails = Callable[[bytes], bool]


def reduced(chosen: Target, data: bytes, signature: str, watched: Watched, seconds: float) -> bytes:
    """Return the smallest case found in `seconds` whose finding has the same signature."""
    end = time.monotonic() + seconds

    def fails(candidate: bytes) -> bool:
        if time.monotonic() > end:
            return False
        found = watched.check(candidate)
        return found is not None and found.signature == signature

    if not fails(data):
        return data  # it depends on what ran before it in the same process
    if chosen.suffix == ".hlo":
        data = _graph(data, fails)
    if chosen.suffix in TEXTS:
        return _lines(data, fails)
    whole = list(data)
    return bytes(cut(whole, lambda kept: fails(bytes(kept))))


def _graph(data: bytes, fails: Fails) -> bytes:
    """Return a case with a smaller program; the same if `data` holds none.

    Any error of the reader means that: it may be the very finding that is being reduced.
    """
    try:
        case = read_case(data)
    except Exception:
        return data
    found = [data]

    def still(made: Case) -> bool:
        smaller = part_of(case, made)
        if smaller is None or not fails(smaller.to_bytes()):
            return False
        found.append(smaller.to_bytes())
        return True

    reduce_graph(Case(case.module, tuple(case.inputs)), still)
    return found[-1]


def part_of(case: ProgramCase, made: Case) -> ProgramCase | None:
    """Return a smaller program as a case; None where nothing says how its results are compared."""
    if made.inputs is None or any(isinstance(value, tuple) for value in made.inputs):
        return None
    compare = case.compare
    if len(compare) > 1 and made.outputs:
        known = [number for number in made.outputs if number is not None]
        if len(known) < len(made.outputs):
            return None
        compare = tuple(case.compare[number] for number in known)
    return replace(case, module=made.module, inputs=made.inputs, compare=compare)


def _lines(data: bytes, fails: Fails) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return bytes(cut(list(data), lambda kept: fails(bytes(kept))))
    return cut_lines(text, lambda kept: fails(kept.encode())).encode()
