"""`ingot.compile`: a module in, an `Executable` out. Every front end enters here."""

from __future__ import annotations

from ingot.client import shared
from ingot.client.dump import Dump
from ingot.client.executable import Executable
from ingot.client.reproducer import reproducible
from ingot.client.staged import StagedExecutable, compile_staged
from ingot.cpu.compiler import compile_module
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.size_definitions import defines_sizes
from ingot.hlo.verifier import verify
from ingot.llvm.target import TargetSpec
from ingot.support import flags, xla_flags
from ingot.support.arguments import require_type
from ingot.support.collector import collector_paused
from ingot.support.forking import defers_fork
from ingot.support.timing import PhaseTimer
from ingot.support.tracing import Level, enabled, log


@defers_fork
def compile(
    module: Module,
    *,
    context: PassContext | None = None,
    target: TargetSpec | None = None,
    switches: xla_flags.XlaFlags | None = None,
    is_final: bool = False,
) -> Executable | StagedExecutable:
    """Compile a module for this machine's CPU. The module itself is not changed.

    A program that was compiled before, is alive and has no state is returned again.

    Args:
        module: the program; its shapes may have symbolic sizes.
        context: options of the passes, and their records; default: from `INGOT_*` variables.
        target: CPU to generate code for; default: this one.
        switches: dumps, and passes to leave out; default: what `XLA_FLAGS` says.
        is_final: whether nobody changes the module any more: the executable keeps it, no copy.

    Raises:
        VerifyError: the module is not valid HLO.
        UnsupportedError: an op or element type that the CPU backend cannot run, or a target that
            it makes no code for.
        InternalError: something failed inside; a note says where the module is kept.
    """
    require_type(module, Module, "the program", "ingot.load and ingot.parse_hlo make a module")
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
    if dump.active and options.dump is None:
        options.dump = dump.stage
    with reproducible(module), collector_paused(), timer.phase("compile"):
        working = module.clone()
        before = module if is_final else module.clone()
        if defines_sizes(working):

            def report(stage: Executable) -> None:
                _report(stage, stage.source, Dump(stage.source.name, switches))

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
        after = "cpu_after_optimizations"
        for suffix, stage in (
            ("before_optimizations.txt", "hlo_before"),
            (f"{after}.txt", "hlo"),
            (f"{after}-buffer-assignment.txt", "buffers"),
            ("kernels.txt", "kernel"),
            ("ir-no-opt.ll", "llvm"),
        ):
            dump.text(suffix, lambda stage=stage: executable.as_text(stage))
        dump.proto("before_optimizations", module)
        dump.proto(after, executable.module)
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
    for decision in executable.fusion_log if enabled(Level.REWRITE) else ():
        log(Level.REWRITE, "fusion", decision=decision)


def default_context(switches: xla_flags.XlaFlags | None = None) -> PassContext:
    """Return the pass options that the environment asks for."""
    disabled = (switches or xla_flags.current()).disable_hlo_passes
    return PassContext(
        disabled=frozenset(disabled),
        fp=Fp.of(flags.FP.value()),
        debug=1 if flags.DEBUG.value() >= 4 else 0,
        verify_each=flags.DEBUG.value() >= 1,
        pass_fuel=flags.PASS_FUEL.value(),
        rewrite_fuel=flags.REWRITE_FUEL.value(),
        to_text=print_module,
    )
