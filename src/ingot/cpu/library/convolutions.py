"""Plain convolutions in library code; what is none may be a plain product.

Makes kernels of `cpu.emit.drivers.DriverCall`. Invariant: sizes are numbers in env, the code
depends on element type and lanes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.convolution import convolution_call
from ingot.cpu.emit.direct_convolution import DirectCode, micro_kernel
from ingot.cpu.emit.winograd import WinogradCode
from ingot.cpu.library.form_kernels import rows_of_products
from ingot.cpu.library.parts import LibraryKernel, Shared
from ingot.cpu.library.positions import positions_kernel
from ingot.cpu.library.products import product_kernel, shared_micro_kernel
from ingot.cpu.library.reductions import reduction_kernel
from ingot.hlo.dtype import F32
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.ir import ContractionKernel, LoopKernel
from ingot.kernel.plain_convolution import stores_plain_sums
from ingot.kernel.product import VECTORS, heights_of
from ingot.kernel.schedule import Vectors
from ingot.llvm.target import TargetSpec


def contraction_kernel(target: TargetSpec, kernel: ContractionKernel) -> LibraryKernel | None:
    """Return how the library runs a contraction, if it is plain and its sums are its result."""
    found = None
    if stores_plain_sums(kernel):
        found = _convolution_kernel(target, kernel, kernel.stores[0].buffer)
    return product_kernel(target, kernel) if found is None else found


def loop_kernel(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library runs a loop kernel: a depthwise convolution or a common form."""
    if kernel.convolution is None:
        known = reduction_kernel(target, kernel) or positions_kernel(target, kernel)
        return known or rows_of_products(target, kernel)
    return _convolution_kernel(target, kernel, len(kernel.buffers) - 1)


def _convolution_kernel(
    target: TargetSpec, kernel: ContractionKernel | LoopKernel, result: int
) -> LibraryKernel | None:
    call = convolution_call(kernel, Vectors(target.vector_bits, target.num_vector_registers))
    if call is None:
        return None
    parts = tuple(shared_micro_kernel(target, item) for item in dict.fromkeys(call.needed))
    return LibraryKernel(call.without_epilogue(result), parts)


def common_convolutions(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 convolutions need."""
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    lanes = vectors.lanes(cell_bits(F32), 1)
    yield shared_micro_kernel(target, WinogradCode(F32, lanes))
    panel = (VECTORS, lanes)
    yield shared_micro_kernel(target, DirectCode(F32, panel))
    for rows in heights_of(vectors):
        for is_depthwise in (False, True):
            micro = micro_kernel(F32, panel, rows, masked=False, is_depthwise=is_depthwise)
            yield shared_micro_kernel(target, micro)
