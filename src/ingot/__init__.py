# SPDX-License-Identifier: Apache-2.0
"""Ingot: an optimizing compiler for machine learning programs, an open and readable XLA in Python.

`compile(program) -> Executable`, `evaluate(program, *args)`, `load` and `parse_hlo`, `config`, the
errors, and the front ends (`ingot.tensorflow.enable()`): docs/api.md has them all. They are loaded
on first use: `import ingot` itself loads nothing, and so no layer imports another one through this
package.

* `__main__`: `python -m ingot train.py ...`, which runs an unmodified program with Ingot;
* `jax`: the public name of the JAX front end;
* `tensorflow`: the public name of the TensorFlow front end;
* `torch`: the public name of the PyTorch front end;
* `tools`: the `ingot` command: one file for each subcommand, the highest layer;
* `aot`: compilation ahead of time, to object files, libraries and headers;
* `frontends`: what turns a framework's programs into modules, and runs what comes back;
* `viz`: reports on the compilation of a program, with reasons, as data, as text and as a page;
* `client`: compile and execute;
* `cpu`: the CPU backend: from a module to an artifact;
* `gpu`: the NVIDIA GPU target: PTX from the same kernel IR as the CPU's code;
* `runtime`: the native runtime: thread pool, buffer allocator, execution, and the Python call;
* `host`: host programs: the schedule of a module as native code, for any target;
* `emit`: emission that every target shares: kernel IR to LLVM IR, at any lane count;
* `passes`: what changes a module on its way from HLO to kernels, one package for each purpose;
* `artifact`: compiled programs as data, for the runtime and for the disk;
* `kernel`: the kernel IR: iteration spaces, index maps, expressions; how a fusion becomes loops;
* `analysis`: facts about modules that several layers need;
* `formats`: texts and bytes of other tools, read into modules and written from them;
* `native`: a typed subset of Python that becomes machine code;
* `evaluator`: the meaning of every op, in NumPy: the reference for passes and backends;
* `llvm`: LLVM for the rest of Ingot: a text IR builder, our vector math, and the JIT;
* `semantics`: the meaning of calls and attributes, in one place for all stages after the IR;
* `hlo`: the one IR: shapes, instructions, computations, modules, the op table, the verifier;
* `support`: the lowest layer, which every layer may use.

Example:
    >>> import ingot
    >>> "compile" in dir(ingot)
    True
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from ingot.support.lazy import names_at_home
from ingot.support.platforms import require_supported_platform
from ingot.support.versions import VERSION

if TYPE_CHECKING:
    from ingot import jax as jax
    from ingot import tensorflow as tensorflow
    from ingot import torch as torch
    from ingot.artifact.facts import MemoryAnalysis
    from ingot.client import Executable, clear_caches, compile, config, evaluate
    from ingot.client.executables.gpu_executable import GpuExecutable, reset_gpu, to_gpu
    from ingot.client.executables.gpu_staged import GpuStagedExecutable
    from ingot.client.executables.staged import StagedExecutable
    from ingot.client.options import FpMode, ProgramLike, Settings, Stage
    from ingot.client.partition import partition
    from ingot.client.profiling.profile import Profile, profile
    from ingot.client.reports.analyses import Aval
    from ingot.formats.hlo_text import parse_hlo
    from ingot.formats.load import dump
    from ingot.formats.stablehlo import parse_stablehlo
    from ingot.frontends.loading import load
    from ingot.hlo.module import Module
    from ingot.runtime.cancellation import Cancellation
    from ingot.runtime.cuda.arrays import DeviceArray
    from ingot.runtime.foreign import register_custom_call_target
    from ingot.runtime.load import AotExecutable
    from ingot.support.diagnostics import (
        ArgumentError,
        Diagnostic,
        ExecutionError,
        FlagError,
        IngotError,
        InternalError,
        ParseError,
        ResourceError,
        UnsupportedError,
        VerifyError,
    )
    from ingot.support.flags import IngotWarning
    from ingot.support.versions import show_versions
    from ingot.tools.diffs.differences import Diff
    from ingot.tools.diffs.function_diff import diff
    from ingot.tools.explaining import explain
    from ingot.viz.report import Report

require_supported_platform()

__version__ = VERSION
__all__ = [
    "AotExecutable",
    "ArgumentError",
    "Aval",
    "Cancellation",
    "DeviceArray",
    "Diagnostic",
    "Diff",
    "Executable",
    "ExecutionError",
    "FlagError",
    "FpMode",
    "GpuExecutable",
    "GpuStagedExecutable",
    "IngotError",
    "IngotWarning",
    "InternalError",
    "MemoryAnalysis",
    "Module",
    "ParseError",
    "Profile",
    "ProgramLike",
    "Report",
    "ResourceError",
    "Settings",
    "Stage",
    "StagedExecutable",
    "UnsupportedError",
    "VerifyError",
    "clear_caches",
    "compile",
    "config",
    "diff",
    "dump",
    "evaluate",
    "explain",
    "load",
    "load_executable",
    "parse_hlo",
    "parse_stablehlo",
    "partition",
    "profile",
    "register_custom_call_target",
    "reset_gpu",
    "show_versions",
    "to_gpu",
]

# Public name -> the module that defines it.
_HOMES = {
    "AotExecutable": "ingot.runtime.load",
    "ArgumentError": "ingot.support.diagnostics",
    "Aval": "ingot.client.reports.analyses",
    "Cancellation": "ingot.runtime.cancellation",
    "DeviceArray": "ingot.runtime.cuda.arrays",
    "Diagnostic": "ingot.support.diagnostics",
    "Diff": "ingot.tools.diffs.differences",
    "Executable": "ingot.client",
    "ExecutionError": "ingot.support.diagnostics",
    "FlagError": "ingot.support.diagnostics",
    "FpMode": "ingot.client.options",
    "GpuExecutable": "ingot.client.executables.gpu_executable",
    "GpuStagedExecutable": "ingot.client.executables.gpu_staged",
    "IngotError": "ingot.support.diagnostics",
    "IngotWarning": "ingot.support.flags",
    "InternalError": "ingot.support.diagnostics",
    "MemoryAnalysis": "ingot.artifact.facts",
    "Module": "ingot.hlo.module",
    "ParseError": "ingot.support.diagnostics",
    "Profile": "ingot.client.profiling.profile",
    "ProgramLike": "ingot.client.options",
    "Report": "ingot.viz.report",
    "ResourceError": "ingot.support.diagnostics",
    "Settings": "ingot.client.options",
    "Stage": "ingot.client.options",
    "StagedExecutable": "ingot.client.executables.staged",
    "UnsupportedError": "ingot.support.diagnostics",
    "VerifyError": "ingot.support.diagnostics",
    "clear_caches": "ingot.client",
    "compile": "ingot.client",
    "config": "ingot.client",
    "diff": "ingot.tools.diffs.function_diff",
    "dump": "ingot.formats.load",
    "evaluate": "ingot.client",
    "explain": "ingot.tools.explaining",
    "load": "ingot.frontends.loading",
    "parse_hlo": "ingot.formats.hlo_text",
    "parse_stablehlo": "ingot.formats.stablehlo",
    "partition": "ingot.client.partition",
    "profile": "ingot.client.profiling.profile",
    "register_custom_call_target": "ingot.runtime.foreign",
    "reset_gpu": "ingot.client.executables.gpu_executable",
    "show_versions": "ingot.support.versions",
    "to_gpu": "ingot.client.executables.gpu_executable",
}

# Front ends: modules of their own, which import their framework.
_FRONT_ENDS = ("jax", "tensorflow", "torch")


def load_executable(
    source: bytes | str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> Executable | StagedExecutable | AotExecutable:
    """Return a program that was compiled before.

    Args:
        source: the bytes of `Executable.serialize()`, which are compiled for this machine; or the
            path of a shared library that `ingot aot` wrote, for which no compiler is imported.
        weights: the file of weights of a library that has them beside it; default: the file of that
            name in the library's folder.
        threads: of a library that was compiled with `--threads=own`; default: one.

    Raises:
        ArgumentError: INGOT0513, it is neither bytes nor a path, or `weights` or `threads` are
            given with bytes.
        ParseError: INGOT0128, the bytes are not whole, or of another version of Ingot.
        ResourceError: INGOT0411, a file cannot be read, or is not this library's.
        UnsupportedError: the library is for another machine or another version of Ingot.
    """
    if isinstance(source, (str, os.PathLike)):
        return importlib.import_module("ingot.runtime.load").load_executable(
            source, weights, threads
        )
    if weights is not None or threads is not None:
        from ingot.support.diagnostics import ArgumentError

        raise ArgumentError("weights and threads are for libraries, not for serialized executables")
    return importlib.import_module("ingot.client.load_executable").load_executable(source)


_find = names_at_home(__name__, _HOMES)


def __getattr__(name: str) -> object:
    return importlib.import_module(f"ingot.{name}") if name in _FRONT_ENDS else _find(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_FRONT_ENDS])
