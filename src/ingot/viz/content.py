# SPDX-License-Identifier: Apache-2.0
"""The content of a report: a tree of records, from which text, JSON and page are made.

Invariant: nothing here refers to the executable, so a report can outlive it. Numbers of kernels are
indices in `ProgramReport.kernels`. A size is an integer in bytes (or operations, for FLOPs), or the
text of an expression where the program has symbolic sizes.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from ingot.support.observing import Observation
from ingot.support.records import record

Size: TypeAlias = int | str


@record
class KernelReport:
    """One kernel call, in the order in which they run.

    Attributes:
        number: its index.
        name: symbol, `k_` and a fingerprint; equal kernels have one name.
        instruction: the fusion instruction that calls it.
        kind: XLA's fusion kind.
        opcodes, instructions: the fused instructions.
        lines: their source locations (file:line), each once.
        op_name: the framework's name; may be empty.
        bytes_read, bytes_written: memory traffic of one call.
        flops: arithmetic operations of one call.
        strategy: how it runs: "lanes", "square tiles", "product", ...
        refused: the strategies tried before, each with the reason why it did not take the kernel.
        bound: what limits it by the model of the machine: "memory", "compute", "latency", or empty.
        feeds: the kernels that read its results.
        live_bytes: bytes of temporaries and results that are live while it runs.
        seconds: time of one call if the program was run for the report, else None.
        roofline: share of this machine's limit (`client.roofline`) that it reached, else None.
        hlo, kernel_ir, llvm_ir: its code at three stages.
        schedule: the loops that it runs as, or the library code.
    """

    number: int
    name: str
    instruction: str
    kind: str
    opcodes: tuple[str, ...]
    instructions: tuple[str, ...]
    lines: tuple[str, ...]
    op_name: str
    bytes_read: Size
    bytes_written: Size
    flops: Size
    strategy: str
    refused: tuple[tuple[str, str], ...]
    bound: str
    feeds: tuple[int, ...]
    live_bytes: int
    seconds: float | None
    roofline: float | None
    hlo: str
    kernel_ir: str
    schedule: str
    llvm_ir: str


@record
class SourceLine:
    """A line of the user's program: its location, its text if the file can be read, its kernels."""

    location: str
    text: str
    kernels: tuple[int, ...]


@record
class FusionReport:
    """Whether `producer` is computed in the kernel of `consumer`, and why or why not."""

    producer: str
    consumer: str
    fused: bool
    reason: str
    kernel: int | None


@record
class RewriteReport:
    """A rewrite that fired: the rule, its location in Ingot, the instruction before and after."""

    rule: str
    location: str
    before: str
    after: str


@record
class BufferReport:
    """A buffer that is live from kernel `first` to kernel `last` (-1: before the first kernel)."""

    allocation: str
    size: Size
    values: tuple[str, ...]
    first: int
    last: int


@record
class PhaseReport:
    """A phase of compilation: name, depth in the tree of phases, seconds, number of runs."""

    name: str
    depth: int
    seconds: float
    count: int


@record
class PassReport:
    """A pass: its pipeline, its name, seconds of all its runs, and how many changed the module."""

    pipeline: str
    name: str
    seconds: float
    runs: int
    changes: int


@record
class EventReport:
    """A kernel, foreign call or loop in the last execution.

    Attributes:
        name: its HLO instruction.
        kind: "kernel", "call" or "loop".
        kernel: its number, or None.
        depth: the number of loops that it is nested in.
        start: seconds from the beginning of the execution.
        seconds: its duration.
    """

    name: str
    kind: str
    kernel: int | None
    depth: int
    start: float
    seconds: float


@record
class CollectiveReport:
    """A collective of a partitioned program, on a described network.

    Attributes:
        opcode: `all-reduce`, ...
        line: the user's source location (file:line), or "".
        size: bytes of one device's operands.
        group: devices that meet; of a permute 2.
        nodes: nodes that they lie on.
        times: how often it runs in one execution.
        seconds: of all these times together.
        bound: "latency" or "bandwidth", whichever takes longer.
    """

    opcode: str
    line: str
    size: int
    group: int
    nodes: int
    times: int
    seconds: float
    bound: str


@record
class StepReport:
    """What one execution would cost on a described network, by models of machine and network.

    Attributes:
        network: the text of the network (`analysis.network.description`).
        seconds: of the execution.
        kernel_seconds: of all kernels.
        kernels: seconds of each kernel, of all its runs.
        collectives: the dearest first.
        unknown_loops: loops that count as one round, because nothing says how often they run.
    """

    network: str
    seconds: float
    kernel_seconds: float
    kernels: tuple[float, ...]
    collectives: tuple[CollectiveReport, ...]
    unknown_loops: int

    @property
    def collective_seconds(self) -> float:
        """Seconds of all collectives."""
        return sum(row.seconds for row in self.collectives)

    @property
    def hidden_seconds(self) -> float:
        """Seconds of collectives in which kernels run; what sums round is none."""
        whole = self.kernel_seconds + self.collective_seconds
        return 0.0 if math.isclose(whole, self.seconds) else whole - self.seconds


@record
class ProgramReport:
    """One compiled program.

    Attributes:
        name: the name of the module.
        target: LLVM triple and CPU.
        arguments, results: shape and type of each flattened array.
        instructions_before: HLO instructions before the passes.
        kernels, lines, fusions, rewrites, buffers, phases, passes: see their types.
        memory: bytes by XLA's names (`CompiledMemoryStats`).
        hlo_before, hlo: the module before and after the passes.
        execution: the events of the last execution, if the program was run for the report; those
            that take less than a thousandth of it are left out.
        step: what an execution would cost on the network that was described, if one was.
    """

    name: str
    target: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    instructions_before: int
    kernels: tuple[KernelReport, ...]
    lines: tuple[SourceLine, ...]
    fusions: tuple[FusionReport, ...]
    rewrites: tuple[RewriteReport, ...]
    buffers: tuple[BufferReport, ...]
    phases: tuple[PhaseReport, ...]
    passes: tuple[PassReport, ...]
    memory: dict[str, Size]
    hlo_before: str
    hlo: str
    execution: tuple[EventReport, ...] = ()
    step: StepReport | None = None

    @property
    def execution_seconds(self) -> float:
        """Seconds from the first to the last event of the last execution."""
        return max((event.start + event.seconds for event in self.execution), default=0.0)

    @property
    def compile_seconds(self) -> float:
        """Seconds of the whole compilation."""
        return sum(phase.seconds for phase in self.phases if phase.depth == 0)


@record
class ReportContent:
    """Everything that a report says.

    Attributes:
        programs: the compiled programs; a function that was compiled for several shapes or that
            runs in stages has several.
        observations: functions that were compiled again, and parts that run on the host, each with
            the reasons, as observed while the report was made.
    """

    programs: tuple[ProgramReport, ...]
    observations: tuple[Observation, ...] = ()
