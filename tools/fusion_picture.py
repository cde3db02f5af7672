# SPDX-License-Identifier: Apache-2.0
"""Draw what fusion did to the training step: `docs/images/fusion.svg`, from a real executable.

Left: the HLO of `examples/training_step.py` before any pass, one dot per instruction. Right: the
kernels that run, with the bytes that each one moves. Both graphs are drawn in layers: what only
needs what is above it comes next.

Example:
    .venv/bin/python tools/fusion_picture.py
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from ingot.viz import layout

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "fusion.svg"
WIDTH, LEFT_WIDTH, TOP = 1080, 380, 64
BOX_WIDTH, BOX_GAP, LAYER_GAP, LINE = 212, 14, 34, 13
DOT, DOT_LAYER = 4.5, 17
# A copy of a result to a variable, after fusion, is no kernel.
HIDDEN = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "copy"})
PLUMBING = frozenset({"broadcast", "reshape", "bitcast", "iota", "transpose"})
COLOURS = {"dot": "#c2543d", "reduce": "#2f7d6b", "plumbing": "#b9b4a8", "other": "#4a6fa5"}
NAMES = {"dot": "matrix product", "reduce": "reduction", "other": "elementwise"}
NAMES |= {"plumbing": "broadcast, reshape, ..."}


@dataclass(frozen=True, slots=True)
class Node:
    """A dot or a box: its colour's key, lines of text, and the nodes that it needs."""

    kind: str
    lines: tuple[str, ...]
    needs: tuple[int, ...]


def kind_of(opcodes: Iterable[str]) -> str:
    """Return the kind of what has these opcodes."""
    present = set(opcodes)
    for kind in ("dot", "reduce"):
        if kind in present:
            return kind
    return "plumbing" if present <= PLUMBING else "other"


def executable_of_the_training_step() -> Any:
    """Compile the example and return what was made of it."""
    import ingot.tensorflow

    ingot.tensorflow.enable()
    sys.path.insert(0, str(ROOT / "examples"))
    import tensorflow as tf

    import digits
    import training_step

    network = training_step.Network()
    optimizer = tf.keras.optimizers.Adam(learning_rate=0.003)
    optimizer.build(network.variables)
    step = training_step.make_train_step(network, optimizer)
    step(*next(iter(training_step.batches(digits.load(), 1))))
    compiled = ingot.tensorflow.executables()
    return next(made[-1] for name, made in compiled.items() if "train_step" in name)


def graph(text: str, describe: Any) -> list[Node]:
    """Return the entry of an HLO text as nodes; hidden instructions only pass their needs on."""
    from ingot.formats.hlo_text import parse

    nodes: list[Node] = []
    sources: dict[Any, tuple[int, ...]] = {}
    for instruction in parse(text).entry.post_order():
        needs = tuple(dict.fromkeys(n for item in instruction.operands for n in sources[item]))
        if instruction.opcode in HIDDEN:
            sources[instruction] = needs
            continue
        sources[instruction] = (len(nodes),)
        nodes.append(describe(instruction, needs))
    return nodes


def layers(nodes: list[Node]) -> list[list[int]]:
    """Return the nodes by depth."""
    return layout.layers([node.needs for node in nodes])


