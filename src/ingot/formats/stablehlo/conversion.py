# SPDX-License-Identifier: Apache-2.0
"""The walk over an MLIR module: functions to computations, blocks to instructions.

Each function becomes one computation, made when the first call of it (or the entry) needs it. Each
op is converted by the row of its name in `table`. Values, types and locations are looked up once.

Invariant: the computations of the module are in callee-first order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, takewhile
from typing import Any

from ingot.formats.stablehlo.binding import mlir
from ingot.formats.stablehlo.promotion import PROMOTED, promoted
from ingot.formats.stablehlo.quantized import converted
from ingot.formats.stablehlo.scope import Captures, Conversion, Results, Scope, Site
from ingot.formats.stablehlo.shardy import annotate
from ingot.formats.stablehlo.sizes import Size
from ingot.formats.stablehlo.table import converters
from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import find
from ingot.hlo.shape import Shape
from ingot.support.deep_stack import deeper_stack
from ingot.support.diagnostics import ParseError, UnsupportedError

_RETURNS = frozenset(("func.return", "stablehlo.return", "sdy.return"))
# Attributes of any op that HLO keeps as text, by MLIR's name.
_KEPT = {"mhlo.sharding": "sharding", "mhlo.frontend_attributes": "frontend_attributes"}

MAX_NESTING = 10_000
"""Nested regions and called functions at most: their conversion recurses."""

_DEEP = 20
_FRAMES = 16
"""From this nesting on, Python's recursion limit grows, by this many frames per region."""


class Walk(Conversion):
    """The conversion of one module, op by op."""

    def __init__(
        self,
        mlir_module: Any,
        equal: Mapping[str, Size] | None = None,
        *,
        is_divided: bool = False,
    ) -> None:
        super().__init__(mlir_module, equal, is_divided=is_divided)
        self._table = converters()
        self._computations: dict[str, Computation] = {}
        self._open: set[str] = set()
        self._nesting = 0

    # ---- functions

    def function(self, name: str) -> Computation:
        """Return the computation of the function `name`, made when it is not there yet."""
        found = self._computations.get(name)
        if found is not None:
            return found
        op = self._opened(name)
        made = self._computations[name] = self.convert_function(op, name)
        self._open.remove(name)
        return made

    def _opened(self, name: str) -> Any:
        """Return the function `name` and note that it is being converted."""
        if name in self._open:
            raise ParseError(f"function @{name} calls itself", code="INGOT0112")
        if name not in self.functions:
            raise ParseError(f"function @{name} is not in the module", code="INGOT0104")
        self._open.add(name)
        return self.functions[name]

    def convert_function(self, op: Any, name: str) -> Computation:
        """Convert a function: parameters, body, result (a tuple unless there is exactly one)."""
        if not op.regions[0].blocks:
            raise UnsupportedError(f"function @{name} has no body", code="INGOT0352")
        block = op.regions[0].blocks[0]
        scope = Scope(self, self.new_computation(name))
        self.add_parameters(scope, block)
        for argument, parameter in zip(block.arguments, scope.computation.parameters, strict=True):
            parameter.metadata = self.locations.metadata(argument.location)
        results = self.convert_block(scope, block)
        return self.keep(scope.computation, scope.packed(results))

    def add_parameters(self, scope: Scope, block: Any) -> None:
        """Add one parameter per block argument; open sizes are symbols of their own."""
        definition = find("parameter")
        for number, argument in enumerate(block.arguments):
            shape = self._shape_of(number, argument.type)
            made = scope.insert(definition, (), shape, definition.attributes(number))
            scope.values[argument] = made

    def _shape_of(self, number: int, mlir_type: Any) -> Shape:
        """Return the shape of argument `number` of a block; one without a rank has that given."""
        if getattr(mlir_type, "has_rank", True) or not self.equal:
            known = self.types.shape(mlir_type)
            return known or self._symbolic(number, mlir_type, self.types.sizes(mlir_type))
        dimensions = takewhile(lambda dimension: f"d{number}_{dimension}" in self.equal, count())
        return self._symbolic(number, mlir_type, tuple(None for _ in dimensions))

    def _symbolic(self, number: int, mlir_type: Any, sizes: tuple[int | None, ...]) -> Shape:
        """Return the shape of argument `number` of the entry, whose type leaves sizes open."""
        self.is_dynamic = True
        dims: list[Size] = []
        for dimension, size in enumerate(sizes):
            found: Size = Dim.symbol(f"d{number}_{dimension}") if size is None else size
            while isinstance(found, Dim) and any(name in self.equal for name in found.symbols):
                found = dim.substitute(found, self.equal)
            dims.append(found)
        return Shape.array(self.types.element(mlir_type), tuple(dims))

    def inline(self, scope: Scope, name: str, operands: list[Instruction]) -> list[Instruction]:
        """Inline the body of the function `name` at a call; return its results."""
        block = self._opened(name).regions[0].blocks[0]
        inner = Scope(self, scope.computation)
        inner.values.update(zip(block.arguments, operands, strict=True))
        results = self.convert_block(inner, block)
        self._open.remove(name)
        return results

    # ---- blocks

    def convert_block(self, scope: Scope, block: Any) -> list[Instruction]:
        """Convert every op of a block; the operands of its terminator.

        Raises:
            UnsupportedError: INGOT0109, regions nest too deeply.
        """
        if self._nesting == _DEEP:
            with deeper_stack(MAX_NESTING * _FRAMES):
                return self._convert_block(scope, block)
        return self._convert_block(scope, block)

    def _convert_block(self, scope: Scope, block: Any) -> list[Instruction]:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise UnsupportedError(
                f"regions and calls are nested more than {MAX_NESTING} deep",
                code="INGOT0109",
                hint="write it as HLO text, which may nest as deep as memory allows",
            )
        table, values, lookup = self._table, scope.values, scope.lookup
        for view in block.operations:
            op = view.operation
            name: str = op.name
            operands = [values.get(value) or lookup(value) for value in op.operands]
            converter = table.get(name)
            if converter is None:
                if name in _RETURNS:
                    self._nesting -= 1
                    return operands
                raise self._unknown(Site(scope, op, name, operands))
            site = Site(scope, op, name, operands)
            if name in PROMOTED:
                site.operands = promoted(site)
            results = converted(site, converter) if self.may_be_quantized else converter(site)
            if len(op.attributes):
                _keep_attributes(op.attributes, results)
            if self.main_mesh is not None:
                annotate(site, results, self.main_mesh)
            if isinstance(results, Instruction):
                values[op.result] = results
            else:
                values.update(zip(op.results, results, strict=True))
        self._nesting -= 1
        return []

    def _unknown(self, site: Site) -> UnsupportedError:
        return site.unsupported(
            "Ingot has no conversion for this op", "see docs/formats.md for the ops that it reads"
        )

    # ---- regions

    def reducer(self, site: Site, region: Any) -> Computation:
        """Return the computation of a region whose arguments are its parameters."""
        block = region.blocks[0]
        key = _simple_key(block)
        if key is not None and key in self.reducers:
            return self.reducers[key]
        scope = Scope(self, self.new_computation("region"), site.scope)
        self.add_parameters(scope, block)
        results = self.convert_block(scope, block)
        made = self.keep(scope.computation, scope.packed(results))
        if key is not None:
            self.reducers[key] = made
        return made

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
        block = region.blocks[0]
        scope = Scope(self, self.new_computation(name), site.scope, captures)
        parameter = find("parameter")
        shapes = tuple(
            self.types.shape(argument.type) or operand.shape
            for argument, operand in zip(block.arguments, site.operands, strict=False)
        )
        scope.state = scope.insert(parameter, (), Shape.tuple(shapes), parameter.attributes(0))
        for number, (argument, shape) in enumerate(zip(block.arguments, shapes, strict=True)):
            if outer is not None and number in outer:
                scope.values[argument] = scope.bring_in(outer[number])
            else:
                scope.values[argument] = scope.element(scope.state, number, shape)
        return scope, self.convert_block(scope, block)


