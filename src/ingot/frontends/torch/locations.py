# SPDX-License-Identifier: Apache-2.0
"""The user's lines: where a node of a graph comes from, for HLO's metadata and for errors."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ingot.hlo.instruction import Metadata

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@lru_cache(maxsize=4096)
def _last_frame(trace: str) -> tuple[str, int]:
    frames = _FRAME.findall(trace)
    return (frames[-1][0], int(frames[-1][1])) if frames else ("", 0)


def metadata_of(node: Any) -> Metadata:
    """Return what HLO instructions say of the node that they come from."""
    file, line = _last_frame(node.meta.get("stack_trace") or "")
    return Metadata(str(node.target), node.name, file, line)
