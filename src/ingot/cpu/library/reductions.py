"""Plain reductions in library code.

Makes kernels of `kernel.plain_reduction.PlainReduction`. Invariant: extents, steps and the
schedule's numbers are in env, the code depends on the reduction's pattern alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase
from ingot.cpu.emit.loop import emit_loop_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_part
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import evaluate
from ingot.hlo.dtype import F32
from ingot.hlo.shape import Shape
from ingot.kernel.collapse import collapse
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loops import build_loop_kernel
from ingot.kernel.plain_reduction import plain_reduction
from ingot.kernel.schedule import Vectors
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec

COLUMNS = (1024, 4096)
"""Columns of reductions: so few that their rows are shared out, so many that they are not."""


def reduction_kernel(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library runs a loop kernel, if it is a plain reduction."""
    plain = plain_reduction(kernel, Vectors(target.vector_bits, target.num_vector_registers))
    if plain is None:
        return None
    name = plain.name

    def define(module: ModuleBuilder) -> None:
        made = emit_loop_kernel(module, name, plain.kernel, plain.schedule, target.has_fma)
        _emitted[target, name] = made

    code = shared_part(target, name, define)
    made, values = _emitted[target, name], plain.values
    phases = [Phase(phase.symbol, evaluate(phase.chunks, values)) for phase in made.phases]
    sizes = tuple(values[size] for size in plain.kernel.symbols)
    scratch = evaluate(made.scratch_bytes, values)
    emitted = replace(made, phases=tuple(phases), symbols=sizes, scratch_bytes=scratch)
    return LibraryKernel(emitted, (code,))


_emitted: dict[tuple[TargetSpec, str], EmittedKernel] = {}


def common_reductions(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 reductions need."""
    for opcode, columns, dims in product(("add", "maximum"), COLUMNS, ((0,), (1,), (0, 1))):
        kernel = collapse(build_loop_kernel(_reduction(opcode, columns, dims)))
        found = reduction_kernel(target, kernel)
        assert found is not None, "a reduction of a matrix is plain"
        yield from found.parts


def _reduction(opcode: str, columns: int, dims: tuple[int, ...]) -> Computation:
    """Return a reduction of a matrix of so many columns."""
    build = Builder(opcode)
    matrix = build.parameter(0, Shape.array(F32, (4096, columns)))
    start = build.constant(0.0 if opcode == "add" else float("-inf"), F32)
    folder = scalar_computation(opcode, F32)
    return build.build(build.reduce(matrix, start, dimensions=dims, to_apply=folder))
