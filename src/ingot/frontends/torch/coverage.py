# SPDX-License-Identifier: Apache-2.0
"""The coverage of PyTorch's core ops, as a page: docs/torch_ops.md.

PyTorch tags about 200 overloads as `core`: its decompositions end in them, so a program can only
have these and the ops that Ingot compiles whole.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import torch

from ingot.frontends.torch.decompositions.decompose import decompositions_for_export
from ingot.frontends.torch.fx.nodes import is_random
from ingot.frontends.torch.lowering import rules

_COMPILED, _DECOMPOSED = "compiled", "decomposed by PyTorch"
_SIZE = "a size of the graph"
_RANDOM, _HOST = "PyTorch, from its generator", "PyTorch, between programs"


def core_ops() -> dict[str, str]:
    """Return every overload that PyTorch tags as core, by name, with the text of who runs it."""
    table = decompositions_for_export()
    found: dict[str, str] = {}
    namespace: Any = torch.ops.aten
    # `dir` lists only what somebody has asked for.
    registered: list[str] = cast("Any", torch)._C._dispatch_get_all_op_names()
    names = {name[6:].partition(".")[0] for name in registered if name.startswith("aten::")}
    for name in sorted(names):
        packet = getattr(namespace, name)
        for overload in cast("list[str]", getattr(packet, "overloads", list)()):
            op = getattr(packet, overload)
            if torch.Tag.core in op.tags:
                found[str(op)] = _who(op, table)
    return found


def _who(op: Any, table: dict[Any, Any]) -> str:
    if is_random(op):
        return _RANDOM
    if rules.has_rule(op):
        return _COMPILED
    if op.name().startswith("aten::sym_"):
        return _SIZE
    composite = torch._C._dispatch_has_kernel_for_dispatch_key  # pyright: ignore[reportPrivateUsage]
    # AOTAutograd replaces ops that write into their arguments, and composites of other ops.
    is_replaced = op._schema.is_mutable or composite(op.name(), "CompositeImplicitAutograd")
    return _DECOMPOSED if op in table or is_replaced else _HOST


def markdown() -> str:
    """Return the page."""
    ops = core_ops()
    others = sorted(
        name for name in rules.RULES if name not in ops and not name.startswith("ingot.")
    )
    counts = Counter(ops.values())
    lines = [
        "# PyTorch's ops",
        "",
        f"PyTorch {torch.__version__.partition('+')[0]} tags {len(ops)} overloads of ATen ops as "
        f"core: {counts[_COMPILED]} of them are compiled, {counts[_DECOMPOSED]} are decomposed by "
        f"PyTorch into others, {counts[_SIZE]} are sizes, {counts[_RANDOM]} draw random numbers "
        f"from PyTorch's generator, and {counts[_HOST]} are run by PyTorch's kernels between "
        "compiled programs. What a rule does not take for some arguments runs there as well: "
        "[PyTorch](torch.md#ops-that-pytorch-runs).",
        "",
        "| op | who runs it |",
        "|---|---|",
        *(f"| `{name}` | {who} |" for name, who in sorted(ops.items())),
        "",
        "## Ops beyond these that are compiled whole",
        "",
        ", ".join(f"`{name}`" for name in others) + ".",
    ]
    return "\n".join(lines) + "\n"
