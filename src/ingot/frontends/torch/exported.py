# SPDX-License-Identifier: Apache-2.0
"""Programs of `torch.export` as modules: `module_of(exported)`.

Parameters and buffers become constants, so the module has the arguments of the user's call: the
tensors among them, flattened, row-major. Sizes that were exported as dynamic are symbolic, and the
module checks the range that they were exported for. A module has no state: buffers that the program
changes, as statistics of batch norms, are further parameters, and what it makes of them are further
results.

Invariant: the whole graph is compiled, since there is no PyTorch to run a node. The module has only
the user's parameters and those of buffers that change.

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

import numpy as np
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
from ingot.hlo.module import Alias, Module
from ingot.support.diagnostics import ResourceError, UnsupportedError
from ingot.support.records import record

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
        A module whose parameters are the user's tensors in their order, then the buffers that the
        program changes, then numbers that were exported as dynamic (`s64[]`). Its result is the
        tuple of the user's tensors, then of the new values of what the program changes, buffers and
        arguments, in the order of `exported.graph_signature`; each may take the memory of its
        parameter. Sizes outside of the range of their `Dim` end its execution with an error.

    Raises:
        UnsupportedError: INGOT0372, an op has no rule, draws random numbers, or works on the host;
            INGOT0374, the program gives gradients or a size as a result, or has sizes that do not
            follow from those of its arguments.
    """
    program = _functional(exported)
    graph = program.graph
    _require_values(program)
    drop_metadata_checks(graph)
    placement = placement_of(graph, {}, reports=False)
    for node, why in placement.host.items():
        raise _refusal(node, why or _why_always_on_host(node))
    changes = _changes(program)
    results = [node for node in _results(graph)[len(changes) :] if isinstance(node, torch.fx.Node)]
    _require_tensors(results)
    results += [change.value for change in changes]
    constants = _constants(program, [change.tensor for change in changes])
    arguments = [node for node in graph.nodes if node.op == "placeholder" and tensors_of(node)]
    state = [change.tensor for change in changes if change.is_state]
    arguments = [*(node for node in arguments if node not in state), *state]
    nodes = [node for node in graph.nodes if node.op == "call_function" and not is_size(node)]
    piece = Piece(tuple(nodes), tuple(arguments), tuple(results), frozenset())
    with _no_new_guards(graph):
        try:
            lowered = lower(piece, "exported", constants, _row_major, _bounds(program))
        except RefusedError as error:
            raise _refusal(error.node, error.why) from error
    _require_known_sizes(graph, lowered)
    first = len(results) - len(changes)
    lowered.module.aliases = tuple(
        Alias((number,), lowered.nodes.index(change.tensor))
        for number, change in enumerate(changes, first)
    )
    return lowered.module


def initial_state(exported: torch.export.ExportedProgram) -> dict[str, np.ndarray[Any, Any]]:
    """Return copies of the buffers that an exported program changes, by their names in the model.

    They are in the order of the parameters that `module_of` gives them, behind the user's tensors.
    """
    program = _functional(exported)
    tensors = _tensors_of(program)
    return {
        change.name: array_of(tensors[change.name]).copy()
        for change in _changes(program)
        if change.is_state
    }


def _functional(exported: torch.export.ExportedProgram) -> Any:
    """Return a program whose ops write nothing: what it changes is among its outputs."""
    with resampling_kept_whole(), recurrent_layers_as_loops(), composites_collected_anew():
        table = {**decompositions_for_export(), **resampling_by_sizes()}
        return cast("Any", exported).run_decompositions(table)


@record
class _Change:
    """A write of `value` to a buffer or argument.

    Attributes:
        name: the buffer's name in the model, or the argument's.
        tensor: the buffer or argument.
        value: what is written.
        is_state: whether it is a buffer.
    """

    name: str
    tensor: Node
    value: Node
    is_state: bool


_STATE = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
_VALUES = (*_STATE, OutputKind.USER_INPUT_MUTATION, OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
"""Outputs that a module can give; the others are tokens of effects, and gradients."""


def _changes(program: Any) -> list[_Change]:
    """Return the writes of a program, which are its first outputs."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    state = {item.target: item.arg.name for item in program.graph_signature.input_specs}
    outputs = zip(program.graph_signature.output_specs, _results(program.graph), strict=True)
    found: list[_Change] = []
    for output, value in outputs:
        if output.kind in _STATE:
            tensor = placeholders[state[output.target]]
            found.append(_Change(output.target, tensor, value, True))
        elif output.kind is OutputKind.USER_INPUT_MUTATION:
            found.append(_Change(output.target, placeholders[output.target], value, False))
    return found


def _require_values(program: Any) -> None:
    """Raise for an output that is neither a result of the user's nor a write."""
    for output in program.graph_signature.output_specs:
        if output.kind is OutputKind.TOKEN:
            effect = next(node for node in program.graph.nodes if _has_token(node))
            raise _refusal(effect, "it has effects")
        if output.kind not in _VALUES:
            raise UnsupportedError(
                f"the exported program gives the gradient of '{output.target}'",
                code="INGOT0374",
                hint="export the forward pass, or a function that returns torch.func.grad",
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


def _tensors_of(program: Any) -> dict[str, torch.Tensor]:
    """Return parameters, buffers and lifted tensors by their names in the model."""
    return {**program.state_dict, **program.constants}


def _constants(program: Any, changed: Sequence[Node]) -> Constants:
    """Return parameters, buffers and lifted tensors that nothing changes, by their nodes."""
    tensors = _tensors_of(program)
    kinds = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    by_name = {
        item.arg.name: tensors[item.target]
        for item in program.graph_signature.input_specs
        if item.kind in kinds
    }
    return {
        node: array_of(by_name[node.name])
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in by_name and node not in changed
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
