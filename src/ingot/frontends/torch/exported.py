# SPDX-License-Identifier: Apache-2.0
"""Programs of `torch.export` as modules: `module_of(exported)`.

Parameters and buffers become constants, so the module has the arguments of the user's call: the
tensors among them, flattened, row-major. Sizes that were exported as dynamic are symbolic, and the
module checks the range that they were exported for.

Invariant: the whole graph is compiled, since there is no PyTorch to run a node. The module has only
the user's parameters.

Example:
    >>> linear = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),))
    >>> [str(parameter.shape) for parameter in module_of(linear).entry.parameters]
    ['f32[4,2]{1,0}']
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy import numbers as _numbers

from ingot.frontends.torch.decompositions.decompose import (
    composites_collected_anew,
    decompositions_for_export,
    resampling_by_sizes,
    resampling_kept_whole,
)
from ingot.frontends.torch.decompositions.recurrent import recurrent_layers_as_loops
from ingot.frontends.torch.fx.constants import Constants, array_of
from ingot.frontends.torch.fx.layout import MemoryLayout
from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import Node, has_effects, is_impure, is_size, tensors_of
from ingot.frontends.torch.fx.piece import Piece
from ingot.frontends.torch.fx.sizes import sizes_of
from ingot.frontends.torch.lowering.graph import Bounds, Lowered, lower
from ingot.frontends.torch.lowering.walk import RefusedError
from ingot.frontends.torch.partitioning.placement import placement_of
from ingot.frontends.torch.passes.metadata_checks import drop_metadata_checks
from ingot.hlo.module import Module
from ingot.support.diagnostics import ResourceError, UnsupportedError

_INFINITY: Any = cast("Any", _numbers).int_oo
_UNCHECKED = 2
"""PyTorch traces dynamic sizes as 2 or more, and checks only lower bounds above that."""


def load_exported(path: str) -> Module:
    """Return the program in a file of `torch.export.save`, whose name ends in `.pt2`, as a module.

    Raises:
        ResourceError: INGOT0411, the file cannot be read, or is not such a file.
        UnsupportedError: the program cannot be compiled as a whole: see `module_of`.
    """
    try:
        # A file object, since PyTorch raises many kinds of errors for a missing path.
        with Path(path).open("rb") as file:
            exported = torch.export.load(file)
    except OSError as error:
        raise ResourceError(f"{path} cannot be read: {error.strerror}", code="INGOT0411") from error
    except Exception as error:
        raise ResourceError(
            f"{path} cannot be read: {error}",
            code="INGOT0411",
            hint="give a file that torch.export.save wrote with this version of PyTorch",
        ) from error
    return module_of(exported)


def module_of(exported: torch.export.ExportedProgram) -> Module:
    """Return an exported program as a module.

    Args:
        exported: the result of `torch.export.export`.

    Returns:
        A module whose parameters are the user's tensors in their order, then numbers that were
        exported as dynamic (`s64[]`); its result is the tuple of the user's tensors. Sizes outside
        of the range of their `Dim` end its execution with an error.

    Raises:
        UnsupportedError: INGOT0372, an op has no rule, draws random numbers, or works on the host;
            INGOT0374, the program changes its buffers or arguments, has a size as a result, or has
            sizes that do not follow from those of its arguments.
    """
    with resampling_kept_whole(), recurrent_layers_as_loops(), composites_collected_anew():
        table = {**decompositions_for_export(), **resampling_by_sizes()}
        program: Any = cast("Any", exported).run_decompositions(table)
    graph = program.graph
    _require_pure(program)
    drop_metadata_checks(graph)
    placement = placement_of(graph, {}, reports=False)
    for node, why in placement.host.items():
        raise _refusal(node, why or _why_always_on_host(node))
    results = [node for node in _results(graph) if isinstance(node, torch.fx.Node)]
    _require_tensors(results)
    constants = _constants(program)
    arguments = [node for node in graph.nodes if node.op == "placeholder" and tensors_of(node)]
    nodes = [node for node in graph.nodes if node.op == "call_function" and not is_size(node)]
    piece = Piece(tuple(nodes), tuple(arguments), tuple(results), frozenset())
    with _no_new_guards(graph):
        try:
            lowered = lower(piece, "exported", constants, _row_major, _bounds(program))
        except RefusedError as error:
            raise _refusal(error.node, error.why) from error
    _require_known_sizes(graph, lowered)
    return lowered.module


def _require_pure(program: Any) -> None:
    """Raise for an output that is not a result of the user's: a changed buffer, an effect."""
    for output in program.graph_signature.output_specs:
        if output.kind is OutputKind.TOKEN:
            effect = next(node for node in program.graph.nodes if _has_token(node))
            raise _refusal(effect, "it has effects")
        if output.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            raise UnsupportedError(
                f"the exported program changes '{output.target or output.arg.name}'",
                code="INGOT0374",
                hint="export the model in evaluation mode (model.eval())",
            )


