# SPDX-License-Identifier: Apache-2.0
"""A shaping op that HLO does not have, declared as a new op would be, and run through all stages.

`rotate` moves the elements of one dimension round: `result[i] = operand[(i + distance) mod n]`. It
is declared by `DECLARATIONS` alone, each of which stands for what one file of the source would get.
It runs in a process of its own, so that no other test sees the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.evaluator.registry import Context, Value, evaluates
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import IndexingMap, Trait
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record


@record
class RotateAttributes:
    """Attributes of `rotate`."""

    dimension: int = attribute(Codec.INT)
    distance: int = attribute(Codec.INT)


def _infer(view: OpView) -> Shape:
    (operand,) = view.operands
    number = view.as_(RotateAttributes).dimension
    require(0 <= number < operand.rank, "rotate_c1", f"dimension {number} of {operand}")
    return operand


def _index(op: Instruction, index: tuple[int | Dim, ...]) -> tuple[int | Dim, ...]:
    given = op.as_(RotateAttributes)
    number = given.dimension
    moved = dim.mod(index[number] + given.distance, op.shape.dims[number])
    return (*index[:number], moved, *index[number + 1 :])


def declare_row() -> None:
    """What the op is: parser, printer, verifier, fusion, lowering and sizes follow from it."""
    define(
        "rotate",
        family="shaping",
        arity=1,
        infer=_infer,
        attributes=RotateAttributes,
        traits={Trait.SHAPING},
        indexing=IndexingMap(_index),
        doc="moves the elements of a dimension round",
    )


def declare_meaning() -> None:
    """What the op means, in NumPy."""

    @evaluates("rotate")
    def rotate(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
        given = op.as_(RotateAttributes)
        return np.roll(operands[0], -given.distance, given.dimension)


DECLARATIONS = {
    "src/ingot/hlo/opset/shaping.py": declare_row,
    "src/ingot/evaluator/shaping.py": declare_meaning,
}

FILES = (*DECLARATIONS, "tests/ops/rotate.hlo", "docs/ops.md")
"""What a new shaping op takes: the last one is written by `make docs`."""

TEXT = """
HloModule rotation

sum {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] add(a, b)
}}

ENTRY main {{
  x = {element}[{rows},{columns}] parameter(0)
  y = {element}[{columns},{rows}] parameter(1)
  twice = {element}[{rows},{columns}] add(x, x)
  turned = {element}[{rows},{columns}] rotate(twice), dimension={dimension}, distance=2
  flipped = {element}[{columns},{rows}] transpose(turned), dimensions={{1,0}}
  joined = {element}[{columns},{rows}] multiply(flipped, y)
  zero = {element}[] constant({zero})
  ROOT total = {element}[{columns}] reduce(joined, zero), dimensions={{1}}, to_apply=sum
}}
"""


def _text(element: str, rows: str, columns: str, dimension: int) -> str:
    zero = "(0, 0)" if element == "c64" else "0"
    return TEXT.format(element=element, rows=rows, columns=columns, dimension=dimension, zero=zero)


def check(element: str, rows: str, columns: str, dimension: int) -> None:
    """Compile and run one program; it is one kernel, equal to the evaluator and to NumPy."""
    text = _text(element, rows, columns, dimension)
    module = parse(text)
    assert print_module(parse(print_module(module))) == print_module(module)
    executable = ingot.compile(module)
    if element != "c64":
        (kernel,) = executable.kernels
        assert "rotate" in kernel.opcodes, kernel.opcodes
    for shape in ((5, 7), (1, 3)) if "?" in rows else ((5, 7),):
        x = (np.arange(shape[0] * shape[1]).reshape(shape) % 11).astype(_NUMPY[element])
        y = np.ascontiguousarray((x * 3 % 7 if element != "c64" else x).T)
        wanted = (np.roll(x + x, -2, dimension).T * y).sum(1)
        assert np.array_equal(evaluate(module, [x, y]), wanted), (text, shape)
        assert np.array_equal(executable(x, y), wanted), (text, shape)


_NUMPY = {"f32": np.float32, "s32": np.int32, "c64": np.complex64}


def main() -> None:
    """Run the op through verifier, text, evaluator, fusion, CPU code and symbolic sizes."""
    for declare in DECLARATIONS.values():
        declare()
    with pytest.raises(ingot.IngotError, match="rotate_c1"):
        parse(_text("f32", "5", "7", 2))
    for dimension in (0, 1):
        check("f32", "5", "7", dimension)
        check("s32", "?m", "?n", dimension)
        check("c64", "5", "7", dimension)


if __name__ == "__main__":
    main()
