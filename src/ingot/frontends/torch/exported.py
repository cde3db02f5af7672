# SPDX-License-Identifier: Apache-2.0
"""Programs of `torch.export` as modules: `module_of(exported)`.

Parameters and buffers become constants, so the module takes what the user's call takes: the tensors
among its arguments, flattened, row-major. Sizes that were exported as dynamic are symbolic.

Invariant: the whole graph is compiled; there is no PyTorch beside it that could run a node.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ingot.frontends.torch.constants import Constants, array_of
from ingot.frontends.torch.decompose import (
    decompositions,
    resampling_by_sizes,
    resampling_kept_whole,
)
from ingot.frontends.torch.layout import MemoryLayout
from ingot.frontends.torch.locations import metadata_of
from ingot.frontends.torch.lowering.graph import lower
from ingot.frontends.torch.lowering.walk import RefusedError
from ingot.frontends.torch.nodes import Node, is_size, tensors_of
from ingot.frontends.torch.piece import Piece
from ingot.frontends.torch.placement import place
from ingot.frontends.torch.recurrent import recurrent_layers_as_loops
from ingot.frontends.torch.sizes import sizes_of
from ingot.hlo.module import Module
from ingot.support.diagnostics import UnsupportedError


def module_of(exported: torch.export.ExportedProgram) -> Module:
    """Return an exported program as a module.

    Args:
        exported: what `torch.export.export` gives.

    Returns:
        A module whose parameters are the user's tensors in their order, and whose result is the
        tuple of the user's results.

    Raises:
        UnsupportedError: INGOT0372, an op has no rule, draws random numbers, or works on the host;
            INGOT0374, the program changes its buffers or arguments.
    """
    with resampling_kept_whole(), recurrent_layers_as_loops():
        table = {**decompositions(), **resampling_by_sizes()}
        program: Any = cast("Any", exported).run_decompositions(table)
    signature, graph = program.graph_signature, program.graph
    for output in signature.output_specs:
        if output.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            raise UnsupportedError(
                f"the exported program changes '{output.target or output.arg.name}'",
                code="INGOT0374",
                hint="export the model in evaluation mode (model.eval())",
            )
    placement = place(graph, {})
    for node, why in placement.host.items():
        raise _refusal(node, why or "it draws random numbers or has effects")
    results = [node for node in _results(graph) if isinstance(node, torch.fx.Node)]
    constants = _constants(program)
    arguments = [node for node in graph.nodes if node.op == "placeholder" and tensors_of(node)]
    nodes = [node for node in graph.nodes if node.op == "call_function" and not is_size(node)]
    piece = Piece(tuple(nodes), tuple(arguments), tuple(results), frozenset())
    try:
        return lower(piece, "exported", constants, _row_major).module
    except RefusedError as error:
        raise _refusal(error.node, error.why) from error


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
    return UnsupportedError(
        f"{node.target} cannot be part of a module: {why}",
        code="INGOT0372",
        op_type=str(node.target),
        op_name=node.name,
        location=metadata_of(node).location,
    )
