# SPDX-License-Identifier: Apache-2.0
"""Dumps: the stages of one compilation as files, named as XLA names them.

`XLA_FLAGS=--xla_dump_to=FOLDER` (or `INGOT_DUMP_TO`) asks for them; a folder of `-` is standard
output. One `Dump` belongs to one compilation; without the flag it does nothing.

Files: `module_0001.NAME.before_optimizations.txt`, `….cpu_after_optimizations.txt`,
`….cpu_after_optimizations-buffer-assignment.txt`, `….ir-no-opt.ll`, `….kernels.txt`, around the
passes that `--xla_dump_hlo_pass_re` matches `….0002.PIPELINE.after_A.before_B.txt`, and with
`--xla_dump_hlo_as_proto` both modules as `.hlo.pb`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path

from ingot.formats.hlo_text import print_module
from ingot.formats.load import dump as dump_module
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Stage
from ingot.support.diagnostics import ResourceError
from ingot.support.xla_flags import STANDARD_OUTPUT, XlaFlags

_numbers = itertools.count()


class Dump:
    """Writes the stages of the compilation of one module."""

    __slots__ = ("_flags", "_prefix", "active")

    def __init__(self, name: str, flags: XlaFlags) -> None:
        """Number the module if it is dumped at all."""
        self._flags = flags
        self.active = flags.dumps_module(name)
        self._prefix = ""
        if self.active:
            self._prefix = f"module_{next(_numbers):04d}.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"

    def text(self, suffix: str, make: Callable[[], str]) -> None:
        """Write `make()` to the file with this suffix, if the module is dumped.

        Raises:
            ResourceError: the folder cannot be written.
        """
        if not self.active:
            return
        name = f"{self._prefix}.{suffix}"
        if self._flags.dump_folder == STANDARD_OUTPUT:
            sys.stdout.write(f"*** Begin {name} ***\n{make()}\n*** End {name} ***\n")
            return
        self._write(name, make().encode("utf-8", "surrogateescape"))

    def proto(self, suffix: str, module: Module) -> None:
        """Write the module as a proto, if that is asked for; nobody reads one on the terminal."""
        is_file = self._flags.dump_folder != STANDARD_OUTPUT
        if self.active and self._flags.dump_hlo_as_proto and is_file:
            self._write(f"{self._prefix}.{suffix}.hlo.pb", dump_module(module, "hlo_proto"))

    def _write(self, name: str, data: bytes) -> None:
        path = Path(self._flags.dump_folder) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise ResourceError(
                f"the dump {path} cannot be written: {error.strerror}",
                code="INGOT0410",
                hint="give --xla_dump_to (INGOT_DUMP_TO) a folder that can be written",
            ) from error

    def stage(self, stage: Stage, module: Module) -> None:
        """Write the module between two passes, if one of them is asked for."""
        wanted = (name for name in (stage.after, stage.before) if name)
        if any(self._flags.dumps_pass(name) for name in wanted):
            self.text(f"{stage}.txt", lambda: print_module(module))
