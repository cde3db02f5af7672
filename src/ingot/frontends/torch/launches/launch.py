# SPDX-License-Identifier: Apache-2.0
"""A piece of a graph as a compiled program that can be called: `compile_piece(piece, lowered)`.

Invariant: `Launch.run` takes the addresses of the arrays that `inputs` and `outputs` describe, in
that order, then the sizes `open_sizes`; it returns 0, or a status for `fail`.
"""

from __future__ import annotations

from collections.abc import Callable

import ingot.client
from ingot.client.executables.executable import Executable
from ingot.frontends.torch.fx.layout import MemoryLayout
from ingot.frontends.torch.fx.nodes import Node
from ingot.frontends.torch.fx.piece import Piece
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.launches.call_code import NO_MEMORY, make_call
from ingot.frontends.torch.launches.errors import TorchExecutionError, as_torch_error
from ingot.frontends.torch.lowering.graph import Lowered
from ingot.hlo.dim import product
from ingot.runtime.programs.execution import raise_signal_after, status_error
from ingot.support.diagnostics import IngotError, InternalError
from ingot.support.records import record

RELEASE_GIL_BYTES = 64 << 10
"""Bytes that a program touches from which it runs without the GIL."""


@record
class Launch:
    """A compiled piece.

    Attributes:
        piece: the piece.
        executable: the program.
        nodes: the inputs of the piece that are arguments; the others are constants.
        inputs: the layout of each of them in memory.
        outputs: the layout of each output in memory.
        numbers: symbols that have an `s64[]` as parameter, after the inputs.
        sizes: named sizes that have a parameter without data, after those.
        open_sizes: the dimensions that each call passes, in the order of the parameters.
        run: the native function; see `call_code`.
    """

    piece: Piece
    executable: Executable
    nodes: tuple[Node, ...]
    inputs: tuple[MemoryLayout, ...]
    outputs: tuple[MemoryLayout, ...]
    numbers: tuple[str, ...]
    sizes: tuple[str, ...]
    open_sizes: tuple[Size, ...]
    run: Callable[..., int]

    def fail(self, status: int) -> IngotError:
        """Return the error for a status that is not 0; raise what a signal handler raised."""
        if status == NO_MEMORY:
            return TorchExecutionError(
                f"an argument of '{self.executable.artifact.info.symbol}' has no memory",
                hint="give tensors with data: fake tensors, and those on the device meta, lack it",
            )
        raise_signal_after(status)
        return as_torch_error(status_error(self.executable.artifact.info, status, ()))


def compile_piece(piece: Piece, lowered: Lowered, threads: int | None = None) -> Launch:
    """Compile a piece.

    Args:
        piece: the piece.
        lowered: the result of `lower`.
        threads: the threads that run it; None: those of the process.

    Raises:
        IngotError: the compiler cannot compile it.
    """
    executable = ingot.client.compile(lowered.module, is_final=True)
    if not isinstance(executable, Executable):
        raise InternalError(f"{lowered.module.name} computes sizes of its own")
    shapes = executable.source.parameter_shapes
    dims = [[size if isinstance(size, int) else None for size in shape.dims] for shape in shapes]
    return Launch(
        piece,
        executable,
        lowered.nodes,
        lowered.inputs,
        lowered.outputs,
        lowered.numbers,
        lowered.sizes,
        tuple(size for shape in shapes for size in shape.dims if not isinstance(size, int)),
        make_call(
            executable.program,
            dims,
            releases_gil=_runs_long(lowered, executable),
            threads=threads,
        ),
    )


def _runs_long(lowered: Lowered, executable: Executable) -> bool:
    """Whether a call is worth releasing the GIL; one of unknown size is."""
    if executable.has_loop:
        return True
    shapes = (*lowered.module.parameter_shapes, *lowered.module.result_shape.elements)
    touched = sum((product(shape.dims) * shape.dtype.bits // 8 for shape in shapes), 0)
    return not isinstance(touched, int) or touched >= RELEASE_GIL_BYTES
