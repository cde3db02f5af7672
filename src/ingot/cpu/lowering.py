# SPDX-License-Identifier: Apache-2.0
"""Lowering: a fused computation becomes a kernel of the form that runs it best.

Stands between fusion, which decided what is a kernel, and `cpu.kernels`, which gathers and emits
them. Invariant: a kernel depends on what the computation is written as (`hlo.structure`) and on
nothing else, so that computations written alike are lowered once.
"""

from __future__ import annotations

from ingot.analysis.prefixes import prefixes_of
from ingot.hlo.computation import Computation
from ingot.kernel.contraction.build import build_contraction_kernel, find_dot
from ingot.kernel.convolution.build import build_convolution_kernel, find_convolution, is_product
from ingot.kernel.convolution.plain import plain_root
from ingot.kernel.fft.build import build_fft_kernel
from ingot.kernel.ir import Kernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.kernel.loop.pipeline import run_kernel_passes
from ingot.kernel.loop.scan import build_scan_kernel
from ingot.kernel.loop.update import build_update_kernel
from ingot.kernel.sort.sort import build_sort_kernel
from ingot.kernel.sort.topk import build_topk_kernel
from ingot.support.records import replace

UPDATES = frozenset({"dynamic-update-slice", "scatter"})


def lower_fusion(fused: Computation) -> Kernel:
    """Return the kernel of a fused computation."""
    if fused.root.opcode in UPDATES:
        return build_update_kernel(fused)
    if fused.root.opcode == "sort":
        return build_sort_kernel(fused)
    if fused.root.opcode == "fft":
        return build_fft_kernel(fused)
    if fused.root.opcode == "topk":
        return build_topk_kernel(fused)
    if find_dot(fused) is not None:
        return build_contraction_kernel(fused)
    convolution = find_convolution(fused)
    if convolution is not None and is_product(convolution):
        return build_convolution_kernel(fused)
    prefixes = prefixes_of(fused.root)
    if prefixes is not None:
        return collapse(build_scan_kernel(fused, prefixes))
    kernel = run_kernel_passes(build_loop_kernel(fused), is_convolution=convolution is not None)
    plain = None if convolution is None else plain_root(fused)
    return kernel if plain is None else replace(kernel, convolution=plain)