def _simple_key(block: Any) -> tuple[object, ...] | None:
    """Return a key of a region of one op on its own arguments, in order."""
    operations = list(block.operations)
    if len(operations) != 2:
        return None
    op, end = operations[0].operation, operations[1].operation
    plain = not len(op.attributes) and not len(op.regions) and len(op.results) == 1
    arguments = list(block.arguments)
    if not plain or list(op.operands) != arguments or list(end.operands) != [op.result]:
        return None
    return (op.name, tuple(argument.type for argument in arguments), op.result.type)


def _keep_attributes(attributes: Any, results: Results) -> None:
    """Keep the attributes that any op may have on its (first) result."""
    for name, text_name in _KEPT.items():
        if name in attributes:
            first = results if isinstance(results, Instruction) else results[0]
            if first.opcode == "get-tuple-element":
                first = first.operands[0]
            first.extra[text_name] = kept_text(attributes[name])


def kept_text(attribute: Any) -> str:
    """Return HLO's text of an attribute that is kept: a sharding, or a dictionary of strings.

    Raises:
        ParseError: INGOT0125, it is neither.
    """
    from ingot.formats.hlo_text.reader import escape, is_value

    if isinstance(attribute, mlir().ir.DictAttr):
        items = ((item.name, getattr(item.attr, "value", None)) for item in attribute)
        text = ",".join(f'{name}="{escape(str(value))}"' for name, value in items)
        text = f"{{{text}}}"
    else:
        text = str(getattr(attribute, "value", ""))
    if text and not is_value(text):
        raise ParseError(f"{attribute} is not a value of HLO text", code="INGOT0125")
    return text
