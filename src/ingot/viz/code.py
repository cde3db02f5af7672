# SPDX-License-Identifier: Apache-2.0
"""The code of each kernel, out of the texts of its program: HLO, kernel IR, schedule, LLVM IR.

Kernels share LLVM modules, and matrix products run in the library. The code of a kernel is the
functions that the host program calls, with the names of library functions that they call.
"""

from __future__ import annotations

import re

from ingot.client.executables.executable import Executable
from ingot.formats.hlo_text import print_computation
from ingot.hlo.instruction import Instruction
from ingot.kernel.text import kernel_text
from ingot.support.regex import regex

_FUNCTION = regex(r"^define [^@]*@\"?([\w.$-]+)\"?\(.*?^\}", re.MULTILINE | re.DOTALL)


class KernelTexts:
    """The texts of the kernels of one executable."""

    def __init__(self, executable: Executable) -> None:
        """Find the functions of the program."""
        self._kernels = executable.kernel_set
        texts = dict.fromkeys(text for text, _ in self._kernels.llvm_modules())
        self._functions = {
            found[1]: found[0] for text in texts for found in _FUNCTION.finditer(text)
        }

    def hlo(self, fusion: Instruction) -> str:
        """Return the computation of a fusion."""
        return print_computation(fusion.attributes.calls, with_metadata=False)

    def kernel_ir(self, name: str) -> str:
        """Return the kernel IR of a kernel."""
        made = self._kernels.compiled.get(name)
        return kernel_text((self._kernels.inlined[name] if made is None else made).kernel)

    def schedule(self, name: str) -> str:
        """Return how a kernel runs."""
        return self._kernels.schedule(name)

    def llvm_ir(self, name: str) -> str:
        """Return the functions of a kernel."""
        made = self._kernels.compiled.get(name)
        if made is None:
            return "; part of the loop that calls it, in the host program's code"
        symbols = dict.fromkeys(made.emitted.code)
        symbols |= dict.fromkeys(s for s in self._functions if s.startswith(name))
        parts = [self._functions[symbol] for symbol in symbols if symbol in self._functions]
        named = [symbol for symbol in symbols if symbol not in self._functions]
        return "\n\n".join([*parts, *(f"; and of the library: {symbol}" for symbol in named)])
