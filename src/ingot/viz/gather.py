# SPDX-License-Identifier: Apache-2.0
"""From an executable to its report: only facts that the compiler knows are gathered.

Kernels are the first sites of a program (`host.sites`), so a kernel's number is that of its site.
"""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ingot.analysis.liveness import analyze_liveness
from ingot.analysis.network.description import Network
from ingot.client.executables.executable import Executable
from ingot.client.executables.inspected_stages import stages_refused
from ingot.client.executables.staged import StagedExecutable
from ingot.client.profiling.profile import Profile
from ingot.client.profiling.timings import Row, rows_of_runs
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pass_base import PassTiming
from ingot.host.sites import sites
from ingot.passes.fusion.groups import Decision
from ingot.support.observing import Observation
from ingot.support.timing import Phase
from ingot.viz.code import KernelTexts
from ingot.viz.content import (
    FusionReport,
    KernelReport,
    PassReport,
    PhaseReport,
    ProgramReport,
    RewriteReport,
    Size,
    SourceLine,
)
from ingot.viz.execution import last_execution, runs_of
from ingot.viz.flow import feeds_of
from ingot.viz.memory import live_bytes, made_buffers, rows_of
from ingot.viz.report import Report
from ingot.viz.step import step_report


def report_of(
    executables: Sequence[Executable | StagedExecutable],
    arguments: Sequence[Any] | None = None,
    observations: Sequence[Observation] = (),
    profile: Profile | None = None,
    network: Network | None = None,
) -> Report:
    """Return the report of executables.

    Args:
        executables: the compiled programs; each stage of a staged one is a program.
        arguments: flattened arguments on which the one executable is run, for the kernels' times.
        observations: the observations of front ends.
        profile: a profile of runs, for the kernels' times.
        network: a network on which the programs would run.

    Raises:
        ArgumentError: the network has another number of devices than a program.
        ExecutionError: the arguments do not fit.
        UnsupportedError: INGOT0361, arguments for a program that runs in stages.
    """
    if arguments is not None:
        profile = _profile(executables[0], arguments)
    programs: list[ProgramReport] = []
    for executable in executables:
        parts = executable.executables if isinstance(executable, StagedExecutable) else [executable]
        programs += [_program(part, profile, network) for part in parts]
    return Report(tuple(programs), tuple(dict.fromkeys(observations)))


def _profile(executable: Executable | StagedExecutable, arguments: Sequence[Any]) -> Profile:
    """Return the profile of three executions."""
    if isinstance(executable, StagedExecutable):
        hint = "explain it without arguments"
        raise stages_refused(executable.source, "with times for its kernels", hint)
    return executable.profile(*arguments, runs=3)


def _program(
    executable: Executable, profile: Profile | None, network: Network | None
) -> ProgramReport:
    module, notes = executable.module, executable.notes
    runs = [] if profile is None else runs_of(profile, executable)
    found = sites(module)[: len(executable.kernels)]
    position = analyze_liveness(module).position
    positions = [position[item] for item in found]
    feeds = feeds_of(found, position)
    buffers = made_buffers(executable.assignment)
    live = live_bytes(buffers, positions)
    rows = {row.site.name: row for row in rows_of_runs(runs)}
    kernels = _kernels(executable, found, rows, feeds, live)
    memory = executable.memory_analysis()
    names = _by_name(kernels)
    report = ProgramReport(
        name=module.name,
        target=executable.artifact.target,
        arguments=tuple(map(str, executable.in_avals)),
        results=tuple(map(str, executable.out_avals)),
        instructions_before=executable.source.instruction_count,
        kernels=kernels,
        lines=_lines(kernels),
        fusions=tuple(_fusion(item, names) for item in notes.remarks if isinstance(item, Decision)),
        rewrites=tuple(RewriteReport(f.rule, f.location, f.before, f.after) for f in notes.log),
        buffers=rows_of(buffers, positions),
        phases=_phases(executable.timer.root),
        passes=_passes(executable),
        memory={row.name: size_of(getattr(memory, row.name)) for row in fields(memory)},
        hlo_before=executable.as_text("hlo_before"),
        hlo=executable.as_text("hlo"),
        execution=last_execution(runs, len(kernels)),
        step=None if network is None else step_report(executable, network),
    )
    module.drop_analyses()
    return report


