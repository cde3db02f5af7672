"""The entry's signature in the header: `entry_computation_layout={(f32[3,3]{0,1})->f32[3]{0}}`.

It can order the elements of parameters and results otherwise than the entry's own shapes do. Such a
signature is kept as text in `Module.extra` and printed back, into protos too; Ingot's own arrays
stay row-major. Where passes change the entry's shapes it no longer holds, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingot.formats.hlo_text.reader import Reader
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape

LAYOUT = "entry_computation_layout"

_LAYOUT_OF_SHAPE = re.compile(r"(?<=\])\{[^{}]*+\}")
_NO_MEANING = re.compile(r"/\*(?>[^*]|\*(?!/))*+\*/|\s+")

Signature = tuple[list[Shape], Shape]
"""Shapes of the parameters, and of the result."""


def keep_layout(module: Module, text: str) -> None:
    """Keep the signature that a header gives where its layouts are not the entry's own."""
    own = _own_text(module)
    if _bare(text) != _bare(own) and _fits(text, own):
        module.extra[LAYOUT] = text


def write_layout(module: Module, own: str) -> str:
    """Return the entry's signature: the one that was read while it fits `own`, but for layouts."""
    text = module.extra.get(LAYOUT, own)
    return text if _fits(text, own) else own


def signature_text(parameters: Sequence[Shape], result: Shape) -> str:
    """Return a signature as the header has it."""
    return f"{{({', '.join(map(str, parameters))})->{result}}}"


def signature(module: Module) -> Signature:
    """Return the entry's signature with the layouts that were read."""
    reader = Reader(write_layout(module, _own_text(module)))
    shapes = ShapeReader(reader)
    reader.expect("{")
    reader.expect("(")
    parameters: list[Shape] = []
    while not reader.accept(")"):
        parameters.append(shapes.shape())
        reader.accept(",")
    reader.expect("->")
    return parameters, shapes.shape()


def _own_text(module: Module) -> str:
    return signature_text([item.shape for item in module.entry.parameters], module.result_shape)


def _fits(text: str, own: str) -> bool:
    """Whether two signatures are the same but for layouts."""
    return _LAYOUT_OF_SHAPE.sub("", _bare(text)) == _LAYOUT_OF_SHAPE.sub("", _bare(own))


def _bare(text: str) -> str:
    return _NO_MEANING.sub("", text)
