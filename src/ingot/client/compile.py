"""`ingot.compile`: a module in, an `Executable` out. Every front end enters here."""

from __future__ import annotations

from ingot.client.executable import Executable
from ingot.cpu.compiler import compile_module
from ingot.formats.hlo_text import print_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.verifier import verify
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.collector import collector_paused
from ingot.support.timing import PhaseTimer


def compile(
    module: Module, *, context: PassContext | None = None, target: TargetSpec | None = None
) -> Executable:
    """Compile a module for this machine's CPU. The module itself is not changed.

    Args:
        module: the program; its shapes may have symbolic sizes.
        context: options of the passes; default: from `INGOT_*` variables.
        target: CPU to generate code for; default: this one.

    Raises:
        VerifyError: the module is not valid HLO.
        UnsupportedError: an op or element type that the CPU backend cannot run.
    """
    verify(module)
    timer = PhaseTimer()
    options = context if context is not None else default_context()
    chosen = target if target is not None else TargetSpec.host()
    with collector_paused(), timer.phase("compile"):
        working = module.clone()
        before = print_module(module)
        compiled = compile_module(working, options, chosen, timer)
        with timer.phase("link"):
            return Executable(compiled, before, options, chosen, timer)


def default_context() -> PassContext:
    """Return the pass options that the environment asks for."""
    return PassContext(
        fp=Fp.of(flags.FP.value()),
        debug=1 if flags.DEBUG.value() >= 4 else 0,
        pass_fuel=flags.PASS_FUEL.value(),
        rewrite_fuel=flags.REWRITE_FUEL.value(),
        to_text=print_module,
    )
