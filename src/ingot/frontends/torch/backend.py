# SPDX-License-Identifier: Apache-2.0
"""The backend of `torch.compile`: graphs in, functions out.

TorchDynamo finds `ingot` by the package's entry point. AOTAutograd turns the traced graph into a
forward and a backward graph without mutation, and passes each to `compile_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

from ingot.support.collector import importing
from ingot.support.flags import check_environment
from ingot.support.freed_memory import keep_freed_memory
from ingot.support.quick_exit import exit_quickly

# PyTorch loads this module in the first call of a compiled function; 0.2 s were collections.
with importing():
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    from ingot.frontends.torch.decompositions.decompose import decompositions, resampling_kept_whole
    from ingot.frontends.torch.decompositions.recurrent import recurrent_layers_as_loops
    from ingot.frontends.torch.fx.constants import small_constants
    from ingot.frontends.torch.fx.nodes import Node
    from ingot.frontends.torch.fx.piece import Piece
    from ingot.frontends.torch.graphs import CompiledGraph, remember
    from ingot.frontends.torch.launches.launch import Launch, compile_piece
    from ingot.frontends.torch.launches.wrapper import Wrapper
    from ingot.frontends.torch.lowering import lower
    from ingot.frontends.torch.lowering.walk import RefusedError, SizesChangedError
    from ingot.frontends.torch.options import Options
    from ingot.frontends.torch.partitioning.partition import partition
    from ingot.frontends.torch.partitioning.placement import Placement, placement_of
    from ingot.frontends.torch.partitioning.saved_layouts import (
        Layouts,
        argument_layouts,
        report_strides,
        saved_layouts,
    )
    from ingot.frontends.torch.passes.data_sizes import expand_data_sizes
    from ingot.frontends.torch.passes.expansion import expand_attention, expand_bags
    from ingot.frontends.torch.passes.kernel_sizes import guard_kernel_sizes
    from ingot.frontends.torch.passes.merged_numbers import renew_values
    from ingot.frontends.torch.passes.metadata_checks import drop_metadata_checks
    from ingot.frontends.torch.passes.mutated_inputs import mark_readers, saves_written
    from ingot.frontends.torch.passes.python_numbers import full_precision
    from ingot.frontends.torch.passes.random_ops import free_draws, keeps_draws_apart
    from ingot.frontends.torch.passes.scan_invariants import share_invariants
    from ingot.frontends.torch.passes.slice_lengths import number_slice_lengths
    from ingot.frontends.torch.passes.stacked_loops import expand_stacked_loops
    from ingot.frontends.torch.passes.triton_kernels import refuse_triton_kernels
    from ingot.frontends.torch.passes.writing_ops import write_in_place
    from ingot.runtime.native import default_cache_limit

_numbers = count()
_check_environment_once = cache(check_environment)
_keep_freed_memory_once = cache(lambda: keep_freed_memory(default_cache_limit()))


def ingot(
    graph_module: Any, example_inputs: Sequence[Any], *, mode: object = None, options: object = None
) -> Callable[..., Any]:
    """Compile a graph of TorchDynamo, for `torch.compile(model, backend="ingot")`.

    Args:
        graph_module: the graph.
        example_inputs: its arguments as fake tensors.
        mode: `torch.compile`'s; all of its modes give the same code.
        options: a dictionary: `threads`, `fp`, `dump_to` as for `ingot.compile`, and `strict`.

    Raises:
        IngotError: it cannot be compiled; PyTorch wraps it in `BackendCompilerFailed`.
    """
    exit_quickly()
    _check_environment_once()
    _keep_freed_memory_once()
    chosen = Options.of(mode, options)
    compile_with = aot_autograd(
        fw_compiler=partial(compile_graph, kind="forward", options=chosen),
        bw_compiler=partial(compile_graph, kind="backward", options=chosen),
        inference_compiler=partial(compile_graph, kind="inference", options=chosen),
        decompositions=decompositions(),
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )
    inputs = full_precision(graph_module, example_inputs)
    with resampling_kept_whole(), recurrent_layers_as_loops():
        return compile_with(graph_module, inputs)


def _partition(joint_module: Any, joint_inputs: Any, **options: Any) -> tuple[Any, Any]:
    """Return the forward and the backward part of a graph that has both."""
    expand_bags(joint_module)
    share_invariants(joint_module)
    with keeps_draws_apart(joint_module.graph):
        parts = min_cut_rematerialization_partition(joint_module, joint_inputs, **options)
        if saves_written(parts[0].graph, options["num_fwd_outputs"]):
            mark_readers(joint_module.graph)
            parts = min_cut_rematerialization_partition(joint_module, joint_inputs, **options)
    return parts


def compile_graph(
    graph_module: Any, example_inputs: Sequence[Any], *, kind: str, options: Options
) -> Callable[[list[Any]], list[Any]]:
    """Return the function that runs an ATen graph on a list of arguments, which it empties.

    Args:
        graph_module: a graph of AOTAutograd.
        example_inputs: its arguments as fake tensors, with the strides that they will have.
        kind: "forward", "backward" or "inference", for the name of the program.
        options: the user's options.
    """
    graph_module.graph.owning_module = graph_module  # a graph may have had several
    name = f"torch_{kind}_{next(_numbers)}"
    refuse_triton_kernels(graph_module.graph)
    drop_metadata_checks(graph_module.graph)
    renew_values(graph_module.graph)
    guard_kernel_sizes(graph_module.graph)
    expand_attention(graph_module)
    expand_data_sizes(graph_module.graph)
    expand_stacked_loops(graph_module.graph)
    expand_bags(graph_module)
    free_draws(graph_module.graph)
    number_slice_lengths(graph_module.graph)
    write_in_place(graph_module.graph)
    with options.in_force():

        def layouts(placement: Placement) -> Layouts:
            if kind == "forward":
                return saved_layouts(graph_module.graph, placement)
            return argument_layouts(graph_module.graph, placement, example_inputs)

        steps, placement, chosen = _steps(graph_module.graph, name, options, layouts)
    wrapper = Wrapper(graph_module.graph, steps, placement.views, chosen.restored)
    if kind == "forward":
        report_strides(graph_module.graph, chosen.chosen.get)
    graph = CompiledGraph(
        name,
        wrapper.source,
        tuple(step.executable for step in steps if isinstance(step, Launch)),
        tuple((str(node.target), why) for node, why in placement.host.items()),
    )
    remember(graph)
    # The function keeps it alive.
    vars(wrapper.function)["ingot_graph"] = graph
    return wrapper.function


def _steps(
    graph: Any, name: str, options: Options, layouts: Callable[[Placement], Layouts]
) -> tuple[list[Launch | Node], Placement, Layouts]:
    """Return the graph cut into programs and host nodes; nodes that rules refuse go to the host.

    `layouts` returns the layouts of tensors that differ from the traced ones, for a placement.
    """
    constants = small_constants(graph)
    refused: dict[Node, str] = {}
    while True:
        placement = placement_of(graph, refused)
        steps = partition(graph, placement)
        chosen = layouts(placement)
        try:
            # All pieces are lowered before any is compiled.
            lowered = {
                number: lower(step, f"{name}_{number}", constants, chosen.of)
                for number, step in enumerate(steps)
                if isinstance(step, Piece)
            }
        except RefusedError as error:
            refused[error.node] = error.why
        except SizesChangedError:
            continue
        else:
            break
    threads = options.program_threads()
    made = [
        compile_piece(step, lowered[number], threads) if isinstance(step, Piece) else step
        for number, step in enumerate(steps)
    ]
    return made, placement, chosen
