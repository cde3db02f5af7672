# SPDX-License-Identifier: Apache-2.0
"""How long instructions of the host program take, as far as that can be known before they run.

Kernels take what their limit says on this machine, collectives what their formula says on a usual
network. A loop of unknown length is one round; of branches the longest counts.
"""

from __future__ import annotations

from ingot.analysis.cost import fusion_cost
from ingot.analysis.liveness import called_by_control_flow
from ingot.analysis.network.description import Network
from ingot.analysis.network.formulas import Placement, seconds_of
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.structure import memoize_by_structure
from ingot.llvm.machine_model import MachineModel
from ingot.llvm.target import TargetSpec
from ingot.passes.schedule.problem import typical
from ingot.semantics.device_groups import Grid, groups_of
from ingot.semantics.trip_counts import known_trip_count

USUAL = Network.parse("2 nodes of 1, inside 1us 10GB/s, between 50us 1.25GB/s, direct")
"""Ethernet of 10 Gbit/s, with the latency of TCP between machines of one room."""


class Estimates:
    """The seconds of instructions; of loops, only after those of their bodies (`add`)."""

    def __init__(self, grid: Grid) -> None:
        """Estimate for the devices of a grid."""
        self._grid = grid
        self._model = MachineModel.of(TargetSpec.host())
        self._bodies: dict[Computation, float] = {}
        self._known: dict[Instruction, float] = {}

    def add(self, computation: Computation) -> None:
        """Note the seconds of a computation whose callees are known."""
        self._bodies[computation] = sum(map(self.seconds, computation.instructions))

    def seconds(self, instruction: Instruction) -> float:
        """Return how long an instruction takes."""
        known = self._known.get(instruction)
        if known is None:
            known = self._known[instruction] = self._estimate(instruction)
        return known

    def _estimate(self, instruction: Instruction) -> float:
        if instruction.opcode == "fusion":
            return self._kernel(instruction)
        if instruction.has(Trait.EXCHANGE):
            return self._exchange(instruction)
        called = [self._bodies[one] for one in called_by_control_flow(instruction)]
        if instruction.opcode == "while":
            return sum(called) * (known_trip_count(instruction) or 1)
        if instruction.opcode == "call":
            return self._bodies[instruction.attributes.to_apply]
        return max(called, default=0.0)

    def _kernel(self, fusion: Instruction) -> float:
        cost = memoize_by_structure(fusion_cost, fusion.attributes.calls)
        moved = typical(cost.bytes_read) + typical(cost.bytes_written)
        return self._model.seconds(moved, typical(cost.flops), typical(cost.transcendentals))

    def _exchange(self, op: Instruction) -> float:
        """Return how long a collective takes whose devices are on machines of their own."""
        size = typical(op.operands[0].shape.bytes)
        if op.opcode == "collective-permute":
            return USUAL.between.seconds(size)
        devices = max(map(len, groups_of(op, self._grid)), default=1)
        return seconds_of(op.opcode, size, Placement(devices, 1, 1), USUAL)[0]
