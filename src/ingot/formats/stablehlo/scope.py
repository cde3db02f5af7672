# SPDX-License-Identifier: Apache-2.0
"""Scopes and sites: a block being converted, and one op in it.

A `Scope` is one block: its computation and the instruction of each MLIR value defined there. A
value of an enclosing block is an implicit capture: constants are copied in, anything else asks the
scope's `Captures`, which makes it an operand of the op that owns the region (control flow), or
there are none and the capture is refused (reducers).

A `Site` is what a converter gets: the MLIR op, its operands as instructions, and how to read
attributes and add instructions, each with the op's metadata.

Invariant: every instruction of a scope is in its computation; converters add operands before users.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingot.formats.stablehlo.equal_sizes import equate, equate_operands
from ingot.formats.stablehlo.module_state import ModuleState
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import NO_ATTRIBUTES, OpDef, OpView, Trait, find
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError, UnsupportedError, VerifyError

Results = Instruction | Sequence[Instruction]
Converter = Callable[["Site"], Results]
# Ops that are copied into a region rather than captured.
_COPIED = frozenset(("constant", "iota"))


class Captures:
    """Values of enclosing blocks that the regions of one op use; shared by those regions.

    Attributes:
        first: index of the first captured value in the state tuple.
        values: the captured values of the enclosing scope, in tuple order.
    """

    __slots__ = ("_numbers", "first", "values")

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.values: list[Instruction] = []
        self._numbers: dict[Instruction, int] = {}

    def index(self, value: Instruction) -> int:
        """Return the index of `value` in the state tuple; a new value is added."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self.first + len(self.values)
            self.values.append(value)
        return number


class Scope:
    """One block being converted.

    Attributes:
        conversion: the whole module's conversion.
        computation: the computation of its instructions.
        values: instructions by MLIR value.
        outer: the enclosing block's scope, or None in a function.
        captures: adds values of `outer`, or None when captures are not allowed.
        state: the tuple parameter that captured values are elements of.
    """

    __slots__ = ("_captured", "captures", "computation", "conversion", "outer", "state", "values")

    def __init__(
        self,
        conversion: Conversion,
        computation: Computation,
        outer: Scope | None = None,
        captures: Captures | None = None,
    ) -> None:
        self.conversion = conversion
        self.computation = computation
        self.values: dict[Any, Instruction] = {}
        self.outer = outer
        self.captures = captures
        self.state: Instruction | None = None
        self._captured: dict[Instruction, Instruction] = {}

    def lookup(self, value: Any) -> Instruction:
        """Return the instruction of an MLIR value, captured if it is an enclosing block's."""
        scope, inner = self, list[Scope]()
        while value not in scope.values:
            inner.append(scope)
            if scope.outer is None:
                raise InternalError(f"the MLIR value {value} is defined in no enclosing block")
            scope = scope.outer
        found = scope.values[value]
        while inner:
            scope = inner.pop()
            found = scope.values[value] = scope.bring_in(found)
        return found

    def bring_in(self, value: Instruction) -> Instruction:
        """Return an instruction of the outer scope as one of this scope."""
        known = self._captured
        waiting = [value]
        while waiting:
            item = waiting[-1]
            operands = item.operands if self._is_copied(item) else ()
            missing = [operand for operand in operands if operand not in known]
            if missing and item not in known:
                waiting.extend(reversed(missing))
                continue
            if item not in known:
                known[item] = self._captured_value(item)
            waiting.pop()
        return known[value]

    def _is_copied(self, value: Instruction) -> bool:
        """Whether a value of the outer scope is computed again, not captured."""
        if value.opcode in _COPIED:
            return True
        if value.opcode == "broadcast" and value.operands[0].opcode in _COPIED:
            return True
        # So that the region's own shapes may depend on it.
        return self.conversion.is_dynamic and self.conversion.sizes_of(value) is not None

    def _captured_value(self, value: Instruction) -> Instruction:
        """Copy a value whose operands are captured, or capture it."""
        if self._is_copied(value):
            return self.computation.copy_of(value, [self._captured[o] for o in value.operands])
        if self.captures is None or self.state is None:
            raise UnsupportedError(
                f"a region of {self.computation.name} uses %{value.name} of the block around it",
                code="INGOT0352",
                op_name=value.metadata.op_name,
                location=value.metadata.location,
                hint="only regions of while, if and case may use outer values",
            )
        return self.element(self.state, self.captures.index(value), value.shape)

    def element(self, operand: Instruction, index: int, shape: Shape) -> Instruction:
        """Add element `index` of a tuple, whose own shape may not be complete yet."""
        definition = find("get-tuple-element")
        return self.insert(definition, (operand,), shape, definition.attributes(index))

    def insert(
        self,
        definition: OpDef,
        operands: Sequence[Instruction],
        shape: Shape,
        attributes: Any = NO_ATTRIBUTES,
    ) -> Instruction:
        """Add an instruction whose shape MLIR has already verified."""
        computation = self.computation
        name = self.conversion.unique_name(definition.name)
        made = Instruction(name, definition, tuple(operands), shape, attributes)
        return computation.insert(made)

    def packed(self, results: list[Instruction]) -> Instruction:
        """Return the one result, or a tuple of them."""
        if len(results) == 1:
            return results[0]
        shape = Shape.tuple(tuple(result.shape for result in results))
        return self.insert(find("tuple"), results, shape)


