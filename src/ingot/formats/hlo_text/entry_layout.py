# SPDX-License-Identifier: Apache-2.0
"""The entry's signature in the header: `entry_computation_layout={(f32[3,3]{0,1})->f32[3]{0}}`.

Its layouts of parameters and results may differ from those of the entry's own shapes. Such a
signature is kept as text in `Module.extra` and printed back, also into protos; Ingot's own arrays
stay row-major. After passes change the entry's shapes it is no longer valid, and is omitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.formats.hlo_text.reader import Reader
from ingot.formats.hlo_text.shape_text import ShapeReader
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.regex import regex

LAYOUT = "entry_computation_layout"

_LAYOUT_OF_SHAPE = regex(r"(?<=\])\{[^{}]*+\}")
_NO_MEANING = regex(r"/\*(?>[^*]|\*(?!/))*+\*/|\s+")

Signature = tuple[list[Shape], Shape]
"""Shapes of the parameters, and of the result."""


def read_layout(reader: Reader) -> str:
    """Take the signature that a header gives; return its text.

    Raises:
        ParseError: it is no signature (INGOT0101, INGOT0110).
    """
    start = reader.skip()
    _take_signature(reader)
    return reader.text[start : reader.position]


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
    return _take_signature(Reader(write_layout(module, _own_text(module))))


def _take_signature(reader: Reader) -> Signature:
    """Take `{(f32[3,3]{0,1}, s32[])->f32[3]{0}}`."""
    shapes = ShapeReader(reader)
    reader.expect("{", "before the signature")
    reader.expect("(", "before the parameters' shapes")
    parameters: list[Shape] = []
    while not reader.accept(")"):
        parameters.append(shapes.shape())
        if not reader.accept(","):
            reader.expect(")", "after the parameters' shapes")
            break
    reader.expect("->", "before the result's shape")
    result = shapes.shape()
    reader.expect("}", "after the signature")
    return parameters, result


def _own_text(module: Module) -> str:
    return signature_text([item.shape for item in module.entry.parameters], module.result_shape)


def _fits(text: str, own: str) -> bool:
    """Whether two signatures are the same but for layouts."""
    return _LAYOUT_OF_SHAPE.sub("", _bare(text)) == _LAYOUT_OF_SHAPE.sub("", _bare(own))


def _bare(text: str) -> str:
    return _NO_MEANING.sub("", text)
