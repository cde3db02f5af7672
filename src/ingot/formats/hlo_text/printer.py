# SPDX-License-Identifier: Apache-2.0
"""The printer: a module as the HLO text that XLA prints.

Names, order, spacing and omitted defaults are XLA's, so a static module can be handed to any tool
that reads XLA's dumps. Constants are written in full. The op table lists the attributes of an
instruction; only the irregularities of XLA's text are implemented here.

Source: xla/hlo/ir/hlo_instruction.cc (PrintWithCanonicalNameMap), hlo_module.cc (Print).

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("f")
    >>> print(print_computation(b.build(b.negate(b.parameter(0, "f32[2]", "x")))))
    %f (x: f32[2]) -> f32[2] {
      %x = f32[2]{0} parameter(0)
      ROOT %negate = f32[2]{0} negate(%x)
    }
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ingot.formats.hlo_text.attribute_text import AttributeText, plan
from ingot.formats.hlo_text.entry_layout import LAYOUT, write_layout
from ingot.formats.hlo_text.header_text import write_aliases, write_metadata
from ingot.formats.hlo_text.kept_text import KEPT_AFTER_METADATA
from ingot.formats.hlo_text.literal_text import write_literal
from ingot.formats.hlo_text.opcodes import TARGETS
from ingot.hlo.computation import Computation, callees_first
from ingot.hlo.dtype import DTYPES, PRED
from ingot.hlo.instruction import NO_METADATA, Instruction, Metadata
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.arguments import require_type
from ingot.support.regex import regex

_INLINE: dict[str, Callable[[Instruction], str]] = {
    "parameter": lambda instruction: str(instruction.attributes.number),
    "constant": lambda instruction: write_literal(instruction.attributes.literal),
}
# XLA's parser refuses names that are element types.
_RESERVED = frozenset(DTYPES) - {"tuple"}
_INVALID_CHARACTER = regex(r"[^\w.\-]", re.ASCII)
# XLA numbers every fifth element of long lists.
_MARK_EVERY = 5


class _Names:
    """Printed names: names that XLA would not read are made valid, and stay unique."""

    __slots__ = ("_made", "_texts", "prefix")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._texts: dict[str, str] = {}
        self._made: set[str] = set()

    def __call__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self.prefix + self._valid(name)
        return text

    def _valid(self, name: str) -> str:
        made = _INVALID_CHARACTER.sub("_", name)
        made = made if made and made[0] not in "0123456789.-" else f"_{made}"
        taken = self._texts.values() if made != name else self._made
        while made in _RESERVED or self.prefix + made in taken:
            made += "_"
            taken = self._texts.values()
        if made != name:
            self._made.add(self.prefix + made)
        return made


class _Style:
    """How to print; shapes and metadata are kept by value, as they repeat."""

    __slots__ = (
        *("_metadata", "_shapes", "callees", "layouts", "metadata", "names", "short"),
        "operand_shapes",
    )

    def __init__(
        self, metadata: bool, layouts: bool, short: bool, operand_shapes: bool = False
    ) -> None:
        self.metadata = metadata and not short
        self.operand_shapes = operand_shapes
        self.layouts = layouts
        self.short = short
        self.names = _Names("" if short else "%")
        self.callees = _Names(self.names.prefix)
        self._shapes: dict[Shape, str] = {}
        self._metadata: dict[Metadata, str] = {}

    def shape(self, shape: Shape) -> str:
        """Return the text of a shape."""
        text = self._shapes.get(shape)
        if text is None:
            text = self._shapes[shape] = _shape_text(shape, self.layouts)
        return text

    def operand(self, operand: Instruction) -> str:
        """Return the text of an operand: its name, after its shape if the style has shapes."""
        name = self.names(operand.name)
        return f"{self.shape(operand.shape)} {name}" if self.operand_shapes else name

    def metadata_text(self, metadata: Metadata) -> str:
        """Return the text of metadata."""
        text = self._metadata.get(metadata)
        if text is None:
            text = self._metadata[metadata] = write_metadata(metadata)
        return text


def print_module(
    module: Module,
    *,
    with_metadata: bool = True,
    with_layouts: bool = True,
    with_operand_shapes: bool = False,
    short: bool = False,
) -> str:
    """Return the text of a module.

    Args:
        module: what to print.
        with_metadata: print `metadata={…}`.
        with_layouts: print layouts of shapes.
        with_operand_shapes: print the shape of each operand before its name.
        short: leave out `%`, signatures, metadata and backend_config.
    """
    require_type(module, Module, "what is printed")
    style = _Style(with_metadata, with_layouts, short, with_operand_shapes)
    blocks = [_header(module, style)]
    blocks.extend(
        _computation(computation, style)
        for computation in callees_first(module.computations.values())
    )
    return "\n\n".join(blocks) + "\n"


def print_computation(computation: Computation, *, with_metadata: bool = True) -> str:
    """Return the text of one computation."""
    return _computation(computation, _Style(with_metadata, layouts=True, short=False))


def _header(module: Module, style: _Style) -> str:
    parts = [f"HloModule {_INVALID_CHARACTER.sub('_', module.name) or '_'}"]
    if module.schedule:
        parts.append("is_scheduled=true")
    if module.aliases:
        parts.append(f"input_output_alias={write_aliases(module.aliases)}")
    inner = marked([style.shape(p.shape) for p in module.entry.parameters])
    result = style.shape(module.result_shape)
    parts.append(f"{LAYOUT}={write_layout(module, f'{{({inner})->{result}}}')}")
    parts.extend(f"{name}={value}" for name, value in module.extra.items() if name != LAYOUT)
    return ", ".join(parts)


def _computation(computation: Computation, style: _Style) -> str:
    module = computation.module
    is_entry = module is not None and module.entry is computation
    head = "ENTRY " if is_entry else ""
    head += style.callees(computation.name)
    if not style.short:
        plain = _Style(metadata=False, layouts=False, short=True)
        inner = ", ".join(
            f"{plain.names(p.name)}: {plain.shape(p.shape)}" for p in computation.parameters
        )
        head += f" ({inner}) -> {plain.shape(computation.root.shape)}"
    order = module.schedule.get(computation) if module is not None else None
    root = computation.root
    lines = [head + " {"]
    for instruction in order or computation.post_order():
        mark = "  ROOT " if instruction is root else "  "
        lines.append(mark + _instruction(instruction, style))
    lines.append("}")
    return "\n".join(lines)


def _instruction(instruction: Instruction, style: _Style) -> str:
    names = style.names
    definition = instruction.definition
    inline = _INLINE.get(definition.name)
    inner = (
        inline(instruction)
        if inline is not None
        else marked([style.operand(operand) for operand in instruction.operands])
    )
    target = TARGETS.get(definition.name)
    opcode = definition.name if target is None else "custom-call"
    text = f"{names(instruction.name)} = {style.shape(instruction.shape)} {opcode}({inner})"
    if target is not None:
        text += f', custom_call_target="{target}"'
    for row in plan(definition):
        value = getattr(instruction.attributes, row.field)
        if value != row.default:
            text += _attribute(instruction, row, value, style.callees)
    return text + _common(instruction, style)


def _attribute(instruction: Instruction, row: AttributeText, value: object, callees: _Names) -> str:
    if row.field == "branch_computations" and instruction.operands[0].shape.dtype is PRED:
        # XLA names the two branches of a pred one by one.
        on_true, on_false = (callees(called.name) for called in instruction.called_computations)
        return f", true_computation={on_true}, false_computation={on_false}"
    return f", {row.name}={row.codec.write(value, callees)}"


def _common(instruction: Instruction, style: _Style) -> str:
    """Return the attributes that instructions of any op may have."""
    text = ""
    for name, value in instruction.extra.items():
        if name not in KEPT_AFTER_METADATA:
            text += f", {name}={value}"
    if instruction.control_predecessors:
        names = ", ".join(style.names(before.name) for before in instruction.control_predecessors)
        text += f", control-predecessors={{{names}}}"
    if style.metadata and instruction.metadata is not NO_METADATA:
        metadata = style.metadata_text(instruction.metadata)
        text += f", metadata={metadata}" if metadata else ""
    if not style.short:
        for name in KEPT_AFTER_METADATA:
            if name in instruction.extra:
                text += f", {name}={instruction.extra[name]}"
    return text


def _shape_text(shape: Shape, with_layout: bool) -> str:
    if not shape.is_tuple:
        return shape.to_string(with_layout=with_layout)
    return "(" + marked([_shape_text(element, with_layout) for element in shape.elements]) + ")"


def marked(items: list[str]) -> str:
    """Join a list as XLA does: every fifth element carries its number in a comment."""
    if len(items) <= _MARK_EVERY:
        return ", ".join(items)
    return ", ".join(
        f"/*index={number}*/{item}" if number and number % _MARK_EVERY == 0 else item
        for number, item in enumerate(items)
    )
