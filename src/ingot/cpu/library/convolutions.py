"""Plain convolutions in library code: Winograd's algorithm.

Makes kernels of `kernel.winograd.Winograd`. Invariant: sizes are numbers in env, the code depends
on element type and lanes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.kernel_abi import CodeSlot, EmittedKernel, Phase
from ingot.cpu.emit.winograd import emit_winograd, micro_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_part
from ingot.hlo.dtype import F32, DType
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.ir import ContractionKernel
from ingot.kernel.schedule import Vectors
from ingot.kernel.winograd import winograd
from ingot.llvm.target import TargetSpec


def winograd_name(element: DType, lanes: int) -> str:
    """Return the name of the code for an element type."""
    return f"winograd_{element.name}x{lanes}"


def winograd_code(target: TargetSpec, element: DType, lanes: int) -> Shared:
    """Return the code of Winograd convolutions."""
    name = winograd_name(element, lanes)
    return shared_part(target, name, lambda module: emit_winograd(module, name, element, lanes))


def convolution_kernel(target: TargetSpec, kernel: ContractionKernel) -> LibraryKernel | None:
    """Return how the library runs a convolution, if its sums are its result."""
    plan = winograd(kernel, Vectors(target.vector_bits, target.num_vector_registers))
    if plan is None or not plan.is_direct:
        return None
    given = kernel.convolution
    assert given is not None, "only a convolution runs by Winograd's algorithm"
    code = winograd_code(target, plan.element, plan.lanes)
    micro = micro_kernel(plan.element, plan.lanes, plan.value("rows"))
    emitted = EmittedKernel(
        (Phase(f"{code.name}_taps", plan.taps_chunks), Phase(f"{code.name}_units", plan.chunks)),
        3,
        (*plan.parameters, CodeSlot(micro.name), 0, 0),
        scratch_bytes=plan.scratch_bytes,
        order=(given.image, given.taps, kernel.stores[0].buffer),
    )
    part = shared_part(target, micro.name, lambda module: micro.define(module, linkage=""))
    return LibraryKernel(emitted, (code, part))


def common_convolutions(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 convolutions need."""
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    yield winograd_code(target, F32, vectors.lanes(cell_bits(F32), 1))
