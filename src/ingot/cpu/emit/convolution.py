"""Which driver of the library runs a convolution.

Invariant: the choice depends on the kernel, its sizes and the target's vectors alone.
"""

from __future__ import annotations

from ingot.cpu.emit.direct_convolution import direct_call
from ingot.cpu.emit.drivers import DriverCall
from ingot.cpu.emit.winograd import winograd_call
from ingot.kernel.direct_convolution import direct_convolution
from ingot.kernel.ir import ContractionKernel, LoopKernel
from ingot.kernel.schedule import Vectors
from ingot.kernel.winograd import winograd


def convolution_call(kernel: ContractionKernel | LoopKernel, vectors: Vectors) -> DriverCall | None:
    """Return how a driver runs a kernel, None if it is no plain convolution."""
    given = kernel.convolution
    is_contraction = isinstance(kernel, ContractionKernel)
    if given is None or (is_contraction and kernel.patches is None):
        return None
    transformed = winograd(kernel, vectors) if is_contraction else None
    if transformed is not None:
        return winograd_call(given, transformed)
    direct = direct_convolution(kernel, vectors)
    return None if direct is None else direct_call(given, direct)
