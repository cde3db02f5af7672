# SPDX-License-Identifier: Apache-2.0
"""`ingot.load_executable`: the executable that `Executable.serialize` wrote.

Example:
    >>> import ingot
    >>> text = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }"
    >>> loaded = load_executable(ingot.compile(text).serialize())
    >>> loaded([1, 2])
    array([2., 4.], dtype=float32)
"""

from __future__ import annotations

from dataclasses import replace

from ingot.client.compilation import default_context
from ingot.client.compile import compile
from ingot.client.executables.executable import Executable
from ingot.client.executables.serialize import read_saved
from ingot.client.executables.staged import StagedExecutable
from ingot.support.arguments import bytes_of
from ingot.support.xla_flags import current_xla_flags


def load_executable(data: bytes) -> Executable | StagedExecutable:
    """Return an executable from the bytes that `serialize` returned.

    The program is compiled for this machine, with its original options; machine code that is in the
    object cache is not compiled again.

    Args:
        data: what `Executable.serialize()` returned, in this version of Ingot.

    Raises:
        ArgumentError: INGOT0513, it is not bytes.
        ParseError: INGOT0128, the bytes are incomplete, or of another version of Ingot.
    """
    saved = read_saved(bytes_of(data, "the serialized executable"))
    xla_flags = replace(current_xla_flags(), disable_hlo_passes=saved.disabled)
    context = default_context(xla_flags)
    context.fp = saved.fp
    return compile(
        saved.module, context=context, xla_flags=xla_flags, is_final=True, threads=saved.threads
    )
