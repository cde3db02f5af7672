# SPDX-License-Identifier: Apache-2.0
"""The walk over the nodes of an ATen graph, which calls each node's rule with its arguments.

`lowering.graph` walks a piece of a graph; rules of higher-order ops walk their bodies, in the
builder of a computation (`Walk.inlined`).

Invariant: a rule whose result has other sizes than PyTorch computed is an internal error, never a
wrong result.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from ingot.frontends.torch.fx.constants import MOST_ELEMENTS, array_of
from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import (
    Node,
    attribute_of,
    bindings_of,
    is_graph,
    is_size,
    parts,
)
from ingot.frontends.torch.fx.sizes import guard_equal, size_of, sizes_of
from ingot.frontends.torch.fx.types import element_of
from ingot.frontends.torch.lowering import rules
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.guards import guarded
from ingot.frontends.torch.lowering.context.numbers import run_time_number
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.symbols import is_read
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F64, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import InternalError, UnsupportedError, VerifyError


class RefusedError(Exception):
    """A rule does not support the arguments of a node, which is left to PyTorch.

    Attributes:
        node: the node.
        why: the reason, for people.
    """

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node
        self.why = why


class SizesChangedError(Exception):
    """By a new guard a symbolic size is a number or another size, also in what is lowered."""


class Walk:
    """The values of nodes in one computation."""

    def __init__(self, b: GraphBuilder) -> None:
        """Emit into `b`."""
        self.b = b
        self.values: dict[Any, Any] = {}

    def value_of(self, node: Node) -> Any:
        """Return what a node computes: an instruction, or a tuple of several.

        Raises:
            RefusedError: its rule does not support the arguments.
        """
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        op = Op(node, self.b)
        op.inlined = self.inlined
        positional: list[Any] = []
        try:
            positional, named = self.arguments(node)
            made = rules.find(node.target)(op, *positional, **named)
        except UnsupportedError as error:
            raise RefusedError(node, error.diagnostic.message) from error
        except RefusedError as error:  # of a node of its body
            raise RefusedError(node, error.why) from error
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
        made = self._guarded(node, made)
        _check(node, made)
        return made

    def _guarded(self, node: Node, made: Any) -> Any:
        """Return results with the sizes that PyTorch knows, or whose equality it guards."""
        want = node.meta.get("val")
        if not isinstance(made, Instruction) or not isinstance(want, torch.Tensor):
            return made
        if len(want.shape) != made.shape.rank:
            return made
        made = guarded(self.b, made, sizes_of(want.shape))
        for axis, size in enumerate(sizes_of(want.shape)):
            have = made.shape.dims[axis]
            if have != size and isinstance(size, Dim) and guard_equal(have, want.shape[axis]):
                if size_of(want.shape[axis]) != size:
                    raise SizesChangedError
                made = self.b.sliced(made, axis, 0, size)
        return made

    @staticmethod
    def inlined(b: GraphBuilder, body: Any, arguments: Sequence[Any]) -> list[Any]:
        """Emit the graph of a graph module into `b`; return its results.

        Args:
            b: the builder.
            body: a `GraphModule`.
            arguments: instructions and sizes, for its placeholders.
        """
        walk, given = Walk(b), iter(arguments)
        results: list[Any] = []
        for node in body.graph.nodes:
            if node.op == "placeholder":
                walk.values[node] = next(given)
                _check_operand(node, walk.values[node])
            elif node.op == "output":
                results = [walk.argument(item) for item in parts(node.args[0])]
            elif node.op == "get_attr" and not is_graph(node):
                walk.values[node] = _held(b, node)
            elif node.op == "call_function" and not is_size(node):
                b.metadata = metadata_of(node)
                if is_read(node):
                    walk.read_number(node)
                else:
                    walk.values[node] = walk.value_of(node)
        return results

    def read_number(self, node: Node) -> None:
        """Bind the name of a number to the element that `item()` reads."""
        value = self.argument(node.args[0])
        element = S64 if isinstance(node.meta["val"], torch.SymInt) else F64
        number = self.b.convert_to(self.b.reshape_to(value, ()), element)
        self.b.sizes.update(dict.fromkeys(bindings_of(node), number))
        self.b.numbers.update(bindings_of(node))

    def arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a node by PyTorch's schema, with its defaults."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            return [self.argument(item) for item in node.args], {}
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
            value = self.argument(given)
            if argument.kwarg_only:
                named[argument.name] = value
            else:
                positional.append(value)
        return positional, named

    def argument(self, given: Any) -> Any:
        """Return the value of a node's argument; of a list, the values of its items."""
        made = [self._item(item) for item in parts(given)]
        return made if isinstance(given, tuple | list) else made[0]

    def _item(self, given: Any) -> Any:
        if not isinstance(given, torch.fx.Node):
            return size_of(given) if isinstance(given, torch.SymInt) else given
        if is_graph(given):
            return attribute_of(given)
        value = given.meta.get("val")
        if isinstance(value, torch.SymInt):
            return size_of(value)
        if isinstance(value, torch.SymFloat):
            return run_time_number(self.b, value)
        if isinstance(value, torch.SymBool):
            raise UnsupportedError(f"{value} is a truth value of sizes")
        return value if isinstance(value, int | float) else self.values[given]


_OF_THE_RESULT = frozenset(
    {"device", "dtype", "generator", "layout", "memory_format", "non_blocking", "pin_memory"}
)
"""Arguments of schemas about the result, which PyTorch has computed already."""


def _held(b: GraphBuilder, node: Node) -> Instruction:
    """Return a tensor that a body holds itself, as a constant.

    Raises:
        UnsupportedError: it is too large.
    """
    value: torch.Tensor = attribute_of(node)
    if value.numel() > MOST_ELEMENTS:
        raise UnsupportedError(f"its body holds a tensor of {value.numel()} elements")
    return b.constant(array_of(value), element_of(value.dtype))


def _check_operand(node: Node, value: Any) -> None:
    """Raise UnsupportedError for an operand with other sizes than its body was traced with."""
    want = node.meta.get("val")
    if isinstance(want, torch.Tensor) and value.shape.dims != sizes_of(want.shape):
        raise UnsupportedError(f"its body is of {sizes_of(want.shape)}, not {value.shape}")


def _check(node: Node, made: Any) -> None:
    """Compare the result of a rule with what PyTorch expects."""
    for value, want in zip(parts(made), parts(node.meta.get("val")), strict=True):
        if not isinstance(want, torch.Tensor) or value is None:
            continue
        shape = Shape.array(element_of(want.dtype), sizes_of(want.shape))
        if value.shape.dims != shape.dims or value.shape.dtype is not shape.dtype:
            raise InternalError(
                f"the rule of {node.target} gave {value.shape} where PyTorch has {shape}",
                op_type=str(node.target),
                op_name=node.name,
            )
