# SPDX-License-Identifier: Apache-2.0
"""What each kernel of a compiled program is, for reports (`executable.kernels`).

Rows are made on demand, from the fusions of the final module and the set of its kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ingot.analysis.cost import fusion_cost
from ingot.hlo.dim import Dim, evaluate, symbols_of
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.structure import memoize_by_structure
from ingot.host.program_kernels import ProgramKernels
from ingot.llvm.machine_model import Roofline
from ingot.support.diagnostics import SourceLocation
from ingot.support.records import record, replace

_UNREPORTED = ops_with(Trait.LEAF, also=("tuple",))


@record
class KernelInfo:
    """What one kernel of a program is and where it comes from.

    Attributes:
        name: symbol, `k_` and a fingerprint; equal kernels have one name.
        fusion: name of the fusion instruction that calls it.
        kind: XLA's fusion kind.
        instructions: names of the fused HLO instructions.
        opcodes: their opcodes.
        lines: the user's source locations (file:line), each once.
        bytes_read, bytes_written: memory traffic per call in bytes.
        flops: arithmetic operations per call.
        transcendentals: those of them that are exponentials, divisions and the like.
        bound: what limits it by `model`: "memory", "compute" or "latency"; empty where that depends
            on symbolic sizes (`at` gives it for some sizes).
        strategy: how it runs: "square tiles", "Winograd convolution", ...
        refused: the strategies tried before, each with the reason why it did not take the kernel.
        model: the rates of what it runs on: of the CPU (`llvm.machine_model`) or GPU
            (`gpu.machine`).
    """

    name: str
    fusion: str
    kind: str
    instructions: tuple[str, ...]
    opcodes: tuple[str, ...]
    lines: tuple[str, ...]
    bytes_read: int | Dim
    bytes_written: int | Dim
    flops: int | Dim
    transcendentals: int | Dim
    bound: str
    strategy: str
    refused: tuple[tuple[str, str], ...]
    model: Roofline = field(compare=False, repr=False)

    def at(self, sizes: Mapping[str, int]) -> KernelInfo:
        """Return the row at some values of the symbolic sizes: numbers, and what limits it then.

        Args:
            sizes: the values by name; sizes that are not given stay symbolic.
        """
        made = replace(
            self,
            bytes_read=_at(self.bytes_read, sizes),
            bytes_written=_at(self.bytes_written, sizes),
            flops=_at(self.flops, sizes),
            transcendentals=_at(self.transcendentals, sizes),
        )
        return replace(made, bound=made._bound())

    def _bound(self) -> str:
        """Return what limits the kernel; nothing where its sizes are not known."""
        moved, flops = self.bytes_read + self.bytes_written, self.flops
        transcendentals = self.transcendentals
        if isinstance(moved, int) and isinstance(flops, int) and isinstance(transcendentals, int):
            return self.model.bound(moved, flops, transcendentals)
        return ""


def kernel_info(fusion: Instruction, kernels: ProgramKernels) -> KernelInfo:
    """Return the row of one kernel call."""
    fused = fusion.attributes.calls
    reported = [i for i in fused.post_order() if i.opcode not in _UNREPORTED]
    locations = dict.fromkeys([(i.metadata.source_file, i.metadata.source_line) for i in reported])
    cost = memoize_by_structure(fusion_cost, fused)
    return KernelInfo(
        kernels.names[fusion],
        fusion.name,
        fusion.attributes.kind,
        tuple([i.name for i in reported]),
        tuple([i.opcode for i in reported]),
        tuple([str(SourceLocation(*where)) for where in locations if where[0]]),
        cost.bytes_read,
        cost.bytes_written,
        cost.flops,
        cost.transcendentals,
        "",
        kernels.strategy(fusion),
        kernels.refused(fusion),
        kernels.model,
    ).at({})


def _at(size: int | Dim, sizes: Mapping[str, int]) -> int | Dim:
    """Return a number, if all symbolic sizes in `size` have values."""
    return evaluate(size, sizes) if symbols_of((size,)) <= sizes.keys() else size