class Conversion(ModuleState):
    """The conversion of a module, as converters see it: they ask it for functions and regions."""

    @abstractmethod
    def function(self, name: str) -> Computation:
        """Return the computation of the function `name`, made when it is not there yet."""

    @abstractmethod
    def convert_function(self, op: Any, name: str) -> Computation:
        """Convert a function: parameters, body, result (a tuple unless there is exactly one)."""

    @abstractmethod
    def inline(self, scope: Scope, name: str, operands: list[Instruction]) -> list[Instruction]:
        """Inline the body of the function `name` at a call; return its results."""

    @abstractmethod
    def convert_block(self, scope: Scope, block: Any) -> list[Instruction]:
        """Convert every op of a block; the operands of its terminator.

        Raises:
            UnsupportedError: INGOT0109, regions nest too deeply.
        """

    @abstractmethod
    def reducer(self, site: Site, region: Any) -> Computation:
        """Return the computation of a region whose arguments are its parameters."""

    @abstractmethod
    def state_region(
        self,
        site: Site,
        region: Any,
        captures: Captures,
        name: str,
        outer: Mapping[int, Instruction] | None = None,
    ) -> tuple[Scope, list[Instruction]]:
        """Convert a region of control flow, whose one parameter is the tuple of its state.

        The tuple holds the block's arguments, then the captured values; its shape, and the root,
        are set by the caller when every region of the op is converted. Arguments in `outer` are
        the same value of the enclosing scope each time.
        """


