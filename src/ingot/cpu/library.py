"""The library: code that all programs share, because it is the same at every size.

What XLA takes from precompiled libraries (Eigen, oneDNN), Ingot emits: micro-kernels whose strides
are parameters, drivers of plain products, plain reductions. Each part is compiled when it is first
needed on a machine, kept on disk by the object cache, mapped once for each process and kept for its
life; programs refer to its functions by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, SharedCode
from ingot.cpu.emit.loop import emit_loop_kernel
from ingot.cpu.emit.microkernel import MicroKernel, shared
from ingot.cpu.emit.packing import cell_type
from ingot.cpu.emit.product import emit_product_driver, micro_kernel
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import evaluate
from ingot.hlo.dtype import F32
from ingot.hlo.shape import Shape
from ingot.kernel.collapse import collapse
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.loops import build_loop_kernel
from ingot.kernel.plain_reduction import PlainReduction, plain_reduction
from ingot.kernel.product import VECTORS, Form, Placement, Product, heights_of
from ingot.kernel.schedule import Vectors
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import Library, compile_object, link_object
from ingot.llvm.target import TargetSpec

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
DENSE = (True, False)
COLUMNS = (1024, 4096)
"""Columns of reductions: so few that their rows are shared out, so many that they are not."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A part of the library: its name, LLVM IR, object and mapped code."""

    name: str
    text: str
    object: bytes
    library: Library

    @property
    def addresses(self) -> dict[str, int]:
        """Where its functions lie."""
        return {symbol: self.library.address(symbol) for symbol in self.library.symbols}


def shared_addresses(parts: Iterable[Shared]) -> dict[str, int]:
    """Return the addresses of all functions of some parts."""
    found: dict[str, int] = {}
    for part in parts:
        found |= part.addresses
    return found


def shared_micro_kernel(target: TargetSpec, kernel: SharedCode) -> Shared:
    """Return a micro-kernel's code."""
    return _shared(target, kernel.name, lambda module: kernel.define(module, linkage=""))


def product_driver(target: TargetSpec, form: Form) -> Shared:
    """Return the code of the driver of a form of plain products."""
    name = f"product_{form.name}"
    return _shared(target, name, lambda module: emit_product_driver(module, name, form, target))


def product_micro_kernels(plain: Product) -> tuple[MicroKernel, ...]:
    """Return the micro-kernels of a product, in the order of `emit.product.MICRO_KERNELS`."""
    return tuple(
        micro_kernel(plain.form, rows, masked=masked)
        for masked in (False, plain.has_rest)
        for rows in plain.heights
    )


def reduction_code(target: TargetSpec, plain: PlainReduction) -> tuple[Shared, EmittedKernel]:
    """Return the code of a plain reduction of every size, and how it is called at this one."""
    name = plain.name

    def define(module: ModuleBuilder) -> None:
        made = emit_loop_kernel(module, name, plain.kernel, plain.schedule, target.has_fma)
        _emitted[target, name] = made

    code = _shared(target, name, define)
    made, values = _emitted[target, name], plain.values
    phases = [Phase(phase.symbol, evaluate(phase.chunks, values)) for phase in made.phases]
    sizes = tuple(values[size] for size in plain.kernel.symbols)
    scratch = evaluate(made.scratch_bytes, values)
    return code, replace(made, phases=tuple(phases), symbols=sizes, scratch_bytes=scratch)


def load_library(target: TargetSpec) -> None:
    """Load what f32 products and reductions need: from the disk, or compiled the first time."""
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    lanes = vectors.lanes(cell_bits(F32), 1)
    for is_dense, placement in product(DENSE, PLACEMENTS):
        product_driver(target, Form(F32, lanes, placement, is_dense))
    for is_dense, rows, masked in product(DENSE, heights_of(vectors), (False, True)):
        form = Form(F32, lanes, "direct", is_dense)
        shared_micro_kernel(target, micro_kernel(form, rows, masked=masked))
    cell = cell_type(F32)
    for rows, masked in product(heights_of(vectors), (False, True)):
        across = shared(cell, lanes, rows, VECTORS, masked=masked, a_step=None, a_row=1)
        shared_micro_kernel(target, across)
    for opcode, columns, dims in product(("add", "maximum"), COLUMNS, ((0,), (1,), (0, 1))):
        fused = _reduction(opcode, columns, dims)
        plain = plain_reduction(collapse(build_loop_kernel(fused)), vectors)
        assert plain is not None, "a reduction of a matrix is plain"
        reduction_code(target, plain)


def _reduction(opcode: str, columns: int, dims: tuple[int, ...]) -> Computation:
    """Return a reduction of a matrix of so many columns."""
    build = Builder(opcode)
    matrix = build.parameter(0, Shape.array(F32, (4096, columns)))
    start = build.constant(0.0 if opcode == "add" else float("-inf"), F32)
    folder = scalar_computation(opcode, F32)
    return build.build(build.reduce(matrix, start, dimensions=dims, to_apply=folder))


_loaded: dict[tuple[TargetSpec, str], Shared] = {}
_emitted: dict[tuple[TargetSpec, str], EmittedKernel] = {}
_lock = threading.Lock()


def _shared(target: TargetSpec, name: str, define: Callable[[ModuleBuilder], object]) -> Shared:
    found = _loaded.get((target, name))
    if found is not None:
        return found
    module = ModuleBuilder(name, vector_bits=target.vector_bits)
    define(module)
    text = module.text()
    data = compile_object(text, target)
    with _lock:
        if (target, name) not in _loaded:
            _loaded[target, name] = Shared(name, text, data, link_object([data]))
        return _loaded[target, name]
