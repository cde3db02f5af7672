# SPDX-License-Identifier: Apache-2.0
"""What a strategy is asked about: a kernel and a target.

Below the matchers and the table of this package. Invariant: a loop kernel is scheduled once, when
the first strategy asks for it, and all strategies see the same schedule.
"""

from __future__ import annotations

from typing import TypeVar

from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.ir import Kernel, LoopKernel
from ingot.kernel.schedule.decide import Decision, decide_loops
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec

K = TypeVar("K", bound=Kernel)


class Request:
    """A kernel that wants a plan.

    Attributes:
        kernel: the kernel to run.
        target: what it runs on.
        context: which passes run on kernels that a strategy builds, and the record of those.
        label: what dumps of these kernels call them.
        vectors: what schedules must know of the target.
    """

    __slots__ = ("_loops", "context", "kernel", "label", "target", "vectors")

    def __init__(
        self,
        kernel: Kernel,
        target: TargetSpec,
        context: PassContext | None = None,
        label: str = "",
    ) -> None:
        """Ask for a plan of `kernel` on `target`; by default all kernel passes run."""
        self.kernel = kernel
        self.target = target
        self.context = context or PassContext()
        self.label = label
        self.vectors = Vectors.of(target)
        self._loops: Decision | None = None

    def kernel_as(self, kind: type[K]) -> K:
        """Return the kernel, for a strategy that is asked about kernels of one kind only."""
        assert isinstance(self.kernel, kind), "the table says which kernels it is asked about"
        return self.kernel

    @property
    def loop_kernel(self) -> LoopKernel:
        """The kernel, for strategies of loop kernels."""
        return self.kernel_as(LoopKernel)

    @property
    def loops(self) -> Decision:
        """The schedule of a loop kernel, and what it refused."""
        if self._loops is None:
            self._loops = decide_loops(self.loop_kernel, self.vectors)
        return self._loops
