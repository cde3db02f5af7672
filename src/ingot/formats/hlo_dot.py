# SPDX-License-Identifier: Apache-2.0
"""HLO as a graph in DOT, the language of Graphviz, for `--xla_dump_hlo_as_dot`.

Each computation is a cluster, each instruction a box with its opcode, name and shape, in the colour
of its family in the op table. A dashed line leads from the result of a computation to the
instruction that calls it.

Example:
    >>> from ingot.formats.hlo_text import parse
    >>> module = parse("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] sine(x) }")
    >>> '"x" -> "y"' in print_dot(module)
    True
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import FAMILIES

_COLOURS = ("#fff8dc", "#dcebff", "#e3f4e1", "#fbe4e6", "#eee4fb", "#fdeccf", "#def3f2", "#ececec")


def print_dot(module: Module) -> str:
    """Return the module as a DOT graph."""
    lines = [
        f"digraph {_quoted(module.name)} {{",
        "  rankdir=TB; compound=true; fontname=sans;",
        '  node [shape=box, style="filled,rounded", fontname=sans, fontsize=10];',
        "  edge [fontname=sans, fontsize=8];",
    ]
    for computation in module.post_order():
        lines += _cluster(module, computation)
    for computation in module.post_order():
        lines += _edges(computation)
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(module: Module, computation: Computation) -> Iterator[str]:
    title = f"ENTRY {computation.name}" if computation is module.entry else computation.name
    yield f"  subgraph {_quoted(f'cluster_{computation.name}')} {{"
    yield f"    label={_quoted(title)};"
    for item in computation.post_order():
        yield f"    {_quoted(item.name)} [{_attributes(item, computation)}];"
    yield "  }"


def _attributes(item: Instruction, computation: Computation) -> str:
    opcode = (
        f"{item.opcode} {item.attributes.number}" if item.opcode == "parameter" else item.opcode
    )
    words = [opcode, item.name, str(item.shape)]
    colour = _COLOURS[FAMILIES.index(item.definition.family) % len(_COLOURS)]
    found = [f"label={_quoted(chr(10).join(words))}", f"fillcolor={_quoted(colour)}"]
    if item is computation.root:
        found.append("penwidth=2")
    metadata = item.metadata
    hints = [metadata.op_name, "" if metadata.location is None else str(metadata.location)]
    if any(hints):
        found.append(f"tooltip={_quoted(' '.join(filter(None, hints)))}")
    return ", ".join(found)


def _edges(computation: Computation) -> Iterator[str]:
    for item in computation.post_order():
        for number, operand in enumerate(item.operands):
            label = f" [label={number}]" if len(item.operands) > 1 else ""
            yield f"  {_quoted(operand.name)} -> {_quoted(item.name)}{label};"
        for before in item.control_predecessors:
            yield f"  {_quoted(before.name)} -> {_quoted(item.name)} [style=dotted];"
        for called in dict.fromkeys(item.called_computations):
            yield f"  {_quoted(called.root.name)} -> {_quoted(item.name)} [style=dashed];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
