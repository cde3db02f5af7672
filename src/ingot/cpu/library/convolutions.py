"""Plain convolutions in library code.

Makes kernels of `cpu.emit.drivers.DriverCall`. Invariant: sizes are numbers in env, the code
depends on element type and lanes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.convolution import convolution_call
from ingot.cpu.emit.direct_convolution import DirectCode, micro_kernel
from ingot.cpu.emit.winograd import WinogradCode
from ingot.cpu.library.parts import LibraryKernel, Shared
from ingot.cpu.library.products import shared_micro_kernel
from ingot.cpu.vectors import vectors_of
from ingot.hlo.dtype import F32
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.ir import ContractionKernel, LoopKernel
from ingot.kernel.plain_convolution import stores_plain_sums
from ingot.kernel.product import VECTORS, heights_of
from ingot.llvm.target import TargetSpec


def convolution_kernel(
    target: TargetSpec, kernel: ContractionKernel | LoopKernel
) -> LibraryKernel | None:
    """Return how the library runs a plain convolution; depthwise ones are loop kernels."""
    if isinstance(kernel, LoopKernel):
        result = len(kernel.buffers) - 1
    elif stores_plain_sums(kernel):
        result = kernel.stores[0].buffer
    else:
        return None
    call = convolution_call(kernel, vectors_of(target))
    if call is None:
        return None
    parts = tuple(shared_micro_kernel(target, item) for item in dict.fromkeys(call.needed))
    return LibraryKernel(call.without_epilogue(result), parts)


def common_convolutions(target: TargetSpec) -> Iterator[Shared]:
    """Load what f32 convolutions need."""
    vectors = vectors_of(target)
    lanes = vectors.lanes(cell_bits(F32), 1)
    yield shared_micro_kernel(target, WinogradCode(F32, lanes))
    panel = (VECTORS, lanes)
    yield shared_micro_kernel(target, DirectCode(F32, panel))
    for rows in heights_of(vectors):
        for is_depthwise in (False, True):
            micro = micro_kernel(F32, panel, rows, masked=False, is_depthwise=is_depthwise)
            yield shared_micro_kernel(target, micro)
