# SPDX-License-Identifier: Apache-2.0
"""What the compilers of all targets return: an artifact and what the stages on the way made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from ingot.artifact.artifact import Artifact
from ingot.hlo.module import Module

if TYPE_CHECKING:
    from ingot.host.program_kernels import ProgramKernels
    from ingot.passes.buffers.buffer_table import BufferAssignment


class Compiled(Protocol):
    """A compiled program of any target, with the results of its compilation's stages."""

    @property
    def artifact(self) -> Artifact:
        """The program as data."""
        ...

    @property
    def module(self) -> Module:
        """The module after all passes."""
        ...

    @property
    def kernels(self) -> ProgramKernels:
        """The kernels."""
        ...

    @property
    def assignment(self) -> BufferAssignment:
        """Where each value lives."""
        ...


C = TypeVar("C", bound=Compiled)
