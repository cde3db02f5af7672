# SPDX-License-Identifier: Apache-2.0
"""Compiling a program of a host that no cache has: StableHLO in, an executable and its boundary.

`python_slots.executable` calls it. Invariant: only this file imports the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ingot.artifact.abi import ProgramInfo
from ingot.client.compile import find_or_compile
from ingot.client.executables.executable import Executable
from ingot.client.executables.inspected_stages import InspectedStages, stages_refused
from ingot.client.pjrt.boundary import Boundary
from ingot.client.pjrt.compile_options import CompileOptions
from ingot.client.pjrt.inspection import tell_sharding
from ingot.client.pjrt.module_handoff import take_module
from ingot.client.pjrt.preparations import prepare_to_compile
from ingot.client.pjrt.program_digest import digest_of
from ingot.formats.stablehlo.parse import parse_stablehlo
from ingot.hlo.module import Module
from ingot.passes.buffers.pipeline import LATENCY_HIDING
from ingot.passes.expand.dynamic.boundary import pack_results
from ingot.passes.layout.custom_call_layouts import store_in_layouts
from ingot.passes.spmd.partition import partition
from ingot.semantics.buffer_donation import alias_donors, taken_donors
from ingot.semantics.memory_kinds import read_memory_kinds
from ingot.support.records import replace
from ingot.support.xla_flags import XlaFlags

if TYPE_CHECKING:
    from ingot.client.executables.gpu_executable import GpuExecutable


def compile_source(
    code: bytes,
    options: CompileOptions,
    device: str,
    xla_flags: XlaFlags,
    *,
    is_shared: bool = False,
) -> tuple[Executable | GpuExecutable, Boundary]:
    """Compile a program.

    Args:
        code: StableHLO; a front end may have offered its module (`module_handoff`).
        options: replicas, partitions and devices.
        device: the name that `ingot.compile` takes.
        xla_flags: XLA's flags.
        is_shared: whether other processes run the program, too.

    Raises:
        ParseError: it is no program.
        UnsupportedError: it cannot be compiled, or computes sizes of its arrays.
    """
    module, boundary = _module_of(code, options, is_shared=is_shared)
    executable = find_or_compile(module, device=device, xla_flags=xla_flags)
    if isinstance(executable, InspectedStages):
        raise stages_refused(module, "through PJRT", "call ingot.compile on the module")
    return executable, boundary(executable.artifact.info)


def without_pairs(xla_flags: XlaFlags) -> XlaFlags:
    """Return flags under which no collective is begun early.

    Devices of one process copy from each other's memory, which takes their cores. Nothing can run
    meanwhile, and devices that meet while they are busy wait for each other more often.
    """
    disabled = (*xla_flags.disable_hlo_passes, LATENCY_HIDING.name)
    return replace(xla_flags, disable_hlo_passes=disabled)


def module_of(code: bytes, options: CompileOptions) -> Module:
    """Return the module that is compiled of a program."""
    return _module_of(code, options)[0]


def _module_of(
    code: bytes, options: CompileOptions, *, is_shared: bool = False
) -> tuple[Module, Callable[[ProgramInfo], Boundary]]:
    """Return the module of a program, and what makes its boundary once it is compiled."""
    prepare_to_compile()
    module = take_module(code) or parse_stablehlo(code)
    program = digest_of(module) if is_shared else ""
    pack_results(module)
    division = partition(module, options.num_partitions)
    layouts = store_in_layouts(module)
    alias_donors(module)
    for config, sharding in division.inspected:
        tell_sharding(config, sharding)
    is_divided = options.count > 1

    def boundary(info: ProgramInfo) -> Boundary:
        return Boundary(
            layouts.parameters,
            layouts.results,
            donated_parameters(module, info),
            read_memory_kinds(module),
            tuple(each.text() for each in division.parameters if is_divided),
            tuple(each.text() for each in division.results if is_divided),
            division.asks_host,
            program,
        )

    return module, boundary


def donated_parameters(module: Module, info: ProgramInfo) -> frozenset[int]:
    """Return the parameters whose buffers the program takes over, aliased or only donated."""
    donors = (taken.parameter for taken in taken_donors(module))
    aliased = (output.alias_param for output in info.outputs if output.alias_param is not None)
    return frozenset([*donors, *aliased, *(item.parameter for item in module.aliases)])
