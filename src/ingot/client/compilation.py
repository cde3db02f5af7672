# SPDX-License-Identifier: Apache-2.0
"""Compiling a module that no cache has: passes, kernels, code, with the dumps and logs on the way.

`client.compile` comes here. Invariant: everything of the compiler is imported from here on, and not
by a process that finds its programs on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ingot.client.executables.executable import Executable
from ingot.client.options import AnyStage
from ingot.client.reports.dump import AFTER, BEFORE, Dump, print_module, subject_text
from ingot.client.reports.inspection import CpuInspection
from ingot.client.reports.memory_report import memory_usage_report
from ingot.client.reports.reproducer import reproducible
from ingot.cpu.compiler import compile_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pass_base import Stage as PassStage
from ingot.hlo.size_definitions import defines_sizes
from ingot.hlo.verifier import verify
from ingot.llvm.target import TargetSpec
from ingot.semantics import custom_calls
from ingot.support import flags
from ingot.support.collector import collector_paused
from ingot.support.forking import defers_fork
from ingot.support.lazy import function_at_home
from ingot.support.timing import PhaseTimer
from ingot.support.tracing import Level, enabled, log, log_text
from ingot.support.xla_flags import XlaFlags, current_xla_flags

if TYPE_CHECKING:
    from ingot.client.executables.gpu_executable import GpuExecutable
    from ingot.client.executables.gpu_staged import GpuStagedExecutable
    from ingot.client.executables.staged import StagedExecutable
    from ingot.runtime.cuda.devices import Device


_compile_staged = function_at_home("ingot.client.executables.staged", "compile_staged")

custom_calls.before_use(
    function_at_home("ingot.runtime.foreign.builtin", "register_builtin_targets")
)


@defers_fork
def compile_for_cpu(
    module: Module,
    context: PassContext | None,
    target: TargetSpec,
    xla_flags: XlaFlags,
    is_final: bool,
) -> Executable | StagedExecutable:
    """Compile a module with the settings in force; see `ingot.compile`."""
    timer = PhaseTimer()
    dump = Dump(module.name, xla_flags)
    options = context if context is not None else default_context(xla_flags)
    if options.dump is None:
        options.dump = _after_pass(dump)
    dump.module(BEFORE, module)  # Before anything can fail.
    with reproducible(module), collector_paused(), timer.phase("compile"):
        working = module.clone()
        before = module if is_final else module.clone()
        if defines_sizes(working):

            def report(stage: Executable) -> None:
                dumped = Dump(stage.source.name, xla_flags)
                dumped.module(BEFORE, stage.source)
                _report(stage, stage.source, dumped)

            return _compile_staged(working, before, options, target, timer, report)
        stages = _stages(working, before, options, target, timer)
        with timer.phase("link"):
            executable = Executable.of(stages, timer)
    _report(executable, module, dump)
    return executable


def stages_again(source: Module, target: TargetSpec, xla_flags: XlaFlags) -> CpuInspection:
    """Return the stages of the compilation of a program that came from the disk."""
    options = default_context(xla_flags)
    with reproducible(source), collector_paused():
        return _stages(source.clone(), source, options, target, PhaseTimer())


def _stages(
    module: Module, source: Module, context: PassContext, target: TargetSpec, timer: PhaseTimer
) -> CpuInspection:
    """Compile a module, which is consumed; `source` is a copy of it."""
    compiled = compile_module(module, context, target, timer)
    return CpuInspection(compiled, source, context, target)


@defers_fork
def compile_for_gpu(
    module: Module,
    context: PassContext | None,
    gpu: Device,
    xla_flags: XlaFlags | None,
    is_final: bool,
) -> GpuExecutable | GpuStagedExecutable:
    """Compile a module for a GPU with the settings in force; see `ingot.compile`."""
    from ingot.client.executables.gpu_executable import GpuExecutable
    from ingot.client.executables.gpu_staged import compile_any_for_gpu

    verify(module)
    timer = PhaseTimer()
    xla_flags = xla_flags if xla_flags is not None else current_xla_flags()
    dump = Dump(module.name, xla_flags)
    options = context if context is not None else default_context(xla_flags)
    if options.dump is None:
        options.dump = _after_pass(dump)
    dump.module(BEFORE, module)
    with reproducible(module), collector_paused(), timer.phase("compile"):
        working, before = module.clone(), module if is_final else module.clone()
        executable = compile_any_for_gpu(working, before, options, gpu, timer)
    if isinstance(executable, GpuExecutable):
        _dump_gpu(executable, dump)
        return executable
    for stage in executable.executables:
        stage_dump = Dump(stage.source.name, xla_flags)
        stage_dump.module(BEFORE, stage.source)
        _dump_gpu(stage, stage_dump)
    return executable


def _dump_gpu(executable: GpuExecutable, dump: Dump) -> None:
    """Write the dumps of a program for a GPU that were asked for."""
    if dump.active:
        _dump_texts(executable, dump, {"ir-no-opt.ll": "llvm", "ptx": "ptx"})


def _report(executable: Executable, module: Module, dump: Dump) -> None:
    """Write the dumps that were asked for, and the log lines of `INGOT_DEBUG`."""
    if dump.active:
        if dump.takes_snapshots:
            from ingot.client.executables.snapshots import dump_snapshots

            dump_snapshots(executable, dump)
        code: dict[str, AnyStage] = {"ir-no-opt.ll": "llvm", "ir-with-opt.ll": "llvm_optimized"}
        _dump_texts(executable, dump, code)
    if not enabled(Level.COMPILATION):
        return
    log(
        Level.COMPILATION,
        "compiled",
        module=module.name,
        instructions=module.instruction_count,
        kernels=len(executable.kernels),
        seconds=f"{executable.timer.root.children['compile'].seconds:.3f}",
    )
    for kernel in executable.kernels if enabled(Level.PASS) else ():
        log(
            Level.PASS,
            "kernel",
            name=kernel.name,
            fusion=kernel.fusion,
            opcodes=",".join(kernel.opcodes),
            bytes=kernel.bytes_read + kernel.bytes_written,
            flops=kernel.flops,
        )
    for decision in executable.fusion_log if enabled(Level.REWRITE) else ():
        log(Level.REWRITE, "fusion", decision=decision)
    log_text(Level.EVERYTHING, "buffers", partial(executable.as_text, "buffers"))
    log_text(Level.EVERYTHING, "kernels", partial(executable.as_text, "kernel"))
    log_text(Level.EVERYTHING, "llvm", partial(executable.as_text, "llvm"))


def _dump_texts(
    executable: Executable | GpuExecutable, dump: Dump, code: Mapping[str, AnyStage]
) -> None:
    """Write the program after the passes, and its code: the stage of each suffix."""
    texts: dict[str, AnyStage] = {
        f"{AFTER}.txt": "hlo",
        f"{AFTER}-buffer-assignment.txt": "buffers",
        "kernels.txt": "kernel",
        **code,
    }
    for suffix, stage in texts.items():
        dump.text(suffix, lambda stage=stage: executable.as_text(stage))
    usage = partial(memory_usage_report, executable.assignment)
    dump.text(f"{AFTER}-memory-usage-report.txt", usage)
    dump.formats(AFTER, executable.module)


def _after_pass(dump: Dump) -> Callable[[PassStage, object], None] | None:
    """Return a callback for the module or kernel after each pass; None if none is dumped."""
    if not enabled(Level.PROGRAM):
        return dump.stage if dump.active else None

    def show(stage: PassStage, subject: object) -> None:
        dump.stage(stage, subject)
        if isinstance(subject, Module):
            log_text(Level.PROGRAM, f"module {stage}", lambda: print_module(subject))
        else:
            log_text(Level.PROGRAM, f"loops {stage}", lambda: subject_text(subject))

    return show


def default_context(xla_flags: XlaFlags | None = None) -> PassContext:
    """Return the pass options that the environment asks for."""
    disabled = (xla_flags or current_xla_flags()).disable_hlo_passes
    return PassContext(
        disabled=frozenset(disabled),
        fp=Fp.of(flags.FP.value()),
        debug=1 if flags.DEBUG.value() >= flags.CHECKS else 0,
        verify_each=flags.DEBUG.value() >= 1,
        pass_fuel=flags.PASS_FUEL.value(),
        rewrite_fuel=flags.REWRITE_FUEL.value(),
        to_text=print_module,
    )
