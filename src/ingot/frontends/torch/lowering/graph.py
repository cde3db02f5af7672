# SPDX-License-Identifier: Apache-2.0
"""A piece of an ATen graph as an HLO module: parameters, the walk over its nodes, results.

Parameters and results of the module are the arrays in memory (`layout`); named sizes come from the
dimensions of parameters, and a size that no parameter has as a dimension gets one without data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ingot.frontends.torch.fx.constants import NO_CONSTANTS, Constants
from ingot.frontends.torch.fx.layout import MemoryLayout, layout_of
from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import Node
from ingot.frontends.torch.fx.piece import Piece
from ingot.frontends.torch.fx.sizes import is_float_symbol
from ingot.frontends.torch.fx.types import element_of
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.symbols import (
    read_in_bodies,
    sizes_in,
    sizes_of_result,
    with_bodies,
)
from ingot.frontends.torch.lowering.walk import Walk
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import F64, S64
from ingot.hlo.instruction import NO_METADATA, Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import record

Bounds = Mapping[str, tuple[int, int | None]]
"""Named size -> its least and its largest value; None: no bound."""


@record
class Lowered:
    """A module, and the mapping between tensors and its parameters and results.

    Attributes:
        module: parameters for the inputs of the piece, then for `numbers` and `sizes`; a tuple of
            results.
        nodes: the inputs that are parameters.
        inputs: the layout of each of them.
        numbers: symbols that are not sizes of arrays, each passed as a number; may be negative.
        sizes: named sizes that have a parameter of their own.
        outputs: the layout of each output.
    """

    module: Module
    nodes: tuple[Node, ...]
    inputs: tuple[MemoryLayout, ...]
    numbers: tuple[str, ...]
    sizes: tuple[str, ...]
    outputs: tuple[MemoryLayout, ...]


def lower(
    piece: Piece,
    name: str,
    constants: Constants = NO_CONSTANTS,
    layouts: Callable[[Node], MemoryLayout] = layout_of,
    bounds: Bounds = MappingProxyType({}),
) -> Lowered:
    """Return a piece as a module.

    Args:
        piece: the piece.
        name: the module's name.
        constants: the inputs whose elements are known; they are not parameters.
        layouts: the layouts of inputs and outputs in memory.
        bounds: ranges of named sizes that the module checks, if its caller does not.

    Raises:
        RefusedError: a rule does not take the arguments of a node.
    """
    return _Lowering(piece, name, constants, layouts, bounds).run()


class _Lowering(Walk):
    def __init__(
        self,
        piece: Piece,
        name: str,
        constants: Constants,
        layouts: Callable[[Node], MemoryLayout],
        bounds: Bounds,
    ) -> None:
        self.layout_of = layouts
        self.bounds = bounds
        self.piece = piece
        self.name = name
        self.inputs = [node for node in piece.inputs if node not in constants]
        self.constants = {node: constants[node] for node in piece.inputs if node in constants}
        super().__init__(GraphBuilder("main"))
        self._sources: dict[str, str] = {}

    def run(self) -> Lowered:
        inputs = tuple(map(self.layout_of, self.inputs))
        for number, (node, layout) in enumerate(zip(self.inputs, inputs, strict=True)):
            shape = Shape.array(element_of(node.meta["val"].dtype), layout.array_dims)
            array = self.b.parameter(number, shape, node.name)
            self._learn_sizes(array)
            self.values[node] = layout.tensor_of(self.b, array)
        numbers, lacking = self._size_parameters()
        self._check_bounds()
        for node, array in self.constants.items():
            self.values[node] = self.b.constant(array, element_of(node.meta["val"].dtype))
        for node in self.piece.nodes:
            self.b.metadata = metadata_of(node)
            self.values[node] = self._value(node)
        self.b.metadata = NO_METADATA
        outputs = tuple(self._output_layout(node) for node in self.piece.outputs)
        results = [
            layout.array_of(self.b, self.values[node])
            for node, layout in zip(self.piece.outputs, outputs, strict=True)
        ]
        module = Module.of(self.name, self.b.build(self.b.tuple(*results)))
        module.aliases = self._aliases()
        return Lowered(module, tuple(self.inputs), inputs, numbers, lacking, outputs)

    # ---- sizes

    def _learn_sizes(self, array: Instruction) -> None:
        for axis, size in enumerate(array.shape.dims):
            if isinstance(size, Dim) and size.is_symbol and str(size) not in self.b.sizes:
                self._sources[str(size)] = f"dimension {axis} of '{array.name}'"
                found = self.b.emit("get-dimension-size", array, dimensions=(axis,))
                self.b.sizes[str(size)] = self.b.convert_to(found, S64)

    def _size_parameters(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Add a parameter for each symbol that no input has as a dimension.

        Returns:
            The symbols that are only numbers, whose parameters are numbers; and those that occur in
            sizes, whose parameters have the size but no data.
        """
        nodes, inputs = list(with_bodies(self.piece.nodes)), self.inputs
        used = symbols_of(size for node in nodes for size in sizes_in(node))
        given = symbols_of(size for node in inputs for size in self.layout_of(node).array_dims)
        of_arrays = given | symbols_of(size for node in nodes for size in sizes_of_result(node))
        lacking = (used | given) - self.b.sizes.keys() - read_in_bodies(self.piece.nodes)
        numbers, sizes = tuple(sorted(lacking - of_arrays)), tuple(sorted(lacking & of_arrays))
        self.b.numbers.update(numbers)
        for number, name in enumerate((*numbers, *sizes), len(inputs)):
            if name in numbers:
                element = F64 if is_float_symbol(name) else S64
                self.b.sizes[name] = self.b.parameter(number, Shape.array(element, ()), name)
            else:
                shape = Shape.array("u8", (Dim.symbol(name),))
                self._learn_sizes(self.b.parameter(number, shape, name))
        return numbers, sizes

    def _check_bounds(self) -> None:
        """Add an assertion for each bound of a size that the module has."""
        for name, (low, high) in self.bounds.items():
            size = self.b.sizes.get(name)
            if size is None:
                continue
            what = self._sources.get(name, f"the number {name}")
            if low > 0:
                flag = self.b.compared("GE", size, low)
                emit_assertion(self.b, flag, f"{what} must be at least {low}")
            if high is not None:
                flag = self.b.compared("LE", size, high)
                emit_assertion(self.b, flag, f"{what} must be at most {high}")

    # ---- nodes

    def _value(self, node: Node) -> Any:
        if node not in self.piece.mutations:
            return self.value_of(node)
        to, value = (self.argument(item) for item in node.args[:2])
        return self.b.spread(self.b.convert_to(value, to.shape.dtype), to.shape.dims)

    # ---- results

    def _output_layout(self, node: Node) -> MemoryLayout:
        return self.layout_of(node.args[0] if node in self.piece.mutations else node)

    def _aliases(self) -> tuple[Alias, ...]:
        return tuple(
            Alias((number,), self.inputs.index(node.args[0]), survives_failure=True)
            for number, node in enumerate(self.piece.outputs)
            if node in self.piece.mutations
        )
