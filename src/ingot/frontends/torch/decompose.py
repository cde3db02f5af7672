# SPDX-License-Identifier: Apache-2.0
"""Which ops PyTorch takes apart before Ingot sees them: its core decompositions, but for some.

Ops on lists of tensors become ops on each (`foreach`). An op that Ingot has a rule for stays whole,
as its rule knows more than the parts say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from torch._decomp import core_aten_decompositions

from ingot.frontends.torch import foreach
from ingot.frontends.torch.lowering import rules


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return PyTorch's decompositions of the ops that have no rule."""
    # PyTorch's table is no dict: `|` would lose what it has not loaded.
    core = cast("Mapping[Any, Callable[..., Any]]", core_aten_decompositions())
    table = {**foreach.decompositions(), **dict(core.items())}
    return {op: function for op, function in table.items() if str(op) not in rules.RULES}
