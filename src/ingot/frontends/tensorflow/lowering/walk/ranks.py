# SPDX-License-Identifier: Apache-2.0
"""The ranks that ops need of operands, for rules that would take any.

TensorFlow's shape inference checks ranks when a node is made, and rules rely on that. An operand
whose rank was unknown then is looked at here, before its rule. A node that does not fit goes to
TensorFlow, whose kernel says why, unless that kernel ends the process over it, or is not the one
that TensorFlow runs: there an `If` is a switch, which takes scalars only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.support.diagnostics import ExecutionError

_MOST = 254
"""Of dimensions, in TensorFlow."""

Range = tuple[int, int]
"""The least and the greatest rank."""

_SCALAR, _VECTOR, _IMAGE, _VOLUME = (0, 0), (1, 1), (4, 4), (5, 5)


def _at_least(rank: int) -> Range:
    return rank, _MOST


_NEEDED: dict[str, tuple[Range, ...]] = {
    "AvgPool3DGrad": (_VECTOR, _VOLUME),
    "AvgPoolGrad": (_VECTOR, _IMAGE),
    **dict.fromkeys(("BiasAdd", "BiasAddV1"), (_at_least(2), _VECTOR)),
    "BiasAddGrad": (_at_least(2),),
    **dict.fromkeys(("Case", "If", "StatelessCase", "StatelessIf"), (_SCALAR,)),
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative"), (_IMAGE, _IMAGE)),
    **dict.fromkeys(
        ("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"), (_IMAGE, _VECTOR, _IMAGE)
    ),
    **dict.fromkeys(
        ("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"), (_VECTOR, _IMAGE, _IMAGE)
    ),
    "Conv3D": (_VOLUME, _VOLUME),
    "Conv3DBackpropFilterV2": (_VOLUME, _VECTOR, _VOLUME),
    "Conv3DBackpropInputV2": (_VECTOR, _VOLUME, _VOLUME),
    "FakeQuantWithMinMaxVarsPerChannel": (_at_least(1), _VECTOR, _VECTOR),
    "FakeQuantWithMinMaxVarsPerChannelGradient": (_at_least(1), _at_least(1), _VECTOR, _VECTOR),
    **{
        f"{kind}{tail}": (_at_least(rank), _VECTOR)
        for kind in ("FFT", "IFFT", "RFFT", "IRFFT")
        for rank, tail in ((1, ""), (2, "2D"), (3, "3D"))
    },
    "LRNGrad": (_IMAGE, _IMAGE, _IMAGE),
    "MaxPool3D": (_VOLUME,),
    "QuantizeAndDequantizeV3": (_at_least(0), (0, 1), (0, 1), _SCALAR),
    "Range": (_SCALAR, _SCALAR, _SCALAR),
}

_RULE_TELLS = frozenset(
    {"Conv"} | {f"TensorScatter{kind}" for kind in ("Add", "Max", "Min", "Sub", "Update")}
)
_ENDS_THE_PROCESS = _RULE_TELLS.union(
    {"LRNGrad", "QuantizeAndDequantizeV3"},
    (op for op in _NEEDED if "Conv" in op or "Pool" in op or op.startswith("FakeQuant")),
)
_IS_LOWERED = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})


class RankError(ExecutionError):
    """Operands of a call have ranks that do not fit, and TensorFlow's kernel cannot say so."""

    default_code = "INGOT0312"


def needed(op: str) -> tuple[Range, ...]:
    """Return the least and greatest rank of an op's first operands; empty if its rule decides."""
    return _NEEDED.get(op, ())


def misfit(wanted: Sequence[Range], ranks: Sequence[int]) -> str:
    """Return what is wrong with the ranks of a node's operands, "" if nothing is."""
    for rank, (least, most) in zip(ranks, wanted, strict=False):
        if not least <= rank <= most:
            if not most:
                return f"The input must be a scalar, but it has rank {rank}"
            text = f"rank {least}" if least == most else f"at least rank {least}"
            text = f"at most rank {most}" if rank > most > least else text
            return f"Shape must be {text} but is rank {rank}"
    return ""


def is_told_here(op: str) -> bool:
    """Whether a node whose operands' ranks do not fit must not be given to TensorFlow's kernel."""
    return op in _ENDS_THE_PROCESS or op in _IS_LOWERED


def rule_tells(op: str) -> bool:
    """Whether the rule of such an op compares its operands' ranks with each other."""
    return op in _RULE_TELLS
