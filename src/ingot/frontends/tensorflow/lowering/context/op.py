# SPDX-License-Identifier: Apache-2.0
"""`Op`: what the rule of a TensorFlow op sees of its node, and the errors that it can give.

Operands come as instructions (`tensor`) or, where the op's result shape depends on them, as known
arrays (`array`, `sizes`, `integers`); attributes by name. A rule returns the value of its output,
or a tuple of values, one per output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.frontends.tensorflow.graphs.captured import CapturedNode, FunctionRef, Shape, TypeName
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size, elements
from ingot.frontends.tensorflow.lowering.context.constants import (
    UnknownValueError,
    known_value,
    need_sizes,
)
from ingot.frontends.tensorflow.lowering.context.frame import Frame, Scope
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import (
    Array,
    Known,
    Size,
    Sizes,
    TensorList,
    Value,
    Variable,
    dims_of,
    dtype_of,
    element_of,
    object_array,
    plain_size,
)
from ingot.frontends.tensorflow.partitioning.op_families import reason
from ingot.frontends.tensorflow.variants.specialisation import COMPUTED
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import UnsupportedError


class Op:
    """One node, with its operands."""

    __slots__ = ("b", "frame", "node", "scope", "values")

    def __init__(self, node: CapturedNode, scope: Scope) -> None:
        """Look up the operands of `node`."""
        self.node = node
        self.scope = scope
        self.frame: Frame = scope.frame
        self.b: TensorBuilder = scope.frame.builder
        self.values: list[Value] = [scope.values[ref] for ref in node.inputs]

    # ---- operands

    def __len__(self) -> int:
        return len(self.values)

    def tensor(self, number: int) -> Instruction:
        """Return operand `number` as an instruction."""
        value = self.values[number]
        if not isinstance(value, Instruction | Known):
            raise self.error(f"operand {number} is a {type(value).__name__}, not a tensor")
        return self.frame.tensor(value)

    def tensors(self, start: int = 0, stop: int | None = None) -> list[Instruction]:
        """Return operands `start:stop` as instructions."""
        return [self.tensor(number) for number in range(len(self.values))[start:stop]]

    def dims(self, number: int) -> Sizes:
        """Return the dimensions of operand `number`."""
        return dims_of(self.values[number])

    def rank(self, number: int) -> int:
        """Return the rank of operand `number`."""
        return len(self.dims(number))

    def dtype(self, number: int) -> DType:
        """Return the element type of operand `number`."""
        return dtype_of(self.values[number])

    def variable(self, number: int) -> Variable:
        """Return operand `number`, a variable's handle."""
        value = self.values[number]
        if not isinstance(value, Variable):
            raise self.error(
                f"operand {number} is not a variable that the function captured",
                "resources other than tf.Variable (tables, iterators) stay outside",
            )
        return value

    def declared_shape(self, number: int) -> Shape:
        """Return the shape that the variable of operand `number` was made with, if known."""
        inputs, index = self.frame.program.captured.inputs, self.variable(number).index
        handle = inputs[index].handle if 0 <= index < len(inputs) else None
        return None if handle is None else handle.shape

    def list(self, number: int) -> TensorList:
        """Return operand `number`, a TensorList."""
        value = self.values[number]
        if not isinstance(value, TensorList):
            raise self.error(f"operand {number} is not a TensorList made in this function")
        return value

    # ---- operands known at compile time

    def known(self, number: int) -> Array | None:
        """Return operand `number` as an array if it is known at compile time."""
        value = self.values[number]
        if isinstance(value, Instruction):
            value = self.b.program.evaluated.get(value, value)
        return value.array if isinstance(value, Known) else None

    def array(self, number: int, what: str) -> Array:
        """Return operand `number`, which must be known at compile time: it is the op's `what`.

        Where it follows from small arguments or variables, the function is specialised on their
        values (see `constants`). Operands that decide no size and no structure are `tensor`s.
        """
        value = self.values[number]
        if not isinstance(value, Known):
            value = self.values[number] = self._constant(self.tensor(number), what)
        return value.array

    def _constant(self, value: Instruction, what: str) -> Known:
        try:
            return known_value(self.b.program, value, what)
        except UnknownValueError as problem:
            raise self.error(
                f"the {what} is computed from data, and the program depends on it: {problem}",
                f"compute the {what} from shapes, attributes, Python numbers and small arguments",
            ) from None

    def known_or_computed(self, number: int, what: str) -> Array | None:
        """Return operand `number` like `array`, or None if only run time knows it."""
        value = self.values[number]
        if not isinstance(value, Known):
            try:
                value = known_value(self.b.program, self.tensor(number), what, or_computed=True)
            except UnknownValueError:
                return None
            self.values[number] = value
        return value.array

    def number(self, value: Instruction, what: str) -> int:
        """Return an integer scalar that must be known at compile time, like `array`."""
        return int(self._constant(value, what).array)

    def sizes(self, number: int, what: str, *, least: int = 0) -> Sizes:
        """Return operand `number` as sizes, possibly symbolic.

        This is the one place where a size given as a value becomes a size of a shape: known, or
        that of small arguments that the function is specialised on, or computed when it runs. Less
        than `least` is an error; the program itself ends where a computed one is negative.
        """
        found = self._sizes(number, what)
        for size in found:
            if isinstance(size, int) and size < least:
                raise self.error(f"the {what}: dimension {size} must be >= {least}")
        return found

    def _sizes(self, number: int, what: str) -> Sizes:
        value = self.values[number]
        if isinstance(value, Known):
            return tuple(plain_size(item) for item in value.array.ravel())
        vector = self.tensor(number)
        sizes = self.sizes_in(vector, what)
        # An op that is lowered again has the same sizes.
        found = object_array(list(sizes)).reshape(vector.shape.static_dims)
        self.values[number] = Known.of(found, vector.shape.dtype)
        return sizes

    def sizes_in(self, vector: Instruction, what: str) -> Sizes:
        """Return the elements of an array of integers as sizes, like `sizes`."""
        return tuple(self._size(item, what) for item in elements(self.frame, vector))

    def size(self, number: int, what: str, *, least: int = 0) -> Size:
        """Return operand `number`, which must be a scalar, as a size like `sizes`."""
        self._check_scalar(number, what)
        return self.sizes(number, what, least=least)[0]

    def _check_scalar(self, number: int, what: str) -> None:
        if self.rank(number):
            sizes = ", ".join(map(str, self.dims(number)))
            raise self.error(f"{what} must be a scalar, not of shape [{sizes}]")

    def _size(self, value: Instruction, what: str) -> Size:
        found = self.known_size(value, what)
        return computed_size(self.frame, value) if found is None else found

    def known_size(self, value: Instruction, what: str) -> Size | None:
        """Return an integer scalar as a size, or None if only run time knows it."""
        try:
            found = known_value(self.b.program, value, what, or_computed=True)
            return plain_size(found.array.ravel()[0])
        except UnknownValueError:
            return None

    def integers(self, number: int, what: str) -> tuple[int, ...]:
        """Return operand `number` as plain integers: what decides the program's structure."""
        found = (plain_size(item) for item in self.array(number, what).ravel())
        return tuple(self.fixed(item, what) for item in found)

    def integer(self, number: int, what: str) -> int:
        """Return operand `number`, which must be a scalar, as a plain integer like `integers`."""
        self._check_scalar(number, what)
        return self.integers(number, what)[0]

    def fixed(self, size: Size, what: str) -> int:
        """Return a size that cannot stay open: the function is specialised on it."""
        if isinstance(size, int):
            return size
        need_sizes(self.b.program, (size,), what)
        text = f"the {what} depends on a size that is open at compile time"
        notes = (COMPUTED,) if self.b.program.is_computed((size,)) else ()
        raise located(self.node, UnsupportedError(text, code="INGOT0310", notes=notes))

    def let_be_scalar(self, number: int) -> None:
        """Let an operand of one element be a scalar, as TensorFlow's kernels of a few ops do."""
        value = self.values[number]
        if self.rank(number) and all(size == 1 for size in self.dims(number)):
            is_known = isinstance(value, Known)
            self.values[number] = (
                Known(value.array.reshape(()), value.element)
                if is_known
                else self.b.reshape_to(self.tensor(number), ())
            )

    def axes(self, number: int, rank: int, what: str = "axis") -> tuple[int, ...]:
        """Return operand `number` as axes of a tensor of `rank`, counted from the front."""
        return tuple(self.axis_of(item, rank) for item in self.integers(number, what))

    def axis(self, number: int, rank: int, what: str = "axis") -> int:
        """Return operand `number`, a scalar, as an axis of a tensor of `rank` like `axes`."""
        return self.axis_of(self.integer(number, what), rank)

    def axis_of(self, axis: int, rank: int) -> int:
        """Return `axis` counted from the front; an error when it is out of range."""
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"axis {axis} of a tensor of rank {rank}")
        return axis % rank if rank else 0

    # ---- attributes and outputs

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` when the node has none."""
        return self.node.attributes.get(name, default)

    def element(self, name: str) -> DType:
        """Return an attribute that is an element type."""
        found = self.node.attributes[name]
        if not isinstance(found, TypeName):
            raise self.error(f"attribute {name} is not an element type")
        return element_of(found.name)

    def function(self, name: str) -> str:
        """Return the name of the function that attribute `name` refers to."""
        found = self.node.attributes[name]
        if not isinstance(found, FunctionRef):
            raise self.error(f"attribute {name} is not a function")
        return found.name

    def result(self, number: int = 0) -> DType:
        """Return the element type of output `number`."""
        return element_of(self.node.outputs[number].dtype)

    # ---- errors

    def error(self, message: str, hint: str = "") -> UnsupportedError:
        """Return the error that says why this node cannot be compiled."""
        return located(self.node, UnsupportedError(message, code="INGOT0310", hint=hint))

    def mistake(self, message: str, hint: str = "") -> UnsupportedError:
        """Return the error for shapes or values that TensorFlow's own kernel refuses too."""
        return located(self.node, UnsupportedError(message, code="INGOT0312", hint=hint))

    def mismatch(self, *numbers: int) -> UnsupportedError:
        """Return the error for operands whose shapes do not fit."""
        shapes = " and ".join(
            f"{self.dtype(n).name}[{','.join(map(str, self.dims(n)))}]" for n in numbers
        )
        return self.mistake(f"shapes {shapes} do not fit {self.node.op}")

    def unchecked_operands(self) -> tuple[int, ...]:
        """Return the tensors among the operands if TensorFlow did not know each one's rank.

        It checks the ranks that it knows when the node is made, and rules rely on that.
        """
        is_checked = all(map(self.scope.function.knows_rank, self.node.inputs))
        tensors = enumerate(self.values)
        found = tuple(n for n, value in tensors if isinstance(value, Instruction | Known))
        return () if is_checked else found


_NOT_COMPILED = frozenset({"INGOT0310", "INGOT0311"})
"""Codes of what TensorFlow could do, and Ingot does not."""

Rule = Callable[[Op], "Value | tuple[Value, ...]"]
OfOne = Callable[[TensorBuilder, Instruction], Instruction]
OfTwo = Callable[[TensorBuilder, Instruction, Instruction], Instruction]


def of_operand(compute: OfOne) -> Rule:
    """Return the rule that computes from operand 0."""
    return lambda op: compute(op.b, op.tensor(0))


def of_operands(compute: OfTwo) -> Rule:
    """Return the rule that computes from operands 0 and 1."""
    return lambda op: compute(op.b, op.tensor(0), op.tensor(1))


def located(node: CapturedNode, error: UnsupportedError) -> UnsupportedError:
    """Return `error` with the op, the node and the user's location, where it lacks them.

    What has no hint of its own and is no mistake of the user gets the one for ops without a rule.
    """
    found = error.diagnostic
    of_op = reason(node.op)[1] if found.code in _NOT_COMPILED else ""
    return type(error)(
        found.message,
        code=found.code,
        instruction=found.instruction,
        op_type=found.op_type or node.op,
        op_name=found.op_name or node.name,
        location=found.location or node.location,
        notes=found.notes,
        hint=found.hint or of_op,
    )
