# SPDX-License-Identifier: Apache-2.0
"""Questions about nodes of PyTorch's graphs (`torch.fx`), whose values are fake tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from ingot.frontends.torch.fx.equal_sizes import replaced
from ingot.support.diagnostics import InternalError

Node = Any
"""An `fx.Node`; the package's types do not say what `meta` holds."""


def parts(value: object) -> list[Any]:
    """Return the items of a list or tuple; any other value is the only item."""
    return list(cast("Iterable[Any]", value)) if isinstance(value, tuple | list) else [value]


def arguments(node: Node) -> list[Any]:
    """Return a node's arguments; lists, tuples and dictionaries are flattened."""
    return tree_leaves((node.args, node.kwargs))


def value_of(argument: Any) -> Any:
    """Return the value of an argument that may be a node."""
    return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument


def tensors_of(node: Node) -> list[torch.Tensor]:
    """Return the fake tensors that are a node's results."""
    return [value for value in parts(node.meta.get("val")) if isinstance(value, torch.Tensor)]


def is_tuple(node: Node) -> bool:
    """Whether a node has several results."""
    return isinstance(node.meta.get("val"), tuple | list)


def is_size(node: Node) -> bool:
    """Whether a node is a number or an expression of symbols, which needs no kernel."""
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return not bindings_of(node)
    return isinstance(value, int | float)


def is_number(node: Node) -> bool:
    """Whether a node reads a number from a tensor, which defines a symbol."""
    value = node.meta.get("val")
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) and not is_size(node)


def bindings_of(node: Node) -> dict[str, tuple[Any, ...]]:
    """Return the named sizes that a node's result defines, each with its path in the result.

    They are the data-dependent sizes: of `nonzero`, of `x[mask]`, `item()` as a size.
    """
    return {str(symbol): path for symbol, path in _bound(node).items()}


def known_values(node: Node) -> dict[str, Any]:
    """Return what replaces the named sizes that a node's result defines, as SymPy expressions.

    They follow from PyTorch's checks: the replacement of a number that must be 4 is 4. Names
    without one are left out.
    """
    environment = _shape_environment(node)
    found = {symbol: replaced(environment.replace(symbol), environment) for symbol in _bound(node)}
    return {str(symbol): item for symbol, item in found.items() if item != symbol}


def _bound(node: Node) -> dict[Any, tuple[Any, ...]]:
    """Return the symbols that a node's result defines, by the names that occur in sizes."""
    bound: dict[Any, Any] = node.meta.get("unbacked_bindings") or _read_symbol(node)
    if not bound:
        return {}
    renamings = _shape_environment(node).unbacked_renamings
    return {renamings.get(symbol, symbol): path for symbol, path in bound.items()}


def _read_symbol(node: Node) -> dict[Any, tuple[Any, ...]]:
    """Return the symbol of a number that is read from a tensor.

    The graphs that higher-order ops call when they are differentiated do not note it.
    """
    value = node.meta.get("val")
    is_read = node.target is torch.ops.aten._local_scalar_dense.default
    if not is_read or not isinstance(value, torch.SymInt | torch.SymFloat):
        return {}
    expression = cast("Any", value).node.expr
    return {expression: ()} if expression.is_Symbol else {}


def _shape_environment(node: Node) -> Any:
    """Return the table of PyTorch that knows the symbols in the sizes of a node's results."""
    for value in tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return cast("Any", value).node.shape_env
        if isinstance(value, FakeTensor):
            return value.fake_mode.shape_env
    return None


def data_symbols(node: Node) -> set[str]:
    """Return the data-dependent named sizes in a node's arguments and results."""
    leaves = tree_leaves(node.meta.get("val"))
    for item in arguments(node):
        leaves.append(item.meta.get("val") if isinstance(item, torch.fx.Node) else item)
    sizes: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            sizes.extend(size for size in leaf.shape if isinstance(size, torch.SymInt))
        elif isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
            sizes.append(leaf)
    return {str(symbol) for symbol in free_unbacked_symbols(sizes)} if sizes else set()


def symbols_of_value(node: Node) -> set[str]:
    """Return the data-dependent symbols in the value of a node."""
    leaves = [leaf for leaf in tree_leaves(node.meta.get("val")) if _is_sized(leaf)]
    return {str(symbol) for symbol in free_unbacked_symbols(leaves)} if leaves else set()


def _is_sized(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def tensor_inputs(node: Node) -> list[Node]:
    """Return the nodes among a node's arguments, except numbers and graphs."""
    return [
        item
        for item in node.all_input_nodes
        if not (is_size(item) or is_number(item) or is_graph(item))
    ]


def is_graph(node: Node) -> bool:
    """Whether a node is a `get_attr` of a graph module, the body of a higher-order op."""
    return node.op == "get_attr" and isinstance(attribute_of(node), torch.fx.GraphModule)


def attribute_of(node: Node) -> Any:
    """Return the attribute of the graph module that a `get_attr` node names."""
    owner = node.graph.owning_module
    if owner is None:
        raise InternalError(f"nothing owns the graph in which '{node.name}' gets {node.target}")
    return operator.attrgetter(node.target)(owner)


WITHOUT_EFFECTS = frozenset({"aten", "prims", "transformers"})
"""Namespaces whose ops do what their schemas say, and no more."""

_DRAWS_NOTHING = frozenset({"aten._scaled_dot_product_flash_attention_for_cpu.default"})
"""Ops that PyTorch marks as random although their kernel only supports a dropout of 0."""


def is_random(target: Any) -> bool:
    """Whether an op draws from a generator."""
    is_seeded = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
    return is_seeded and str(target) not in _DRAWS_NOTHING


_KEEPS_EFFECTS = frozenset({"run_and_save_rng_state", "run_with_rng_state", "with_effects"})
"""Higher-order ops by which PyTorch calls an op with effects: a draw again, a check in order."""


_CHECKS = frozenset({"aten._assert_async.default", "aten._assert_async.msg"})


def is_check(node: Node) -> bool:
    """Whether a node asserts something of a tensor, which programs do themselves."""
    return str(node.target) in _CHECKS


def is_impure(node: Node) -> bool:
    """Whether a node draws random numbers, or has effects that no program has."""
    target: Any = node.target
    if is_check(node):
        return False
    if isinstance(target, HigherOrderOperator) and target.name() in _KEEPS_EFFECTS:
        return True
    return is_random(target) or node.is_impure(impure_random=False)


def has_effects(node: Node) -> bool:
    """Whether a node must keep its order among the nodes with effects.

    It draws random numbers, checks something, or is of a library or a program of its own.
    """
    return has_effects_of_its_own(node) or isinstance(node.target, HigherOrderOperator)


def has_effects_of_its_own(node: Node) -> bool:
    """Whether a node's op, not what it calls, has effects; ops of libraries may."""
    target: Any = node.target
    if not isinstance(target, OpOverload):
        return False
    return target.namespace not in WITHOUT_EFFECTS or is_impure(node)


def is_view(node: Node) -> bool:
    """Whether PyTorch's op returns a view of its first argument."""
    if node.target is operator.getitem:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(result.alias_info for result in schema.returns)
