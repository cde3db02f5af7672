"""Sizes that only run time knows: an integer of the program becomes a size of its shapes.

The HLO gets a definition of the size (`hlo.size_definitions`), and every rule treats it like the
size of an argument. A size that turns out to be another one (`Equalities`) is no size of its own:
an assertion says at run time that both are the same number.

Invariant: the integer is computed in the frame that the size is used in.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.frame import Frame
from ingot.frontends.tensorflow.lowering.values import Size
from ingot.hlo.assertions import emit_assertion
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.size_definitions import define_size


def computed_size(frame: Frame, count: Instruction) -> Size:
    """Return the size that `count`, an integer of rank 0, is when the program runs."""
    b, program = frame.builder, frame.program
    name = program.new_size()
    count = b.convert_to(count, S64)
    (size,) = program.equalities.simplify((Dim.symbol(name),))
    if isinstance(size, Dim) and size.text == name:
        define_size(b, count, name)
        frame.sizes[name] = count
        return size
    same = b.compare(count, b.size(size), direction="EQ")
    emit_assertion(b, same, f"a size that is computed must be {size}")
    return size


def elements(frame: Frame, value: Instruction) -> list[Instruction]:
    """Return the elements of a vector of integers, or the scalar itself."""
    if value.shape.rank == 0:
        return [value]
    (count,) = value.shape.dims
    assert isinstance(count, int), "a shape has a known rank"
    return [_element(frame, value, number) for number in range(count)]


def _element(frame: Frame, value: Instruction, number: int) -> Instruction:
    """Return an element, behind what only puts elements together."""
    b = frame.builder
    dtype = value.shape.dtype
    while value.shape.rank == 1:
        if value.opcode == "convert":
            value = value.operands[0]
        elif value.opcode == "concatenate":
            value, number = _part(value, number)
        elif (value.opcode == "reshape" and value.operands[0].shape.rank == 0) or (
            value.opcode == "broadcast" and value.operands[0].shape.rank == 0
        ):
            value = value.operands[0]
        else:
            value = b.reshape_to(b.sliced(value, 0, number, number + 1), ())
    return b.convert_to(value, dtype)


def _part(value: Instruction, number: int) -> tuple[Instruction, int]:
    """Return the operand of a concatenation that has element `number`, and its number there."""
    for part in value.operands:
        (count,) = part.shape.dims
        assert isinstance(count, int), "parts of a vector of known size"
        if number < count:
            return part, number
        number -= count
    raise AssertionError("the number is within the vector")
