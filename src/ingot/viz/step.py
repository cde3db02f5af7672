# SPDX-License-Identifier: Apache-2.0
"""What one execution of a partitioned program would cost on a described network.

Kernels take the longest of their limits by the machine's model (`llvm.machine_model`), collectives
the time of their formula (`analysis.network`). What of them runs meanwhile is not taken off: the
sum is an upper bound. Bodies of loops count as often as they run; every branch of a conditional
counts once, and so does the body of a loop whose number of rounds is not known.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

from ingot.analysis.network.description import Network
from ingot.analysis.network.events import simulate
from ingot.analysis.network.formulas import FORMULAS, Placement, seconds_of
from ingot.client.executable import Executable
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.collective import Groups
from ingot.llvm.machine_model import MachineModel
from ingot.semantics.device_groups import Grid, grid_of, groups_of, pairs_of
from ingot.semantics.trip_counts import known_trip_count
from ingot.support.diagnostics import ArgumentError
from ingot.viz.report import CollectiveReport, StepReport

_PERMUTE = "collective-permute"


def step_report(executable: Executable, network: Network) -> StepReport:
    """Return the cost of one execution.

    Raises:
        ArgumentError: INGOT0513, the network has another number of devices than the program, or
            the program has sizes that are known only when it runs.
    """
    module = executable.module
    grid = grid_of(module)
    if grid.devices != network.devices:
        raise ArgumentError(
            f"the program runs on {grid.devices} devices, and the network '{network}' has "
            f"{network.devices}",
            hint="divide the program with ingot.partition, and describe as many devices",
        )
    counts, unknown = _runs(module)
    rows = _collectives(counts, grid, network)
    kernels = _kernel_seconds(executable, counts)
    collectives = tuple(sorted(rows, key=lambda row: -row.seconds))
    return StepReport(str(network), sum(kernels), kernels, collectives, unknown)


def _runs(module: Module) -> tuple[dict[Computation, int], int]:
    """Return how often each computation runs, and for how many loops that is not known."""
    counts: defaultdict[Computation, int] = defaultdict(int, {module.entry: 1})
    unknown = 0
    for computation in reversed(module.post_order()):
        times = counts[computation]
        for op in computation.instructions if times else ():
            if op.opcode == "while":
                rounds = known_trip_count(op)
                unknown += rounds is None
                rounds = 1 if rounds is None else rounds
                counts[op.attributes.condition] += times * (rounds + 1)
                counts[op.attributes.body] += times * rounds
            else:
                for called in op.called_computations:
                    counts[called] += times
    return counts, unknown


def _kernel_seconds(executable: Executable, counts: dict[Computation, int]) -> tuple[float, ...]:
    """Return the seconds of all runs of each kernel, on a machine like the target."""
    model = MachineModel.of(executable.kernel_set.target)
    homes = [home for home, order in executable.module.schedule.items()
             for one in order if one.opcode == "fusion"]  # fmt: skip
    found: list[float] = []
    for kernel, home in zip(executable.kernels, homes, strict=True):
        moved, flops = kernel.bytes_read + kernel.bytes_written, kernel.flops
        work = [_known(size) for size in (moved, flops, kernel.transcendentals)]
        found.append(counts[home] * model.seconds(*work))
    return tuple(found)


def _known(size: object) -> int:
    if isinstance(size, int):
        return size
    raise ArgumentError(
        f"a kernel or a collective works on {size} elements or bytes, which is known only when "
        "the program runs",
        hint="give explain a program with static sizes",
    )


def _collectives(
    counts: dict[Computation, int], grid: Grid, network: Network
) -> list[CollectiveReport]:
    """Return the collectives, those that differ in nothing as one row."""
    rows: defaultdict[tuple[str, int, str, Placement, float, bool], int] = defaultdict(int)
    for computation, times in counts.items():
        for op in computation.instructions if times else ():
            if op.opcode == _PERMUTE or (op.opcode, network.algorithm) in FORMULAS:
                rows[_row(op, grid, network)] += times
    return [
        CollectiveReport(
            opcode=opcode,
            line=line,
            size=size,
            group=placement.size,
            nodes=-(-placement.size // placement.local),
            times=times,
            seconds=times * seconds,
            bound="latency" if is_latency else "bandwidth",
        )
        for (opcode, size, line, placement, seconds, is_latency), times in rows.items()
    ]


def _row(
    op: Instruction, grid: Grid, network: Network
) -> tuple[str, int, str, Placement, float, bool]:
    opcode, size = op.opcode, _known(op.operands[0].shape.bytes)
    line = str(op.metadata.location or "")
    if opcode == _PERMUTE:
        placement, empty, full = _permuted(pairs_of(op, grid), network, size)
        return opcode, size, line, placement, full, empty > full / 2
    placement = _placement(groups_of(op, grid), network)
    return opcode, size, line, placement, *seconds_of(opcode, size, placement, network)


def _permuted(pairs: Groups, network: Network, size: int) -> tuple[Placement, float, float]:
    """Return where pairs lie, and the seconds that a message of no bytes and of `size` takes."""
    apart = [(a, b) for a, b in pairs if a != b]
    crossing = any(network.node(a) != network.node(b) for a, b in apart)
    empty, full = (simulate([[(a, b, float(n)) for a, b in apart]], network) for n in (0, size))
    return Placement(2, 1 if crossing else 2, int(crossing)), empty, full


@lru_cache(1 << 8)
def _placement(groups: Groups, network: Network) -> Placement:
    """Return where groups of devices lie on the nodes."""
    local, sharing = 1, defaultdict[int, int](int)
    for group in groups:
        members: defaultdict[int, int] = defaultdict(int)
        for device in group:
            members[network.node(device)] += 1
        local = max(local, *members.values())
        for node in members if len(members) > 1 else ():
            sharing[node] += 1
    size = max((len(group) for group in groups), default=1)
    return Placement(size, local, max(sharing.values(), default=0))
