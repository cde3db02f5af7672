# SPDX-License-Identifier: Apache-2.0
"""What one execution of a partitioned program would cost on a described network.

Kernels take the longest of their limits by the machine's model (`llvm.machine_model`), collectives
the time of their formula (`analysis.network`). A collective that the program starts before it needs
the result is hidden as far as kernels run meanwhile; one network carries one collective after the
other. Bodies of loops count as often as they run; every branch of a conditional counts once, and so
does the body of a loop whose number of rounds is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from ingot.analysis.network.description import Network
from ingot.analysis.network.events import simulate
from ingot.analysis.network.formulas import FORMULAS, Placement, seconds_of
from ingot.client.executables.executable import Executable
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.opset.collective import Groups
from ingot.llvm.machine_model import MachineModel
from ingot.semantics.device_groups import Grid, grid_of, groups_of, pairs_of
from ingot.semantics.foreign_calls import DONE, START
from ingot.semantics.trip_counts import known_trip_count
from ingot.support.diagnostics import ArgumentError
from ingot.support.records import record
from ingot.viz.content import CollectiveReport, StepReport

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
    rows = {
        op: _row(op, grid, network)
        for computation, times in counts.items()
        for op in (computation.instructions if times else ())
        if op.opcode == _PERMUTE or (op.opcode, network.algorithm) in FORMULAS
    }
    once = _kernel_seconds(executable)
    kernels = tuple(counts[op.computation] * seconds for op, seconds in once.items())
    collectives = sorted(_reports(rows, counts), key=lambda row: -row.seconds)
    elapsed = _elapsed(module, once | {op: row.seconds for op, row in rows.items()})
    return StepReport(str(network), elapsed, sum(kernels), kernels, tuple(collectives), unknown)


def _runs(module: Module) -> tuple[dict[Computation, int], int]:
    """Return how often each computation runs, and for how many loops that is not known."""
    counts: defaultdict[Computation, int] = defaultdict(int, {module.entry: 1})
    unknown = 0
    for computation in reversed(module.post_order()):
        times = counts[computation]
        for op in computation.instructions if times else ():
            if op.opcode == "while":
                unknown += known_trip_count(op) is None
                rounds = _rounds(op)
                counts[op.attributes.condition] += times * (rounds + 1)
                counts[op.attributes.body] += times * rounds
            else:
                for called in op.called_computations:
                    counts[called] += times
    return counts, unknown


def _rounds(loop: Instruction) -> int:
    """Return how often the body of a loop runs; 1 if that is not known."""
    rounds = known_trip_count(loop)
    return 1 if rounds is None else rounds


def _kernel_seconds(executable: Executable) -> dict[Instruction, float]:
    """Return the seconds of a run of each kernel, in their order, on a machine like the target."""
    model = MachineModel.of(executable.kernel_set.target)
    fusions = [one for order in executable.module.schedule.values()
               for one in order if one.opcode == "fusion"]  # fmt: skip
    found: dict[Instruction, float] = {}
    for kernel, fusion in zip(executable.kernels, fusions, strict=True):
        moved, flops = kernel.bytes_read + kernel.bytes_written, kernel.flops
        work = [_known(size) for size in (moved, flops, kernel.transcendentals)]
        found[fusion] = model.seconds(*work)
    return found


def _elapsed(module: Module, seconds: dict[Instruction, float]) -> float:
    """Return how long the program takes when collectives that it started go on beside kernels.

    Args:
        module: the scheduled module.
        seconds: of a run of each kernel and of each collective.
    """
    known: dict[Computation, float] = {}
    for computation in module.post_order():
        if computation in module.schedule:
            known[computation] = _elapsed_in(module.schedule[computation], seconds, known)
    return known[module.entry]


def _elapsed_in(
    order: Sequence[Instruction],
    seconds: dict[Instruction, float],
    known: dict[Computation, float],
) -> float:
    """Return the seconds of a computation; `known` has those of all that it runs."""
    clock = network = 0.0
    arrival: dict[Instruction, float] = {}
    for op in order:
        if op.opcode == START:
            begun = (one for called in op.called_computations for one in called.instructions)
            network = max(clock, network) + sum(seconds.get(one, 0.0) for one in begun)
            arrival[op] = network
        elif op.opcode == DONE:
            clock = max(clock, arrival.get(op.operands[0], clock))
        elif op.has(Trait.EXCHANGE):
            clock = network = max(clock, network) + seconds.get(op, 0.0)
        elif op.opcode == "while":
            rounds = _rounds(op)
            condition, body = known[op.attributes.condition], known[op.attributes.body]
            clock += condition * (rounds + 1) + body * rounds
        else:
            clock += seconds.get(op, 0.0)
            clock += sum(known.get(called, 0.0) for called in op.called_computations)
    return max(clock, network)


def _known(size: object) -> int:
    if isinstance(size, int):
        return size
    raise ArgumentError(
        f"a kernel or a collective works on {size} elements or bytes, which is known only when "
        "the program runs",
        hint="give explain a program with static sizes",
    )


@record
class _Row:
    """A collective as the report groups them, and the seconds of one run."""

    opcode: str
    size: int
    line: str
    placement: Placement
    seconds: float
    is_latency: bool


def _row(op: Instruction, grid: Grid, network: Network) -> _Row:
    opcode, size = op.opcode, _known(op.operands[0].shape.bytes)
    line = str(op.metadata.location or "")
    if opcode == _PERMUTE:
        placement, empty, full = _permuted(pairs_of(op, grid), network, size)
        return _Row(opcode, size, line, placement, full, empty > full / 2)
    placement = _placement(groups_of(op, grid), network)
    return _Row(opcode, size, line, placement, *seconds_of(opcode, size, placement, network))


def _reports(
    rows: dict[Instruction, _Row], counts: dict[Computation, int]
) -> list[CollectiveReport]:
    """Return the collectives, those that differ in nothing as one."""
    times: defaultdict[_Row, int] = defaultdict(int)
    for op, row in rows.items():
        times[row] += counts[op.computation]
    return [
        CollectiveReport(
            opcode=row.opcode,
            line=row.line,
            size=row.size,
            group=row.placement.size,
            nodes=-(-row.placement.size // row.placement.local),
            times=count,
            seconds=count * row.seconds,
            bound="latency" if row.is_latency else "bandwidth",
        )
        for row, count in times.items()
    ]


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
