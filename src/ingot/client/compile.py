# SPDX-License-Identifier: Apache-2.0
"""`ingot.compile`: a module in, an `Executable` out. Every front end enters here."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Literal, overload

from ingot.client import shared, stored
from ingot.client.executables.executable import Executable, Origin
from ingot.client.executables.threads import require_threads
from ingot.client.options import FpMode, ProgramLike, Settings, checked, module_of
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify
from ingot.llvm.target import TargetSpec
from ingot.support import flags
from ingot.support.arguments import require_type
from ingot.support.collector import importing
from ingot.support.diagnostics import ArgumentError
from ingot.support.forking import defers_fork
from ingot.support.xla_flags import XlaFlags, current_xla_flags

if TYPE_CHECKING:
    from ingot.client.executables.gpu_executable import GpuExecutable
    from ingot.client.executables.gpu_staged import GpuStagedExecutable
    from ingot.client.executables.staged import StagedExecutable
    from ingot.hlo.rewrite.pass_base import PassContext
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
    xla_flags: XlaFlags | None = None,
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
    xla_flags: XlaFlags | None = None,
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
    xla_flags: XlaFlags | None = None,
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
        xla_flags: dumps, and passes to leave out; default: from `XLA_FLAGS`.
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
    settings = _settings(fp, dump_to, context, xla_flags)
    with flags.override_values(checked(settings)) if settings else nullcontext():
        gpu = _gpu_of(device, threads, target)
        if gpu is not None:
            from ingot.client.compilation import compile_for_gpu

            return compile_for_gpu(module, context, gpu, xla_flags, is_final)
        executable = _compile(module, context, target, xla_flags, is_final)
    return executable if threads is None else executable.with_threads(threads)


def _settings(
    fp: FpMode | None,
    dump_to: str | os.PathLike[str] | None,
    context: PassContext | None,
    xla_flags: XlaFlags | None,
) -> Settings:
    """Return the settings that a call of `compile` adds to those in force."""
    settings = Settings()
    if fp is not None:
        settings["fp"] = fp
    if dump_to is not None:
        settings["dump_to"] = os.fspath(dump_to)
    for given, other, name in ((fp, context, "context"), (dump_to, xla_flags, "xla_flags")):
        if given is not None and other is not None:
            raise ArgumentError(f"{name} says that already; leave one of the two out")
    return settings


def _gpu_of(name: str, threads: int | None, target: TargetSpec | None) -> Device | None:
    """Return the GPU that a caller named; None for the CPU."""
    require_type(name, str, "the device")
    if name == "cpu":
        return None
    from ingot.client.executables.gpu_executable import device_named

    gpu = device_named(name)
    if gpu is not None and (threads is not None or target is not None):
        raise ArgumentError(f"threads and target are of the CPU, and the device is {name!r}")
    return gpu


def _compile(
    module: Module,
    context: PassContext | None,
    target: TargetSpec | None,
    xla_flags: XlaFlags | None,
    is_final: bool,
) -> Executable | StagedExecutable:
    """Find or compile a module with the settings in force; see `compile`."""
    if context is not None:
        require_type(context, (_pass_context(), type(None)), "context")
    if target is not None:
        require_type(target, (TargetSpec, type(None)), "target")
        target.require_cpu()
    if xla_flags is not None:
        require_type(xla_flags, (XlaFlags, type(None)), "xla_flags")
    verify(module)
    return _find_or_compile(
        module,
        context,
        target if target is not None else TargetSpec.host(),
        xla_flags if xla_flags is not None else current_xla_flags(),
        is_final=is_final,
        is_stored=True,
    )


def find_or_compile(
    module: Module, device: str, xla_flags: XlaFlags
) -> Executable | StagedExecutable | GpuExecutable | GpuStagedExecutable:
    """Compile a program that its host stores itself; see `compile`. It must not be changed."""
    gpu = _gpu_of(device, None, None)
    if gpu is not None:
        from ingot.client.compilation import compile_for_gpu

        return compile_for_gpu(module, None, gpu, xla_flags, is_final=True)
    verify(module)
    return _find_or_compile(
        module, None, TargetSpec.host(), xla_flags, is_final=True, is_stored=False
    )


@defers_fork
def _find_or_compile(
    module: Module,
    context: PassContext | None,
    target: TargetSpec,
    xla_flags: XlaFlags,
    *,
    is_final: bool,
    is_stored: bool,
) -> Executable | StagedExecutable:
    """Return the program of this process, of the disk if it may be there, or a new one."""
    key = shared.fingerprint(module, target, xla_flags) if context is None else None
    found = None if key is None else shared.find(key)
    if found is not None:
        return found
    # Programs with larger constants than those that a process shares are stored too.
    name = stored.name_of(module, target, xla_flags) if context is None and is_stored else ""
    kept = stored.find(name)
    if kept is None:
        found = _compiler()(module, context, target, xla_flags, is_final)
        stored.keep(name, found)
    else:
        source = module if is_final else module.clone()
        inspect = stored.stages(lambda: source, target, xla_flags)
        found = kept.executable(Origin.of(source, target, inspect))
    if key is not None and isinstance(found, Executable):
        shared.share(key, found)
    return found


@cache
def _compiler() -> Callable[..., Executable | StagedExecutable]:
    """Return `compile_for_cpu`; what it imports makes no collection in a framework's heap."""
    with importing():
        from ingot.client.compilation import compile_for_cpu
    return compile_for_cpu


def _pass_context() -> type[PassContext]:
    from ingot.hlo.rewrite.pass_base import PassContext

    return PassContext