def curve(start: tuple[float, float], end: tuple[float, float], colour: str, width: float) -> str:
    """Return a line that leaves downwards and arrives from above."""
    path = layout.curve(start, end)
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def text(x: float, y: float, words: str, style: str = "") -> str:
    """Return a line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def draw_dots(nodes: list[Node]) -> tuple[list[str], float]:
    """Return the left graph and its height."""
    spots: dict[int, tuple[float, float]] = {}
    for level, row in enumerate(layers(nodes)):
        step = min(22.0, LEFT_WIDTH / len(row))
        for at, number in enumerate(row):
            x = LEFT_WIDTH / 2 + 20 + (at - (len(row) - 1) / 2) * step
            spots[number] = (x, TOP + 20 + level * DOT_LAYER)
    lines = [
        curve(spots[need], spots[number], "#d6d1c4", 0.8)
        for number, node in enumerate(nodes)
        for need in node.needs
    ]
    dots = [
        f'<circle cx="{spots[n][0]:.1f}" cy="{spots[n][1]:.1f}" r="{DOT}" '
        f'fill="{COLOURS[node.kind]}"><title>{escape(node.lines[0])}</title></circle>'
        for n, node in enumerate(nodes)
    ]
    return lines + dots, max(y for _, y in spots.values())


def draw_boxes(nodes: list[Node]) -> tuple[list[str], float]:
    """Return the right graph and its height."""
    left, room = LEFT_WIDTH + 60, WIDTH - LEFT_WIDTH - 60
    boxes: dict[int, tuple[float, float, float]] = {}
    shapes: list[str] = []
    y = TOP + 8.0
    for row in layers(nodes):
        for start in range(0, len(row), room // (BOX_WIDTH + BOX_GAP)):
            part = row[start : start + room // (BOX_WIDTH + BOX_GAP)]
            tallest = max(len(nodes[n].lines) for n in part) * LINE + 14
            total = len(part) * (BOX_WIDTH + BOX_GAP) - BOX_GAP
            for at, number in enumerate(part):
                x = left + (room - total) / 2 + at * (BOX_WIDTH + BOX_GAP)
                boxes[number] = (x, y, len(nodes[number].lines) * LINE + 14)
                shapes += box(nodes[number], *boxes[number])
            y += tallest + LAYER_GAP
    lines: list[str] = []
    for number, node in enumerate(nodes):
        for need in node.needs:
            (x0, y0, height), (x1, y1, _) = boxes[need], boxes[number]
            start, end = (x0 + BOX_WIDTH / 2, y0 + height), (x1 + BOX_WIDTH / 2, y1)
            lines.append(curve(start, end, "#a59f90", 1.3))
    return lines + shapes, y - LAYER_GAP


def box(node: Node, x: float, y: float, height: float) -> list[str]:
    """Return a kernel's box: a bar in its colour, then its lines, the first one bold."""
    colour = COLOURS[node.kind]
    shapes = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH}" height="{height}" rx="5" '
        f'fill="#fffdf8" stroke="{colour}"/>',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="5" height="{height}" rx="2" fill="{colour}"/>',
    ]
    for at, words in enumerate(node.lines):
        style = 'font-weight="600"' if at == 0 else 'fill="#5c574c"'
        shapes.append(text(x + 13, y + 16 + at * LINE, words, f'font-size="10.5" {style}'))
    return shapes


def picture(executable: Any) -> str:
    """Return the SVG text."""
    from ingot.support.text import format_bytes

    before = graph(
        executable.as_text("hlo_before"),
        lambda item, needs: Node(kind_of([item.opcode]), (item.opcode,), needs),
    )
    known = {kernel.fusion: kernel for kernel in executable.kernels}

    def kernel_node(instruction: Any, needs: tuple[int, ...]) -> Node:
        kernel = known.get(instruction.name)
        if kernel is None:
            return Node("plumbing", (instruction.opcode,), needs)
        counts = Counter(name for name in kernel.opcodes if name not in PLUMBING | HIDDEN)
        ops = ", ".join(f"{n} {name}" if n > 1 else name for name, n in counts.items())
        moved = f"{format_bytes(kernel.bytes_read)} in, {format_bytes(kernel.bytes_written)} out"
        return Node(kind_of(counts), (moved, *wrap(ops, 34)), needs)

    after = graph(executable.as_text("hlo"), kernel_node)
    kernels = len(executable.kernels)
    dots, dots_end = draw_dots(before)
    boxes, boxes_end = draw_boxes(after)
    height = max(dots_end, boxes_end) + 46
    legend: list[str] = []
    for at, (kind, name) in enumerate(NAMES.items()):
        x = 24 + at * 150
        legend.append(f'<circle cx="{x}" cy="{height - 16}" r="5" fill="{COLOURS[kind]}"/>')
        legend.append(text(x + 10, height - 12, name, 'font-size="11" fill="#5c574c"'))
    title = 'font-size="15" font-weight="600"'
    small = 'font-size="11.5" fill="#5c574c"'
    head = [
        text(20, 26, f"As written: {len(before)} HLO instructions", title),
        text(20, 44, "one by one, each reads and writes memory", small),
        text(LEFT_WIDTH + 60, 26, f"As compiled: {kernels} kernels", title),
        text(
            LEFT_WIDTH + 60,
            44,
            "a value goes through memory only along a line",
            small,
        ),
    ]
    body = "\n".join([*head, *dots, *boxes, *legend])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'font-family="system-ui, sans-serif" fill="#2b2a26">\n'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#faf8f2"/>\n{body}\n</svg>\n'
    )


def main() -> int:
    """Write the picture."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture(executable_of_the_training_step()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
