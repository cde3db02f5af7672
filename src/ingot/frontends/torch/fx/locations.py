# SPDX-License-Identifier: Apache-2.0
"""Source locations of a graph's nodes, for HLO's metadata and for errors."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import torch

from ingot.hlo.instruction import Metadata
from ingot.support.regex import regex

_TORCH = os.path.dirname(torch.__file__) + os.sep
_FRAME = regex(r'File "([^"]+)", line (\d+)')


@lru_cache(maxsize=4096)
def _users_frame(trace: str) -> tuple[str, int]:
    """Return the innermost frame outside of PyTorch, or the innermost if all are inside."""
    frames = _FRAME.findall(trace)
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    return next(((file, int(line)) for file, line in reversed(users or frames)), ("", 0))


def metadata_of(node: Any) -> Metadata:
    """Return the metadata of HLO instructions that come from a node."""
    file, line = _users_frame(node.meta.get("stack_trace") or "")
    return Metadata(str(node.target), node.name, file, line)