def _has_token(node: Node) -> bool:
    return node.op == "call_function" and node.target is torch.ops.higher_order.with_effects


def _require_tensors(results: Sequence[Node]) -> None:
    """Raise for a result that is an expression of sizes."""
    for node in results:
        if is_size(node):
            raise UnsupportedError(
                f"the exported program has the size {node.meta['val']} as a result",
                code="INGOT0374",
                hint="return tensors only; the caller knows the sizes of what it passes and gets",
            )


@contextmanager
def _no_new_guards(graph: Any) -> Generator[None]:
    """Raise for an equality of sizes that nothing would check: guards end with the export."""
    sizes = [size for node in graph.nodes for val in tensors_of(node) for size in val.shape]
    symbols: list[Any] = [size for size in sizes if isinstance(size, torch.SymInt)]
    environments: set[Any] = {symbol.node.shape_env for symbol in symbols}
    before = [(item, len(item.guards)) for item in environments]
    try:
        yield
    finally:
        for environment, count in before:
            if len(environment.guards) > count:
                raise UnsupportedError(
                    f"the exported program needs {environment.guards[count].expr}",
                    code="INGOT0374",
                    hint="export with sizes that say it, or with a torch._check",
                )


def _require_known_sizes(graph: Any, lowered: Lowered) -> None:
    """Raise for a named size that is neither a dimension of an argument nor an argument itself."""
    placeholders = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    given = {str(value) for value in placeholders if isinstance(value, torch.SymInt)}
    lacking = [*lowered.sizes, *(name for name in lowered.numbers if name not in given)]
    if lacking:
        raise UnsupportedError(
            f"the exported program has the size {lacking[0]}, a dimension of no argument",
            code="INGOT0374",
            hint="export with a Dim of its own for a dimension, not with an expression like 2*Dim",
        )


def _why_always_on_host(node: Node) -> str:
    """Return why PyTorch always runs a node itself."""
    if is_impure(node) or has_effects(node):
        return "it draws random numbers or has effects"
    return "it needs the value of a tensor while the program runs"


def _bounds(program: Any) -> Bounds:
    """Return the ranges of named sizes that PyTorch checks when it runs the program."""
    return {
        str(symbol): (
            int(found.lower) if found.lower > _UNCHECKED else 0,
            None if found.upper == _INFINITY else int(found.upper),
        )
        for symbol, found in program.range_constraints.items()
        if symbol.is_Symbol
    }


def _results(graph: Any) -> list[Any]:
    return list(next(node for node in graph.nodes if node.op == "output").args[0])


def _constants(program: Any) -> Constants:
    """Return parameters, buffers and lifted tensors by their nodes."""
    tensors = {**program.state_dict, **program.constants}
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    by_name = {
        item.arg.name: tensors[item.target]
        for item in program.graph_signature.input_specs
        if item.kind in kinds
    }
    return {
        node: array_of(by_name[node.name])
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in by_name
    }


def _row_major(node: Node) -> MemoryLayout:
    sizes = sizes_of(node.meta["val"].shape)
    return MemoryLayout(sizes, (), tuple(range(len(sizes))))


def _refusal(node: Node, why: str) -> UnsupportedError:
    target = node.args[1] if _has_token(node) else node.target
    return UnsupportedError(
        f"{target} cannot be part of a module: {why}",
        code="INGOT0372",
        op_type=str(target),
        op_name=node.name,
        location=metadata_of(node).location,
        hint="export the model in evaluation mode (model.eval())" if is_impure(node) else "",
    )
