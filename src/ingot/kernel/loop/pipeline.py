# SPDX-License-Identifier: Apache-2.0
"""The passes of loop kernels: a literal tuple, in the order in which they run.

`build` makes a kernel as the program says; these rewrite it, kernel to kernel, before it is
scheduled. Each keeps what the kernel stores to the bit. `ORDER` has the reasons for the order.

Example:
    >>> [item.name for item in KERNEL_PASSES][:2]
    ['collapse-axes', 'join-short-rows']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ingot.hlo.rewrite.ordering import Order, check_names
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loop.choices import merge_choices
from ingot.kernel.loop.collapse import collapse
from ingot.kernel.loop.inside import read_inside
from ingot.kernel.loop.keep import keep_rows
from ingot.kernel.loop.narrow_places import narrow_places
from ingot.kernel.loop.short_rows import join_short_rows
from ingot.kernel.loop.unroll import unroll_short_rows, unroll_windows
from ingot.kernel.schedule.vector_axis import grid_vector_axis
from ingot.kernel.verifier import verify_kernel
from ingot.support import flags
from ingot.support.records import record


@record
class KernelPass:
    """A rewrite of loop kernels.

    Attributes:
        name: what dumps and errors call it.
        run: returns the kernel rewritten; the same object where there is nothing to do.
        of_convolutions: whether it runs on the windows of a convolution, too.
    """

    name: str
    run: Callable[[LoopKernel], LoopKernel]
    of_convolutions: bool = True


def _keep_rows_of_passes(kernel: LoopKernel) -> LoopKernel:
    """Keep rows where lanes run along them: lanes along the grid would need a row each."""
    return keep_rows(kernel) if grid_vector_axis(kernel) is None else kernel


KERNEL_PASSES = (
    KernelPass("collapse-axes", collapse),
    KernelPass("join-short-rows", join_short_rows),
    KernelPass("unroll-windows", unroll_windows, of_convolutions=False),
    KernelPass("unroll-short-rows", unroll_short_rows),
    KernelPass("merge-choices", merge_choices),
    KernelPass("read-inside", read_inside),
    KernelPass("narrow-indices", narrow_places),
    KernelPass("keep-rows", _keep_rows_of_passes),
)

ORDER = (
    Order("collapse-axes", "join-short-rows", "only rows that are apart in memory are short"),
    Order("collapse-axes", "unroll-windows", "a window along two axes may be one along one"),
    Order("join-short-rows", "unroll-short-rows", "joined rows have lanes and need no copies"),
    Order("unroll-windows", "merge-choices", "copies of a point choose by the same masks"),
    Order("unroll-short-rows", "merge-choices", "copies of a point choose by the same masks"),
    Order("merge-choices", "read-inside", "fewer masks remain to be proven needless"),
    Order("read-inside", "narrow-indices", "masks that hold need no numbers"),
    Order("unroll-short-rows", "keep-rows", "what is unrolled has no rows to keep"),
)

check_names("kernel passes", [item.name for item in KERNEL_PASSES], ORDER)


def _passes_for(is_convolution: bool) -> list[KernelPass]:
    return [item for item in KERNEL_PASSES if item.of_convolutions or not is_convolution]


def run_kernel_passes(kernel: LoopKernel, *, is_convolution: bool = False) -> LoopKernel:
    """Return a kernel as the passes leave it.

    Args:
        kernel: as it was built.
        is_convolution: whether its reduction is a convolution's.

    Raises:
        InternalError: INGOT0932, a pass left an invalid kernel (with `INGOT_DEBUG=4`).
    """
    verifies = flags.DEBUG.value() >= flags.CHECKS
    for item in _passes_for(is_convolution):
        kernel = item.run(kernel)
        if verifies:
            verify_kernel(kernel, item.name)
    return kernel


def kernel_stages(
    kernel: LoopKernel, *, is_convolution: bool = False
) -> Iterator[tuple[str, LoopKernel]]:
    """Yield the kernel after each pass that changed it, by the pass's name; verified.

    Raises:
        InternalError: INGOT0932, a pass left an invalid kernel.
    """
    for item in _passes_for(is_convolution):
        made = item.run(kernel)
        if made is not kernel and made != kernel:
            verify_kernel(made, item.name)
            yield item.name, made
        kernel = made
