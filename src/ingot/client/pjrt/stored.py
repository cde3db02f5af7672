# SPDX-License-Identifier: Apache-2.0
"""Programs of hosts on the disk, by the bytes that the host gave (`client.stored`).

Those that come from there are not even read as StableHLO. Invariant: programs for several devices
and for GPUs are compiled each time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ingot.client import stored
from ingot.client.executables.executable import Executable, Origin
from ingot.client.pjrt.boundary import Boundary
from ingot.client.pjrt.executables import Source, device_of, is_of_one_process
from ingot.client.pjrt.objects import Client
from ingot.client.pjrt.serialize import read_source
from ingot.llvm.target import TargetSpec
from ingot.support.collector import importing
from ingot.support.records import replace
from ingot.support.xla_flags import XlaFlags, current_xla_flags, override

if TYPE_CHECKING:
    from ingot.client.executables.gpu_executable import GpuExecutable
    from ingot.hlo.module import Module


def find_or_compile_source(
    client: Client, source: Source
) -> tuple[Executable | GpuExecutable, Boundary]:
    """Return the program of a host from the disk, or compile it.

    Raises:
        ParseError: it is no program.
        UnsupportedError: it cannot be compiled.
    """
    options, target = source.options, TargetSpec.host()
    xla_flags, device = _xla_flags(source), device_of(client, options)
    name = _name(source, client.platform.version) if device == "cpu" else ""
    kept = stored.find(name)
    if kept is not None and isinstance(kept.boundary, Boundary):
        read = partial(_module, source)
        inspect = stored.stages(read, target, xla_flags)
        origin = Origin(kept.facts.name, target, read, inspect)
        return kept.executable(origin), kept.boundary

    with importing():
        from ingot.client.pjrt.compilation import compile_source, without_pairs

    is_shared = not is_of_one_process(client, options)
    if device == "cpu" and options.count > 1 and not is_shared:
        xla_flags = without_pairs(xla_flags)
    executable, boundary = compile_source(
        source.code, options, device, xla_flags, is_shared=is_shared
    )
    stored.keep(name, executable, boundary)
    return executable, boundary


def store_under(code: bytes, serialized: bytes, version: str) -> None:
    """Store a program under other bytes, too: a front end's instead of jaxlib's.

    Args:
        code: the other bytes.
        serialized: the executable, serialized.
        version: that of the plugin.
    """
    source = read_source(serialized, version)
    data = stored.read(_name(source, version))
    if data is not None:
        stored.write(_name(replace(source, code=code), version), data)


def _xla_flags(source: Source) -> XlaFlags:
    return override(current_xla_flags(), dict(source.options.overrides))


def _name(source: Source, version: str) -> str:
    """Return the name of a program of one device; empty for several devices, and large programs."""
    if source.options.count > 1 or len(source.code) > stored.MOST_BYTES:
        return ""
    return stored.name_of(source.meaning(version), TargetSpec.host(), _xla_flags(source))


def _module(source: Source) -> Module:
    from ingot.client.pjrt.compilation import module_of

    return module_of(source.code, source.options)
