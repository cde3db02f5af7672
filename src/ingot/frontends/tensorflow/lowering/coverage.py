# SPDX-License-Identifier: Apache-2.0
"""Which TensorFlow ops compile: a page made from the tables, next to TensorFlow's own XLA.

`xla_ops.txt` lists the op types that TensorFlow 2.21's built-in bridge has a CPU kernel for; it is
data for this page and for nothing else.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from ingot.frontends.tensorflow.lowering.walk.fold import FOLDS
from ingot.frontends.tensorflow.partitioning.op_families import FAMILIES, FAMILY_OF

_SENT = "TensorFlow cannot run it on a CPU: XLA:CPU says that HLO opcode `{}` is not supported."
_FUSED = (
    "Grappler makes it of other ops, after a function was captured: the function has those ops."
)
_RUNTIME = "TensorFlow's runtime makes it while it runs a graph: no captured function has it."
_BOUNDARY = "An input or output of a function, which is no op of a captured function."
EXCEPTIONS = {
    "CollectiveReduceV2": (
        'TensorFlow\'s XLA says that "collectives are not yet implemented for CPU devices"; '
        "TensorFlow's own kernel runs it, between compiled programs."
    ),
    "XlaRecv": _SENT.format("recv"),
    "XlaSend": _SENT.format("send"),
    **dict.fromkeys(("_Arg", "_Retval"), _BOUNDARY),
    **dict.fromkeys(("_ArrayToList", "_EagerConst", "_ListToArray"), _RUNTIME),
    **dict.fromkeys(("_FusedBatchNormEx", "_FusedConv2D", "_UnaryOpsComposition"), _FUSED),
    "_XlaAotOnlyVarHandleOp": "TensorFlow's compiler ahead of time makes it of a variable.",
}
"""Op types that no program can give to Ingot, or that TensorFlow itself cannot run; and why."""

_LIST = Path(__file__).with_name("xla_ops.txt")


def xla_ops() -> frozenset[str]:
    """Return the op types that TensorFlow's own XLA compiles on CPU."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def markdown() -> str:
    """Return the coverage page: every op with a rule by family, then the exceptions."""
    wanted = xla_ops()
    count, common = len(FAMILY_OF), len(wanted & set(FAMILY_OF))
    lines = [
        "# TensorFlow ops",
        "",
        f"{count} op types have a row in the lowering's tables; they are {common} of the "
        f"{len(wanted)} that TensorFlow 2.21's own XLA has a CPU kernel for, and "
        f"{count - common} that it has none for. {len(EXCEPTIONS)} of the {len(wanted)} are "
        "exceptions, each with its reason below.",
        "A row may refuse what it cannot compile with an error that says what to do.",
        "",
        "`*`: also computed at compile time on shapes and other known integers. "
        "`+`: not compiled by TensorFlow's own XLA on CPU.",
    ]
    for family, members in FAMILIES.items():
        module = importlib.import_module(f"{__package__}.{family}")
        lines += [
            "",
            f"## {family.replace('.', ': ').replace('_', ' ').capitalize()}",
            "",
            _sentence(module),
            "",
        ]
        lines.append(", ".join(_entry(name, wanted) for name in sorted(members.split())))
    lines += ["", "## Exceptions", "", "| op | why it has no row |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in sorted(EXCEPTIONS.items())]
    return "\n".join(lines) + "\n"


def _sentence(module: object) -> str:
    return (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _entry(name: str, wanted: frozenset[str]) -> str:
    return f"`{name}`" + ("*" if name in FOLDS else "") + ("" if name in wanted else "+")
