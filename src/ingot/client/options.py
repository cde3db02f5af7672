# SPDX-License-Identifier: Apache-2.0
"""The types of users' choices: programs, floating-point modes, stages, settings.

The entry points of the client (`compile`, `Executable.as_text`, `config`) and the `ingot` command
take these. Invariant: `Settings` has one field for each flag of `support.flags`, with its type.

Example:
    >>> STAGES[:2]
    ('hlo_before', 'hlo')
"""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from ingot.hlo.module import Module
from ingot.support.arguments import require_type
from ingot.support.diagnostics import FlagError
from ingot.support.flags import ALL_FLAGS
from ingot.support.text import did_you_mean

ProgramLike: TypeAlias = Module | str | bytes | os.PathLike[str]
"""A module; HLO or StableHLO as text; StableHLO bytecode or a proto as bytes; or a path."""

FpMode: TypeAlias = Literal["exact", "default", "fast"]
"""The floating-point licence; docs/flags.md says what each allows."""

Stage: TypeAlias = Literal[
    "hlo_before",
    "hlo",
    "kernel_passes",
    "kernel",
    "schedule",
    "llvm",
    "llvm_optimized",
    "assembly",
    "buffers",
]
"""The stages of a program on its way to machine code, for `Executable.as_text` and `ingot opt`."""

GpuStage: TypeAlias = Literal[
    "hlo_before",
    "hlo",
    "kernel_passes",
    "kernel",
    "schedule",
    "llvm",
    "ptx",
    "buffers",
]
"""The stages on a GPU, for `GpuExecutable.as_text`."""

AnyStage: TypeAlias = Stage | GpuStage

STAGES: tuple[Stage, ...] = get_args(Stage)
GPU_STAGES: tuple[GpuStage, ...] = get_args(GpuStage)


class Settings(TypedDict, total=False):
    """The arguments of `ingot.config`: the settings of docs/flags.md."""

    debug: int
    num_threads: int
    allocator_cache_bytes: int | None
    cpu_level: Literal["auto", "avx512", "avx2", "plain"]
    cache_dir: str
    cache: bool
    program_cache: bool
    cache_mb: int
    dump_to: str
    fp: FpMode
    pass_fuel: int | None
    rewrite_fuel: int | None
    progress: Literal["auto", "off"]
    quick_exit: bool
    gpu: bool
    cuda_library: str
    gpu_memory_limit: int | None
    collectives: Literal["auto", "sockets", "mpi"]
    mpi_library: str
    process_timeout: int
    collective_timeout: int
    feed_timeout: int
    exit_timeout: int
    random_seed: int
    isolated_reader: bool
    strict: bool


def checked(settings: Settings) -> dict[str, Any]:
    """Return the values of settings as their flags hold them.

    Raises:
        FlagError: INGOT0600, there is no such setting, or it does not take the value.
    """
    known = {flag.name: flag for flag in ALL_FLAGS}
    values: dict[str, Any] = {}
    for name, value in cast("dict[str, object]", settings).items():
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            raise FlagError(f"Ingot has no setting '{name}'", hint=hint)
        values[name] = known[name].accept(value)
    return values


def module_of(program: ProgramLike) -> Module:
    """Return the module that a caller gave in any form.

    Raises:
        ArgumentError: INGOT0513, it is none of the forms.
        ParseError: the text or data is no program, or the file cannot be read.
    """
    if isinstance(program, Module):
        return program
    require_type(
        program,
        (Module, str, bytes, os.PathLike),
        "the program",
        "give a module, HLO or StableHLO as text or bytes, or a path; of a lowered function of "
        "JAX, give lowered.as_text()",
    )
    # Imported here: front ends give modules, and this brings the readers of all formats.
    from ingot.formats.load import load

    return load(program if isinstance(program, (str, bytes)) else os.fspath(program))
