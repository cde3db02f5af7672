# SPDX-License-Identifier: Apache-2.0
"""The kernels of a program, on any target: fusions lowered to kernel IR, equal ones once.

A target derives from `ProgramKernels` and makes code of what `lowered` gives (`cpu.kernels`,
`gpu.kernels`). Invariant: a kernel's name follows from its kernel IR, so equal kernels have one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.structure import memoize_by_structure
from ingot.host.unsupported import with_origin
from ingot.kernel.ir import Kernel
from ingot.kernel.lowering import kernel_history, lower_fusion
from ingot.kernel.text import fingerprint, kernel_text
from ingot.kernel.verifier import verify_kernel
from ingot.llvm.machine_model import Roofline
from ingot.support.diagnostics import UnsupportedError


class ProgramKernels(ABC):
    """The kernels of one program.

    Attributes:
        context: which kernel passes run, and their record.
        names: the symbol of each fusion's kernel.
    """

    def __init__(self, context: PassContext) -> None:
        """Have no kernels yet."""
        self.context = context
        self.names: dict[Instruction, str] = {}

    @property
    @abstractmethod
    def sources(self) -> Mapping[str, Kernel]:
        """The kernel IR of each kernel, by name."""

    @abstractmethod
    def strategy(self, fusion: Instruction) -> str:
        """Return in words how the kernel of a fusion runs."""

    @abstractmethod
    def refused(self, fusion: Instruction) -> tuple[tuple[str, str], ...]:
        """Return the strategies that refused the kernel of a fusion, and their reasons."""

    @property
    @abstractmethod
    def model(self) -> Roofline:
        """The rates of what the kernels run on."""

    @abstractmethod
    def schedule(self, name: str) -> str:
        """Return how the kernel of a name runs, as text that begins with its strategy."""

    def lowered(self, fusion: Instruction) -> tuple[str, Kernel]:
        """Return the name and the kernel IR of a fusion's kernel.

        Raises:
            UnsupportedError: there is no kernel for an op; the message names the user's.
        """
        name, kernel = memoize_by_structure(self._lowered, fusion.attributes.calls)
        self.names[fusion] = name
        return name, kernel

    def text(self) -> str:
        """Return the kernel IR of all kernels."""
        rows = self.sources.items()
        return "\n".join(f"{name}: {kernel_text(kernel)}" for name, kernel in rows)

    def schedules(self) -> str:
        """Return how all kernels run."""
        return "\n".join(f"{name}: {self.schedule(name)}" for name in self.sources)

    def history(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, stage and kernel IR of all kernels, as built and after each pass.

        The stage is "built", or the pass; passes that changed nothing are left out.
        """
        firsts = {name: fusion for fusion, name in reversed(self.names.items())}
        for name, fusion in firsts.items():
            for stage, kernel in kernel_history(fusion.attributes.calls, self.context):
                yield name, stage, kernel_text(kernel)

    def _lowered(self, fused: Computation) -> tuple[str, Kernel]:
        try:
            kernel = lower_fusion(fused, self.context)
        except UnsupportedError as error:
            raise with_origin(error, fused) from error
        if self.context.debug:
            verify_kernel(kernel, "lowering")
        return f"k_{fingerprint(kernel)}", kernel