class Site:
    """One MLIR op in a scope.

    Attributes:
        scope: the block.
        op: the MLIR operation.
        name: its name, such as `stablehlo.add`.
        operands: its operands.
    """

    __slots__ = ("_declared", "name", "op", "operands", "scope")

    def __init__(self, scope: Scope, op: Any, name: str, operands: list[Instruction]) -> None:
        self.scope = scope
        self.op = op
        self.name = name
        self.operands = operands
        self._declared: tuple[Shape | None, ...] | None = None

    @property
    def attributes(self) -> Any:
        """MLIR's attributes by name."""
        return self.op.attributes

    @property
    def conversion(self) -> Conversion:
        """The whole module's conversion."""
        return self.scope.conversion

    @property
    def builder(self) -> Builder:
        """A builder of this scope, for ops that become several instructions."""
        metadata = self.conversion.locations.metadata(self.op.location)
        return Builder(self.scope.computation, metadata)

    # ---- shapes

    @property
    def declared(self) -> tuple[Shape | None, ...]:
        """The shapes of the results by MLIR's types; None where they leave a size open."""
        found = self._declared
        if found is None:
            shape = self.conversion.types.shape
            found = self._declared = tuple([shape(result.type) for result in self.op.results])
        return found

    def declare(self, shapes: tuple[Shape | None, ...]) -> None:
        """Set shapes of results that differ from MLIR's types."""
        self._declared = shapes

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the results, which MLIR's types must have."""
        return tuple(self.known(shape) for shape in self.declared)

    @property
    def shape(self) -> Shape:
        """The shape of the first result, which MLIR's type must have."""
        return self.known(self.declared[0])

    def known(self, shape: Shape | None) -> Shape:
        """Return a shape that must be known."""
        if shape is None:
            raise self.unsupported("its result has sizes that nothing says ('?')")
        return shape

    def result_shape(self) -> Shape | None:
        """Return the shape of an HLO instruction that gives all results; None: to be inferred."""
        declared = self.declared
        if len(declared) == 1:
            return declared[0]
        known = tuple(shape for shape in declared if shape is not None)
        return Shape.tuple(known) if len(known) == len(declared) else None

    def _inferred(
        self, definition: OpDef, operands: Sequence[Instruction], attributes: Any
    ) -> Shape:
        """Return the shape of an instruction whose MLIR type leaves sizes open."""
        shapes = tuple(operand.shape for operand in operands)
        equate_operands(definition, attributes, shapes)
        if definition.has(Trait.ELEMENTWISE) and definition.has(Trait.NEEDS_SHAPE):
            element = self.conversion.types.element(self.op.result.type)
            return shapes[0].with_dtype(element)
        try:
            return definition.infer(OpView(definition.name, shapes, attributes))
        except VerifyError as error:
            raise self.unsupported(error.diagnostic.message) from error

    def _refine(
        self, definition: OpDef, operands: Sequence[Instruction], attributes: Any, shape: Shape
    ) -> None:
        """Set open sizes of operands by the MLIR type of the result."""
        shapes = tuple(operand.shape for operand in operands)
        if all(operand.is_static for operand in shapes):
            return
        equate_operands(definition, attributes, shapes)
        try:
            found = definition.infer(OpView(definition.name, shapes, attributes, shape))
        except VerifyError:
            return  # the verifier reports it, with the whole module
        if found.is_array and shape.is_array and not shape.bounded:
            for left, right in zip(found.dims, shape.dims, strict=False):
                equate(left, right)

    # ---- instructions

    def add(self, definition: OpDef, attributes: Any = NO_ATTRIBUTES) -> Instruction:
        """Add one instruction of the site's operands and result shape."""
        return self.emit(definition, self.operands, attributes, self.declared[0])

    def emit(
        self,
        definition: OpDef,
        operands: Sequence[Instruction],
        attributes: Any,
        shape: Shape | None,
    ) -> Instruction:
        """Add one instruction with the site's metadata; a shape of None is inferred."""
        if shape is None:
            shape = self._inferred(definition, operands, attributes)
        elif self.conversion.is_dynamic:
            self._refine(definition, operands, attributes, shape)
        made = self.scope.insert(definition, operands, shape, attributes)
        made.metadata = self.conversion.locations.metadata(self.op.location)
        return made

    def tuple_of(self, operands: Sequence[Instruction]) -> Instruction:
        """Add a tuple."""
        shape = Shape.tuple(tuple(operand.shape for operand in operands))
        return self.scope.insert(find("tuple"), operands, shape)

    def elements(self, made: Instruction) -> Results:
        """Return the op's results: `made`, or its elements when the op has several (or none)."""
        if not made.shape.is_tuple:
            return made
        if len(self.op.results) == 1 and self.shape.is_tuple:
            return made
        element = self.scope.element
        return [element(made, n, part) for n, part in enumerate(made.shape.elements)]

    # ---- errors

    def unsupported(self, why: str, hint: str = "") -> UnsupportedError:
        """Return an error that names the op and the user's location."""
        metadata = self.conversion.locations.metadata(self.op.location)
        return UnsupportedError(
            f"{self.name}: {why}",
            code="INGOT0352",
            op_name=metadata.op_name,
            location=metadata.location,
            hint=hint,
        )
