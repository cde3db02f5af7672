# SPDX-License-Identifier: Apache-2.0
"""A piece of an ATen graph as an HLO module: the walk over its nodes.

Parameters and results of the module are the arrays in memory (`layout`); named sizes come from the
dimensions of parameters, and a size that no parameter has as a dimension gets one without data.

Invariant: a rule that gives a result of other sizes than PyTorch computed is an internal error,
never a wrong result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.constants import NO_CONSTANTS, Constants
from ingot.frontends.torch.layout import MemoryLayout, layout_of
from ingot.frontends.torch.locations import metadata_of
from ingot.frontends.torch.lowering import rules
from ingot.frontends.torch.lowering.numbers import run_time_number, symbols_in
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.nodes import Node, arguments, parts, tensors_of
from ingot.frontends.torch.piece import Piece
from ingot.frontends.torch.sizes import Size, Sizes, is_float_symbol, size_of, sizes_of
from ingot.frontends.torch.types import element_of
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import F64, S64
from ingot.hlo.instruction import NO_METADATA, Instruction
from ingot.hlo.module import Alias, Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError, UnsupportedError, VerifyError


class RefusedError(Exception):
    """A rule does not take the arguments of a node, which is left to PyTorch.

    Attributes:
        node: the node.
        why: the reason, for people.
    """

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module, and how tensors become its parameters and its results tensors.

    Attributes:
        module: parameters for the inputs of the piece, then for `numbers` and `sizes`; a tuple of
            results.
        nodes: the inputs that are parameters.
        inputs: the layout of each of them.
        numbers: symbols that are no size of an array, with a number each; they may be negative.
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
) -> Lowered:
    """Return a piece as a module.

    Args:
        piece: what is lowered.
        name: of the module.
        constants: the inputs whose elements are known; they are no parameters.
        layouts: how the tensors of inputs and outputs lie in memory.

    Raises:
        RefusedError: a rule does not take the arguments of a node.
    """
    return _Lowering(piece, name, constants, layouts).run()


class _Lowering:
    def __init__(
        self,
        piece: Piece,
        name: str,
        constants: Constants,
        layouts: Callable[[Node], MemoryLayout],
    ) -> None:
        self.layout_of = layouts
        self.piece = piece
        self.name = name
        self.inputs = [node for node in piece.inputs if node not in constants]
        self.constants = {node: constants[node] for node in piece.inputs if node in constants}
        self.values: dict[Any, Any] = {}
        self.b = ArrayBuilder("main", self._symbol, {})
        self._sizes: dict[str, Instruction] = {}

    def run(self) -> Lowered:
        inputs = tuple(map(self.layout_of, self.inputs))
        for number, (node, layout) in enumerate(zip(self.inputs, inputs, strict=True)):
            shape = Shape.array(element_of(node.meta["val"].dtype), layout.array_dims)
            array = self.b.parameter(number, shape, node.name)
            self._learn_sizes(array)
            self.values[node] = layout.tensor_of(self.b, array)
        numbers, lacking = self._size_parameters()
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

    def _symbol(self, name: str) -> Instruction:
        if name not in self._sizes:
            raise UnsupportedError(f"the size {name} is not known", code="INGOT0371")
        return self._sizes[name]

    def _learn_sizes(self, array: Instruction) -> None:
        for axis, size in enumerate(array.shape.dims):
            if isinstance(size, Dim) and size.is_symbol and str(size) not in self._sizes:
                found = self.b.emit("get-dimension-size", array, dimensions=(axis,))
                self._sizes[str(size)] = self.b.convert_to(found, S64)

    def _size_parameters(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Add a parameter for each symbol that no input has as a dimension.

        Returns:
            The symbols that are only numbers, whose parameters are numbers; and those that sizes
            are made of, whose parameters have the size and no data.
        """
        nodes, inputs = self.piece.nodes, self.inputs
        used = symbols_of(size for node in nodes for size in _sizes_in(node))
        given = symbols_of(size for node in inputs for size in self.layout_of(node).array_dims)
        of_arrays = given | symbols_of(size for node in nodes for size in _sizes_of_result(node))
        lacking = (used | given) - self._sizes.keys()
        numbers, sizes = tuple(sorted(lacking - of_arrays)), tuple(sorted(lacking & of_arrays))
        for number, name in enumerate((*numbers, *sizes), len(inputs)):
            if name in numbers:
                element = F64 if is_float_symbol(name) else S64
                self._sizes[name] = self.b.parameter(number, Shape.array(element, ()), name)
            else:
                shape = Shape.array("u8", (Dim.symbol(name),))
                self._learn_sizes(self.b.parameter(number, shape, name))
        return numbers, sizes

    # ---- nodes

    def _value(self, node: Node) -> Any:
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        if node in self.piece.mutations:
            to, value = (self._argument(item) for item in node.args[:2])
            return self.b.spread(self.b.convert_to(value, to.shape.dtype), to.shape.dims)
        op = Op(node, self.b)
        positional: list[Any] = []
        try:
            positional, named = self._arguments(node)
            made = rules.find(node.target)(op, *positional, **named)
        except UnsupportedError as error:
            raise RefusedError(node, error.diagnostic.message) from error
        except VerifyError as error:
            shapes = ", ".join(
                str(item.shape) for item in positional if isinstance(item, Instruction)
            )
            raise InternalError(
                f"{node.target} of {shapes}: {error.diagnostic.message}",
                op_type=str(node.target),
                op_name=node.name,
                location=metadata_of(node).location,
            ) from error
        self._check(node, made)
        return made

    def _arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a node by PyTorch's schema, with its defaults."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return [self._argument(item) for item in node.args], {}
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for number, argument in enumerate(schema.arguments):
            if argument.name in _OF_THE_RESULT and argument.kwarg_only:
                continue
            given = (
                node.args[number]
                if number < len(node.args)
                else node.kwargs.get(argument.name, argument.default_value)
            )
            value = self._argument(given)
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                positional.append(value)
        return positional, named

    def _argument(self, given: Any) -> Any:
        made = [self._item(item) for item in parts(given)]
        return made if isinstance(given, tuple | list) else made[0]

    def _item(self, given: Any) -> Any:
        if isinstance(given, torch.fx.Node):
            value = given.meta.get("val")
            if isinstance(value, torch.SymInt):
                return size_of(value)
            if isinstance(value, torch.SymFloat):
                return run_time_number(self.b, value)
            if isinstance(value, torch.SymBool):
                raise UnsupportedError(f"{value} is a truth value of sizes")
            return value if isinstance(value, int | float) else self.values[given]
        return size_of(given) if isinstance(given, torch.SymInt) else given

    def _check(self, node: Node, made: Any) -> None:
        """Compare what a rule made with what PyTorch expects."""
        for value, want in zip(parts(made), parts(node.meta["val"]), strict=True):
            if not isinstance(want, torch.Tensor) or value is None:
                continue
            shape = Shape.array(element_of(want.dtype), sizes_of(want.shape))
            if value.shape.dims != shape.dims or value.shape.dtype is not shape.dtype:
                raise InternalError(
                    f"the rule of {node.target} gave {value.shape} where PyTorch has {shape}",
                    op_type=str(node.target),
                    op_name=node.name,
                )

    # ---- results

    def _output_layout(self, node: Node) -> MemoryLayout:
        return self.layout_of(node.args[0] if node in self.piece.mutations else node)

    def _aliases(self) -> tuple[Alias, ...]:
        return tuple(
            Alias((number,), self.inputs.index(node.args[0]), survives_failure=True)
            for number, node in enumerate(self.piece.outputs)
            if node in self.piece.mutations
        )


_OF_THE_RESULT = frozenset(
    {"device", "dtype", "generator", "layout", "memory_format", "non_blocking", "pin_memory"}
)
"""What a schema says of the result, which PyTorch has worked out already."""


def _sizes_of_result(node: Node) -> Sizes:
    """Return the sizes that a node's tensors have."""
    return sizes_of([size for tensor in tensors_of(node) for size in tensor.shape])


def _sizes_in(node: Node) -> Sizes:
    """Return the sizes that a node's values and arguments have."""
    named: list[Size] = []
    found: list[Any] = []
    for item in arguments(node):
        value = item.meta.get("val") if isinstance(item, torch.fx.Node) else item
        if isinstance(value, torch.SymInt):
            found.append(value)
        elif isinstance(value, torch.SymFloat):
            named.extend(map(Dim.symbol, symbols_in(value)))
    return (*_sizes_of_result(node), *sizes_of(found), *named)
