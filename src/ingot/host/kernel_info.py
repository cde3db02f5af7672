# SPDX-License-Identifier: Apache-2.0
"""What each kernel of a compiled program is, for reports (`executable.kernels`).

Rows are made on demand, from the fusions of the final module and the set of its kernels.
"""

from __future__ import annotations

from ingot.analysis.cost import Cost, fusion_cost
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.structure import memoize_by_structure
from ingot.host.program_kernels import ProgramKernels
from ingot.support.diagnostics import SourceLocation
from ingot.support.records import record

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
        bound: what limits it by the model of the machine (`llvm.machine_model`): "memory",
            "compute" or "latency"; empty where that depends on symbolic sizes.
        strategy: how it runs: "square tiles", "Winograd convolution", ...
        refused: the strategies tried before, each with the reason why it did not take the kernel.
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
    refused: tuple[tuple[str, str], ...] = ()


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
        _bound(cost, kernels),
        kernels.strategy(fusion),
        kernels.refused(fusion),
    )


def _bound(cost: Cost, kernels: ProgramKernels) -> str:
    """Return what limits a kernel; nothing where its sizes are not known."""
    moved = cost.bytes_read + cost.bytes_written
    flops, transcendentals = cost.flops, cost.transcendentals
    if isinstance(moved, int) and isinstance(flops, int) and isinstance(transcendentals, int):
        return kernels.bound(moved, flops, transcendentals)
    return ""
