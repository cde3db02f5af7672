# SPDX-License-Identifier: Apache-2.0
"""The passes of loop kernels: a literal tuple, in the order in which they run.

`kernel.loop.build` makes a kernel as the program says; these rewrite it, kernel to kernel, before
it is scheduled. Each keeps what the kernel stores to the bit. `ORDER` has the reasons for the
order.

They are passes like those of HLO: the same runner (`hlo.rewrite.pass_runner`) verifies, times and
dumps them, and the same `PassContext` says which of them run (disabled names, fuel) and has a row
of each that ran, as the pipeline "kernel".

Example:
    >>> [item.name for item in KERNEL_PASSES][:2]
    ['known-indices', 'collapse-axes']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pass_runner import PassRunner
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.ir import LoopKernel
from ingot.kernel.passes.cache_rows import cache_rows, reuse_stores
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.passes.known_indices import known_indices, narrow_indices
from ingot.kernel.passes.select_to_index import select_to_index
from ingot.kernel.passes.short_rows import join_short_rows, join_short_runs
from ingot.kernel.passes.split_axes import split_axes
from ingot.kernel.passes.split_rows import split_rows
from ingot.kernel.passes.unmask_loads import unmask_loads
from ingot.kernel.passes.unroll import unroll_short_rows, unroll_windows
from ingot.kernel.passes.unroll_and_jam import unroll_and_jam
from ingot.kernel.passes.unroll_phases import unroll_phases
from ingot.kernel.passes.unroll_stacks import unroll_stacks
from ingot.kernel.verifier import verify_kernel
from ingot.support.records import record, replace


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


def _cache_rows_of_passes(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with rows cached where lanes run along them, not along the grid."""
    made = cache_rows(kernel)
    return made if made is kernel or grid_vector_axis(kernel) is None else kernel


KERNEL_PASSES = (
    KernelPass("known-indices", known_indices),
    KernelPass("collapse-axes", collapse),
    KernelPass("unroll-phases", unroll_phases),
    KernelPass("split-axes", split_axes),
    KernelPass("split-rows", split_rows),
    KernelPass("join-short-rows", join_short_rows),
    KernelPass("join-short-runs", join_short_runs),
    KernelPass("unroll-windows", unroll_windows, of_convolutions=False),
    KernelPass("unroll-short-rows", unroll_short_rows),
    KernelPass("unroll-and-jam", unroll_and_jam),
    KernelPass("unroll-stacks", unroll_stacks),
    KernelPass("reuse-stores", reuse_stores),
    KernelPass("select-to-index", select_to_index),
    KernelPass("unmask-loads", unmask_loads),
    KernelPass("narrow-indices", narrow_indices),
    KernelPass("cache-rows", _cache_rows_of_passes),
)

ORDER = """
    known-indices < collapse-axes: indices that axes determine are walked as all others
    collapse-axes < unroll-phases: an axis that all indices walk as one stays one
    unroll-phases < split-axes: an axis that is written out is not split
    collapse-axes < split-axes: an axis that all indices walk as one stays one
    split-axes < split-rows: rows with known offsets of lanes stay whole
    split-axes < join-short-rows: the rows that it makes may be short
    split-rows < join-short-rows: rows end to end, whose offsets of lanes are known, are not split
    collapse-axes < join-short-rows: only rows that are apart in memory are short
    collapse-axes < join-short-runs: runs that are not short any more stay as they are
    join-short-rows < join-short-runs: rows end to end have no axis to read across
    collapse-axes < unroll-windows: a window along two axes may be one along one
    join-short-rows < unroll-short-rows, unroll-stacks: joined rows have lanes and need no
        copies
    unroll-short-rows < unroll-and-jam: a kernel without loops has no folds to join
    unroll-stacks < select-to-index: positions that are known choose nothing
    unroll-and-jam < select-to-index: copies of a point choose by the same masks
    unroll-windows < select-to-index: copies of a point choose by the same masks
    unroll-short-rows < select-to-index: copies of a point choose by the same masks
    unroll-short-rows < reuse-stores: passes that become one compute shared values once
    unroll-and-jam < reuse-stores: points are joined that store nothing in between
    reuse-stores < select-to-index: a value that is read again needs no masks
    select-to-index < unmask-loads: fewer masks remain to be proven needless
    unmask-loads < narrow-indices: masks that hold need no numbers
    unroll-short-rows < cache-rows: an unrolled row needs no cache
"""

PIPELINE_NAME = "kernel"
"""What records of passes call the pipeline of kernel passes."""


def passes_for(is_convolution: bool) -> list[KernelPass]:
    """Return the passes that a kernel goes through; a convolution's loops keep their window."""
    return [item for item in KERNEL_PASSES if item.of_convolutions or not is_convolution]


def run_kernel_passes(
    kernel: LoopKernel,
    context: PassContext | None = None,
    *,
    passes: Sequence[KernelPass] | None = None,
    label: str = "",
) -> LoopKernel:
    """Return a kernel as the passes leave it.

    Args:
        kernel: as it was built.
        context: which passes run, and the record of those that did; default: all of them.
        passes: in the order in which they run; default: those of kernels that are no convolution.
        label: what dumps and logs call the kernel.

    Raises:
        InternalError: INGOT0932, a pass left an invalid kernel (with `INGOT_DEBUG`).
    """
    runner = _Runner(kernel, context or PassContext(), label)
    for item in passes_for(False) if passes is None else passes:
        runner.run_pass(item, item.name, PIPELINE_NAME)
    return runner.subject


def kernel_stages(
    kernel: LoopKernel, context: PassContext | None = None, *, is_convolution: bool = False
) -> Iterator[tuple[str, LoopKernel]]:
    """Yield the kernel after each pass that changed it, by the pass's name; verified.

    The context's records and dumps do not see these passes.

    Raises:
        InternalError: INGOT0932, a pass left an invalid kernel.
    """
    checked = replace(context or PassContext(), debug=1, timings=[], dump=None)
    runner = _Runner(kernel, checked)
    for item in passes_for(is_convolution):
        if runner.run_pass(item, item.name, PIPELINE_NAME):
            yield item.name, runner.subject


class _Runner(PassRunner[LoopKernel, KernelPass]):
    """Runs passes on one kernel, which each of them may replace."""

    _verified: LoopKernel | None = None

    def apply(self, step: KernelPass) -> bool:
        """Put what a pass makes of the kernel in its place; return whether that is another one."""
        made = step.run(self.subject)
        if made is self.subject or made == self.subject:
            return False
        self.subject = made
        return True

    def verify(self, pass_name: str) -> None:
        """Verify the kernel, unless it was: kernels do not change."""
        if self.subject is not self._verified:
            verify_kernel(self.subject, pass_name)
            self._verified = self.subject
