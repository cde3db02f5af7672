# SPDX-License-Identifier: Apache-2.0
"""What the user is told when a part of a function stays with TensorFlow.

One warning for each op, with the user's line and what it costs: the function is cut there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ingot.frontends.tensorflow.api.errors import function_text
from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode
from ingot.frontends.tensorflow.graphs.variables import CALLS
from ingot.frontends.tensorflow.partitioning.op_families import is_compiled, reason
from ingot.frontends.tensorflow.partitioning.placement import Refused
from ingot.support.observing import ON_HOST, Observation, note

_logger = logging.getLogger("ingot.tensorflow")
_told: set[str] = set()


def report_hosted(
    function: CapturedFunction,
    hosted: Mapping[str, frozenset[str]],
    refused: Refused,
    programs: int,
) -> None:
    """Warn of the ops of a function that run on the host and that nobody was told of.

    Args:
        function: the function, with those that it calls.
        hosted: the names of the nodes on the host, by function.
        refused: those of them that a rule refused.
        programs: how many programs the rest is compiled to.
    """
    everything = {**function.library, function.name: function}
    found: dict[str, tuple[CapturedNode, str]] = {}
    for name, nodes in hosted.items():
        for node in everything[name].nodes:
            why = refused.get(name, {}).get(node.name)
            if why is not None:
                found.setdefault(node.op, (node, why.message))
            elif node.name in nodes and not is_compiled(node.op) and node.op not in CALLS:
                found.setdefault(node.op, (node, reason(node.op)[0]))
    texts = {op: _text(*item) for op, item in found.items()}
    if texts:
        note(Observation(ON_HOST, function_text(function.name), tuple(texts.values())))
    new = {op: item for op, item in found.items() if op not in _told}
    if not new:
        return
    _told.update(new)
    lines = [f"Ingot: TensorFlow runs a part of {function_text(function.name)} itself:"]
    lines += [f"  {texts[op]}" for op in new]
    lines.append(f"{_rest(programs)} INGOT_STRICT=1 makes this an error.")
    _logger.warning("%s", "\n".join(lines))


def _text(node: CapturedNode, why: str) -> str:
    where = "" if node.location is None else f" at {node.location}"
    return f"{node.op} (node '{node.name}'{where}): {why}"


def _rest(programs: int) -> str:
    if not programs:
        return "Nothing is left to be compiled."
    if programs == 1:
        return "The rest is compiled to one program, which hands tensors over to these ops."
    return f"The rest is compiled to {programs} programs, which hand tensors over to these ops."
