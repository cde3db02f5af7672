# SPDX-License-Identifier: Apache-2.0
"""`ingot.compile`: a module in, an `Executable` out. Every front end enters here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal, overload

from ingot.client import shared
from ingot.client.dump import AFTER, BEFORE, Dump
from ingot.client.executable import Executable
from ingot.client.memory_report import memory_usage_report
from ingot.client.options import AnyStage, FpMode, ProgramLike, Settings, checked, module_of
from ingot.client.reproducer import reproducible
from ingot.client.staged import StagedExecutable, compile_staged
from ingot.client.threads import require_threads
from ingot.cpu.compiler import compile_module
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.pass_base import Stage as PassStage
from ingot.hlo.size_definitions import defines_sizes
from ingot.hlo.verifier import verify
from ingot.llvm.target import TargetSpec
from ingot.support import flags, xla_flags
from ingot.support.arguments import require_type
from ingot.support.collector import collector_paused
from ingot.support.diagnostics import ArgumentError
from ingot.support.forking import defers_fork
from ingot.support.timing import PhaseTimer
from ingot.support.tracing import Level, enabled, log, log_text

if TYPE_CHECKING:
    from ingot.client.gpu_executable import GpuExecutable
    from ingot.client.gpu_staged import GpuStagedExecutable
    from ingot.runtime.cuda.devices import Device


@overload
def compile(
    program: ProgramLike,
    *,
    threads: int | None = None,
    fp: FpMode | None = None,
    dump_to: str | os.PathLike[str] | None = None,
    context: PassContext | None = None,
    target: TargetSpec | None = None,
    device: Literal["cpu"] = "cpu",
    switches: xla_flags.XlaFlags | None = None,
    is_final: bool = False,
) -> Executable | StagedExecutable: ...
@overload
def compile(
    program: ProgramLike,
    *,
    fp: FpMode | None = None,
    dump_to: str | os.PathLike[str] | None = None,
    context: PassContext | None = None,
    device: str,
    switches: xla_flags.XlaFlags | None = None,
    is_final: bool = False,
) -> Executable | StagedExecutable | GpuExecutable | GpuStagedExecutable: ...
def compile(
    program: ProgramLike,
    *,
    threads: int | None = None,
    fp: FpMode | None = None,
    dump_to: str | os.PathLike[str] | None = None,
    context: PassContext | None = None,
    target: TargetSpec | None = None,
    device: str = "cpu",
    switches: xla_flags.XlaFlags | None = None,
    is_final: bool = False,
) -> Executable | StagedExecutable | GpuExecutable | GpuStagedExecutable:
    """Compile a program for this machine's CPU or a GPU. A given module is not changed.

    If an equal program was compiled before, is alive and has no state, it is returned again.

    Args:
        program: a module; HLO or StableHLO as text; StableHLO bytecode or a proto as bytes; or a
            path. Its shapes may have symbolic sizes.
        threads: the threads that run it, the caller included; default: those of the process
            (`INGOT_NUM_THREADS`).
        fp: the floating-point licence; default: from `ingot.config` or `INGOT_FP`.
        dump_to: a folder for the program at each stage, `-` for standard output; default: from
            `ingot.config`, `INGOT_DUMP_TO` or `XLA_FLAGS`.
        context: options of the passes, and their records; default: from `INGOT_*` variables.
        target: CPU to generate code for; default: this one.
        device: "cpu", "gpu", or a GPU by its number: "gpu:1"; with a GPU, no `threads` and no
            `target`.
        switches: dumps, and passes to leave out; default: from `XLA_FLAGS`.
        is_final: whether the module is not changed any more, so that no copy is made.

    Raises:
        ArgumentError: INGOT0513, an argument is of the wrong type.
        FlagError: INGOT0600, `fp` is not a mode.
        ParseError: the text or data is no program.
        VerifyError: the module is not valid HLO.
        UnsupportedError: an op or element type that the backend cannot run, or a target that it
            has no code for.
        InternalError: a bug of the compiler; a note names a file with the module.
    """
    if threads is not None:
        require_threads(threads)
    module = module_of(program)
    settings = _settings(fp, dump_to, context, switches)
    with flags.override_values(checked(settings)) if settings else nullcontext():
        gpu = _gpu_of(device, threads, target)
        if gpu is not None:
            return _compile_for_gpu(module, context, gpu, switches, is_final)
        executable = _compile(module, context, target, switches, is_final)
    return executable if threads is None else executable.with_threads(threads)


def _settings(
    fp: FpMode | None,
    dump_to: str | os.PathLike[str] | None,
    context: PassContext | None,
    switches: xla_flags.XlaFlags | None,
) -> Settings:
    """Return the settings that a call of `compile` adds to those in force."""
    settings = Settings()
    if fp is not None:
        settings["fp"] = fp
    if dump_to is not None:
        settings["dump_to"] = os.fspath(dump_to)
    for given, other, name in ((fp, context, "context"), (dump_to, switches, "switches")):
        if given is not None and other is not None:
            raise ArgumentError(f"{name} says that already; leave one of the two out")
    return settings


def _gpu_of(name: str, threads: int | None, target: TargetSpec | None) -> Device | None:
    """Return the GPU that a caller named; None for the CPU."""
    require_type(name, str, "the device")
    if name == "cpu":
        return None
    from ingot.client.gpu_executable import device_named

    gpu = device_named(name)
    if gpu is not None and (threads is not None or target is not None):
        raise ArgumentError(f"threads and target are of the CPU, and the device is {name!r}")
    return gpu


@defers_fork
def _compile_for_gpu(
    module: Module,
    context: PassContext | None,
    gpu: Device,
    switches: xla_flags.XlaFlags | None,
    is_final: bool,
) -> GpuExecutable | GpuStagedExecutable:
    """Compile a module for a GPU with the settings in force; see `compile`."""
    from ingot.client.gpu_executable import GpuExecutable
    from ingot.client.gpu_staged import compile_any_for_gpu

    verify(module)
    timer = PhaseTimer()
    switches = switches if switches is not None else xla_flags.current()
    dump = Dump(module.name, switches)
    options = context if context is not None else default_context(switches)
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
        stage_dump = Dump(stage.source.name, switches)
        stage_dump.module(BEFORE, stage.source)
        _dump_gpu(stage, stage_dump)
    return executable


def _dump_gpu(executable: GpuExecutable, dump: Dump) -> None:
    """Write the dumps of a program for a GPU that were asked for."""
    if dump.active:
        _dump_texts(executable, dump, {"ir-no-opt.ll": "llvm", "ptx": "ptx"})


@defers_fork
def _compile(
    module: Module,
    context: PassContext | None,
    target: TargetSpec | None,
    switches: xla_flags.XlaFlags | None,
    is_final: bool,
) -> Executable | StagedExecutable:
    """Compile a module with the settings in force; see `compile`."""
    if context is not None:
        require_type(context, (PassContext, type(None)), "context")
    if target is not None:
        require_type(target, (TargetSpec, type(None)), "target")
    if switches is not None:
        require_type(switches, (xla_flags.XlaFlags, type(None)), "switches")
    verify(module)
    timer = PhaseTimer()
    switches = switches if switches is not None else xla_flags.current()
    dump = Dump(module.name, switches)
    chosen = target if target is not None else TargetSpec.host()
    if target is not None:
        target.require_cpu()
    key = shared.fingerprint(module, chosen, switches) if context is None else None
    known = None if key is None else shared.find(key)
    if known is not None:
        return known
    options = context if context is not None else default_context(switches)
    if options.dump is None:
        options.dump = _after_pass(dump)
    dump.module(BEFORE, module)  # Before anything can fail.
    with reproducible(module), collector_paused(), timer.phase("compile"):
        working = module.clone()
        before = module if is_final else module.clone()
        if defines_sizes(working):

            def report(stage: Executable) -> None:
                dumped = Dump(stage.source.name, switches)
                dumped.module(BEFORE, stage.source)
                _report(stage, stage.source, dumped)

            return compile_staged(working, before, options, chosen, timer, report)
        compiled = compile_module(working, options, chosen, timer)
        with timer.phase("link"):
            executable = Executable(compiled, before, options, chosen, timer)
    _report(executable, module, dump)
    if key is not None:
        shared.share(key, executable)
    return executable


def _report(executable: Executable, module: Module, dump: Dump) -> None:
    """Write the dumps that were asked for, and the log lines of `INGOT_DEBUG`."""
    if dump.active:
        if dump.takes_snapshots:
            from ingot.client.snapshots import dump_snapshots

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


def _after_pass(dump: Dump) -> Callable[[PassStage, Module], None] | None:
    """Return a callback for the module after each pass; None if no dump of it was asked for."""
    if not enabled(Level.PROGRAM):
        return dump.stage if dump.active else None

    def show(stage: PassStage, module: Module) -> None:
        dump.stage(stage, module)
        log_text(Level.PROGRAM, f"module {stage}", lambda: print_module(module))

    return show


def default_context(switches: xla_flags.XlaFlags | None = None) -> PassContext:
    """Return the pass options that the environment asks for."""
    disabled = (switches or xla_flags.current()).disable_hlo_passes
    return PassContext(
        disabled=frozenset(disabled),
        fp=Fp.of(flags.FP.value()),
        debug=1 if flags.DEBUG.value() >= flags.CHECKS else 0,
        verify_each=flags.DEBUG.value() >= 1,
        pass_fuel=flags.PASS_FUEL.value(),
        rewrite_fuel=flags.REWRITE_FUEL.value(),
        to_text=print_module,
    )
