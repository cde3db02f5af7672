# SPDX-License-Identifier: Apache-2.0
"""Which driver of the library runs a product or a convolution.

Invariant: the choice depends on the kernel, its sizes and the target's vectors alone.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.cpu.emit.contraction.product_call import product_call
from ingot.cpu.emit.convolution.direct import direct_call
from ingot.cpu.emit.convolution.filter_gradient import filter_gradient_call
from ingot.cpu.emit.convolution.winograd import winograd_call
from ingot.cpu.emit.drivers import DriverCall
from ingot.kernel.convolution.direct import direct_convolution
from ingot.kernel.convolution.filter_gradient import filter_gradient
from ingot.kernel.convolution.plain import stores_plain_sums
from ingot.kernel.convolution.winograd import winograd
from ingot.kernel.ir import ContractionKernel, LoopKernel
from ingot.kernel.schedule.decide import Vectors


@lru_cache(maxsize=256)
def driver_call(kernel: ContractionKernel | LoopKernel, vectors: Vectors) -> DriverCall | None:
    """Return how a driver runs a kernel, None if it is neither a plain product nor convolution.

    It is asked again where a kernel has an epilogue to compile.
    """
    if isinstance(kernel, LoopKernel):
        return _convolution_call(kernel, vectors)
    if kernel.patches is None:
        return product_call(kernel, vectors)
    return _convolution_call(kernel, vectors)


def _convolution_call(
    kernel: ContractionKernel | LoopKernel, vectors: Vectors
) -> DriverCall | None:
    given = kernel.convolution
    if given is None:
        return None
    if isinstance(kernel, LoopKernel):
        result = len(kernel.buffers) - 1
    else:
        result = kernel.stores[0].buffer if stores_plain_sums(kernel) else None
        gradient = filter_gradient(kernel, vectors)
        if gradient is not None:
            return filter_gradient_call(given, result, gradient)
        transformed = winograd(kernel, vectors)
        if transformed is not None:
            return winograd_call(given, result, transformed)
    direct = direct_convolution(kernel, vectors)
    return None if direct is None else direct_call(given, result, direct)
