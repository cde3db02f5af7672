# SPDX-License-Identifier: Apache-2.0
"""Dumps: the stages of one compilation as files, named as XLA names them.

`XLA_FLAGS=--xla_dump_to=FOLDER` (or `INGOT_DUMP_TO`) turns them on; a folder of `-` is standard
output. One `Dump` belongs to one compilation; without the flag it does nothing.

Files, each as `module_0001.NAME.SUFFIX`:

* `before_optimizations.txt` and `cpu_after_optimizations.txt`, with `.dot`, `.html` and `.hlo.pb`
  (`.hlo.pb.gz`) beside them where `--xla_dump_hlo_as_dot`, `_html` and `_proto` ask for these;
* `0002.PIPELINE.after_A.txt` after the passes that `--xla_dump_hlo_pass_re` and
  `--xla_dump_hlo_pipeline_re` match, in the same formats; kernel passes are the pipeline "kernel",
  and write the text of one kernel: `0001.kernel.FUSION.after_A.txt`;
* `cpu_after_optimizations-buffer-assignment.txt` and `…-memory-usage-report.txt`;
* `kernels.txt`, `ir-no-opt.ll`, `ir-with-opt.ll`: the kernels, and LLVM IR on both sides of LLVM;
* `execution_0000.hlo_snapshot.pb` of each execution, where `--xla_dump_hlo_snapshots` asks for it
  (`client.executables.snapshots`).
"""

from __future__ import annotations

import gzip
import itertools
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Stage
from ingot.kernel.ir import LoopKernel
from ingot.kernel.text import kernel_text
from ingot.support.diagnostics import ResourceError
from ingot.support.lazy import function_at_home
from ingot.support.xla_flags import STANDARD_OUTPUT, XlaFlags

print_module = function_at_home("ingot.formats.hlo_text", "print_module")
"""Few programs are printed."""

BEFORE, AFTER = "before_optimizations", "cpu_after_optimizations"
"""XLA's names of a module before and after all passes."""

_numbers = itertools.count()


def subject_text(subject: object) -> str:
    """Return the text of what passes run on: a module, or the loops of a kernel."""
    if isinstance(subject, Module):
        return print_module(subject)
    assert isinstance(subject, LoopKernel), "passes run on modules and on loops"
    return kernel_text(subject)


class Dump:
    """Writes the stages of the compilation of one module."""

    __slots__ = ("_flags", "_prefix", "active")

    def __init__(self, name: str, flags: XlaFlags) -> None:
        """Number the module if it is dumped."""
        self._flags = flags
        self.active = flags.dumps_module(name)
        self._prefix = ""
        if not self.active:
            return
        number, most = next(_numbers), flags.dump_max_hlo_modules
        self.active = most <= 0 or number < most
        when = f"{time.time_ns() // 1000}." if flags.dump_include_timestamp else ""
        self._prefix = f"{when}module_{number:04d}.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}"

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

    def module(self, suffix: str, module: Module) -> None:
        """Write a module in every format that the flags ask for."""
        self.text(f"{suffix}.txt", lambda: print_module(module))
        self.formats(suffix, module)

    def formats(self, suffix: str, module: Module) -> None:
        """Write a module in the formats besides text; protos do not go to the terminal."""
        flags = self._flags
        if flags.dump_hlo_as_dot:
            from ingot.formats.hlo_dot import print_dot

            self.text(f"{suffix}.dot", lambda: print_dot(module))
        if flags.dump_hlo_as_html:
            from ingot.formats.hlo_html import print_html

            self.text(f"{suffix}.html", lambda: print_html(module))
        if self.active and flags.dump_hlo_as_proto and flags.dump_folder != STANDARD_OUTPUT:
            from ingot.formats.load import dump as dump_module

            data = dump_module(module, "hlo_proto")
            if flags.dump_compress_protos:
                self.data(f"{suffix}.hlo.pb.gz", gzip.compress(data))
            else:
                self.data(f"{suffix}.hlo.pb", data)

    @property
    def takes_snapshots(self) -> bool:
        """Whether executions are dumped; protos do not go to the terminal."""
        flags = self._flags
        return self.active and flags.dump_hlo_snapshots and flags.dump_folder != STANDARD_OUTPUT

    def data(self, suffix: str, data: bytes) -> None:
        """Write the file with this suffix.

        Raises:
            ResourceError: the folder cannot be written.
        """
        self._write(f"{self._prefix}.{suffix}", data)

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

    def stage(self, stage: Stage, subject: object) -> None:
        """Write the module or kernel between two passes, if one of them is dumped."""
        wanted = (name for name in (stage.after, stage.before) if name)
        if not any(self._flags.dumps_pass(name, stage.pipeline) for name in wanted):
            return
        if isinstance(subject, Module):
            self.module(str(stage), subject)
        else:
            self.text(f"{stage}.txt", lambda: subject_text(subject))