def _kernels(
    executable: Executable,
    found: Sequence[Instruction],
    rows: Mapping[str, Row],
    feeds: Sequence[tuple[int, ...]],
    live: Sequence[int],
) -> tuple[KernelReport, ...]:
    texts = KernelTexts(executable)
    ran = [rows.get(kernel.fusion) for kernel in executable.kernels]
    return tuple(
        KernelReport(
            number=number,
            name=kernel.name,
            instruction=kernel.fusion,
            kind=kernel.kind,
            opcodes=kernel.opcodes,
            instructions=kernel.instructions,
            lines=kernel.lines,
            op_name=site.metadata.op_name,
            bytes_read=size_of(kernel.bytes_read),
            bytes_written=size_of(kernel.bytes_written),
            flops=size_of(kernel.flops),
            strategy=kernel.strategy,
            refused=kernel.refused,
            bound=kernel.bound or ("" if row is None else row.bound),
            feeds=feeds[number],
            live_bytes=live[number],
            seconds=None if row is None else row.shortest,
            roofline=None if row is None else row.roofline,
            hlo=texts.hlo(site),
            kernel_ir=texts.kernel_ir(kernel.name),
            schedule=texts.schedule(kernel.name),
            llvm_ir=texts.llvm_ir(kernel.name),
        )
        for number, (kernel, site, row) in enumerate(
            zip(executable.kernels, found, ran, strict=True)
        )
    )


def size_of(size: int | Dim) -> Size:
    """Return a size as the report holds it."""
    return size if isinstance(size, int) else str(size)


def _lines(kernels: Sequence[KernelReport]) -> tuple[SourceLine, ...]:
    """Return the user's lines, by file and number."""
    users: defaultdict[str, list[int]] = defaultdict(list)
    for kernel in kernels:
        for location in kernel.lines:
            users[location].append(kernel.number)

    def order(location: str) -> tuple[str, int]:
        file, _, line = location.rpartition(":")
        return file, int(line) if line.isdecimal() else 0

    return tuple(
        SourceLine(location, linecache.getline(*order(location)).strip(), tuple(users[location]))
        for location in sorted(users, key=order)
    )


def _by_name(kernels: Sequence[KernelReport]) -> dict[str, int]:
    """Return the kernel of each instruction, by its name and by that without its number.

    Names of fused instructions are those of the graph with a number appended.
    """
    exact = {name: kernel.number for kernel in kernels for name in kernel.instructions}
    stems: dict[str, int] = {}
    for name, number in exact.items():
        stems.setdefault(_stem(name), number)
    return stems | exact


def _fusion(item: Decision, kernels: dict[str, int]) -> FusionReport:
    kernel = kernels.get(item.consumer)
    return FusionReport(item.producer, item.consumer, item.fused, item.reason, kernel)


def _stem(name: str) -> str:
    stem, _, number = name.rpartition(".")
    return stem if stem and number.isdecimal() else name


def _phases(root: Phase) -> tuple[PhaseReport, ...]:
    """Return the tree of phases, each before those within it."""
    rows: list[PhaseReport] = []
    waiting = [(child, 0) for child in reversed(root.children.values())]
    while waiting:
        phase, depth = waiting.pop()
        rows.append(PhaseReport(phase.name, depth, phase.seconds, phase.count))
        waiting += [(child, depth + 1) for child in reversed(phase.children.values())]
    return tuple(rows)


def _passes(executable: Executable) -> tuple[PassReport, ...]:
    """Return the passes, the slowest first."""
    rows: defaultdict[tuple[str, str], list[PassTiming]] = defaultdict(list)
    for timing in executable.notes.timings:
        rows[timing.pipeline, timing.name].append(timing)
    found = [
        PassReport(
            *key,
            seconds=sum(timing.nanoseconds for timing in row) / 1e9,
            runs=len(row),
            changes=sum(timing.changed for timing in row),
        )
        for key, row in rows.items()
    ]
    return tuple(sorted(found, key=lambda item: -item.seconds))
