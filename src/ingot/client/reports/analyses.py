# SPDX-License-Identifier: Apache-2.0
"""The memory and the costs of a compiled program, by JAX's names.

`Executable` and the PJRT client return these. Sizes and costs of a program with symbolic sizes
are expressions (`Dim`), which `ingot.hlo.dim.evaluate` computes for given sizes.

Source: jax/_src/stages.py (Compiled.cost_analysis, memory_analysis), XLA's CompiledMemoryStats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot.artifact.artifact import Artifact
from ingot.artifact.facts import MemoryAnalysis, Size
from ingot.hlo import dim
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.records import record

if TYPE_CHECKING:
    from ingot.host.kernel_info import KernelInfo


@record
class Aval:
    """Shape and element type of one flattened argument or result.

    Attributes:
        shape: its dimensions; a symbolic size is a `Dim`.
        dtype: the NumPy type of its elements (those of ml_dtypes for narrow floats).
    """

    shape: tuple[Size, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


class Described(ABC):
    """What follows from the source of a program and from its kernels, on any target."""

    __slots__ = ()

    @property
    @abstractmethod
    def source(self) -> Module:
        """The module before the passes; it must not be changed."""

    @property
    @abstractmethod
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Every kernel call, in the order in which they run."""

    @property
    def in_avals(self) -> tuple[Aval, ...]:
        """Shape and element type of each flattened argument."""
        return avals(self.source.parameter_shapes)

    @property
    def out_avals(self) -> tuple[Aval, ...]:
        """Shape and element type of each flattened result; computed sizes are symbolic."""
        return avals((self.source.result_shape,))

    def cost_analysis(self) -> dict[str, Any]:
        """Return the costs of one execution, by XLA's names; each kernel is counted once.

        `flops` (operations), `transcendentals` (which are among them), `bytes accessed` and
        `bytes accessed output` (bytes) are floats, or expressions (`Dim`) of a program with
        symbolic sizes.
        """
        return cost_analysis(self.kernels)


def avals(shapes: Sequence[Shape]) -> tuple[Aval, ...]:
    """Return the flattened arrays of shapes; tokens have none."""
    return tuple(Aval(tuple(leaf.dims), leaf.dtype.numpy) for leaf in _arrays(shapes))


def cost_analysis(kernels: Iterable[KernelInfo]) -> dict[str, Any]:
    """Return the costs of one execution of kernels, each once: loops are not multiplied out.

    Returns `flops`, `transcendentals` (which are among them), `bytes accessed` and
    `bytes accessed output`; a float, or an expression.
    """
    flops: Size = 0
    transcendentals: Size = 0
    read: Size = 0
    written: Size = 0
    for row in kernels:
        flops, read = flops + row.flops, read + row.bytes_read
        transcendentals = transcendentals + row.transcendentals
        written = written + row.bytes_written
    costs = {
        "flops": flops,
        "transcendentals": transcendentals,
        "bytes accessed": read + written,
        "bytes accessed output": written,
    }
    return {name: float(cost) if isinstance(cost, int) else cost for name, cost in costs.items()}


def memory_analysis(module: Module, artifact: Artifact) -> MemoryAnalysis:
    """Return the memory of a program whose module after all passes is `module`."""
    arguments = _sizes(module.parameter_shapes)
    outputs = _sizes((module.result_shape,))
    aliased: Size = 0
    for row, size in zip(artifact.info.outputs, outputs, strict=True):
        aliased = aliased + (size if row.alias_param is not None else 0)
    given, made, temporary = _sum(arguments), _sum(outputs), artifact.arena_bytes
    return MemoryAnalysis(
        generated_code_size_in_bytes=artifact.code_bytes,
        argument_size_in_bytes=given,
        output_size_in_bytes=made,
        alias_size_in_bytes=aliased,
        temp_size_in_bytes=temporary,
        peak_memory_in_bytes=given + made - aliased + temporary,
    )


def _arrays(shapes: Sequence[Shape]) -> list[Shape]:
    return [leaf for shape in shapes for _, leaf in shape.leaves() if leaf.is_array]


def _sizes(shapes: Sequence[Shape]) -> list[Size]:
    """Return the bytes of each leaf, tokens included."""
    leaves = [leaf for shape in shapes for _, leaf in shape.leaves()]
    return [dim.product(leaf.dims) * leaf.dtype.bytes if leaf.is_array else 0 for leaf in leaves]


def _sum(sizes: Sequence[Size]) -> Size:
    total: Size = 0
    for size in sizes:
        total = total + size
    return total
