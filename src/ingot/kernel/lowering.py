# SPDX-License-Identifier: Apache-2.0
"""Lowering: a fused computation becomes a kernel of the kind that suits it.

Stands between fusion, which decided what is a kernel, and a target (`cpu.kernels`, `gpu.compiler`),
which schedules and emits it. Invariant: a kernel depends only on how its computation is written
(`hlo.structure`), so computations that are written alike are lowered once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.analysis.scans import scan_under
from ingot.hlo.computation import Computation
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.convolution.build import (
    build_convolution_kernel,
    depthwise_kernel,
    find_convolution,
    is_product,
)
from ingot.kernel.ir import Kernel, LoopKernel
from ingot.kernel.loop.build import build_loop_kernel, build_scan_kernel, roots_of
from ingot.kernel.passes.pipeline import kernel_stages, passes_for, run_kernel_passes
from ingot.support.lazy import function_at_home

BUILT = "built"
"""The stage of a kernel that no kernel pass has seen."""


_build_update = function_at_home("ingot.kernel.loop.update", "build_update_kernel")
_build_attention = function_at_home("ingot.kernel.attention.build", "build_attention_kernel")
_build_contraction = function_at_home("ingot.kernel.contraction.build", "build_contraction_kernel")

_BUILDERS_OF_ROOTS: dict[str, Callable[[Computation], Kernel]] = {
    "dynamic-update-slice": _build_update,
    "scatter": _build_update,
    "sort": function_at_home("ingot.kernel.sort.sort", "build_sort_kernel"),
    "fft": function_at_home("ingot.kernel.fft.build", "build_fft_kernel"),
    "topk": function_at_home("ingot.kernel.sort.topk", "build_topk_kernel"),
}
"""What makes the kernel of a computation with such a root; each is imported when one comes."""


def lower_fusion(fused: Computation, context: PassContext | None = None) -> Kernel:
    """Return the kernel of a fused computation, as the kernel passes leave it.

    Args:
        fused: the computation.
        context: which kernel passes run, and their record; default: all of them.

    Raises:
        InternalError: INGOT0932, a kernel pass left an invalid kernel (with `INGOT_DEBUG`).
    """
    built = _built(fused)
    if not isinstance(built, LoopKernel):
        return built
    is_convolution = find_convolution(fused) is not None
    passes = passes_for(is_convolution)
    kernel = run_kernel_passes(built, context, passes=passes, label=fused.name)
    return depthwise_kernel(fused, kernel) if is_convolution else kernel


def kernel_history(
    fused: Computation, context: PassContext | None = None
) -> Iterator[tuple[str, Kernel]]:
    """Yield the kernel of a fused computation as built (`BUILT`), then after each pass by its name.

    Passes that changed nothing are left out.
    """
    built = _built(fused)
    yield BUILT, built
    if isinstance(built, LoopKernel):
        is_convolution = find_convolution(fused) is not None
        yield from kernel_stages(built, context, is_convolution=is_convolution)


def _built(fused: Computation) -> Kernel:
    """Return the kernel of a computation, of the kind that its root or its product asks for."""
    build = _BUILDERS_OF_ROOTS.get(fused.root.opcode)
    if build is not None:
        return build(fused)
    dots = [one for one in fused.instructions if one.opcode == "dot"]
    if len(dots) > 1:
        return _build_attention(fused, dots)
    if dots:
        return _build_contraction(fused)
    convolution = find_convolution(fused)
    if convolution is not None and is_product(convolution):
        return build_convolution_kernel(fused)
    folded = scan_under(*roots_of(fused)) if "reduce-window" in fused.opcodes else None
    return build_loop_kernel(fused) if folded is None else build_scan_kernel(fused, folded)
