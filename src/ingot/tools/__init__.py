# SPDX-License-Identifier: Apache-2.0
"""The `ingot` command: one file for each subcommand, the highest layer.

`COMMANDS` names them; a subcommand's file is loaded when it is called, so that `python -m ingot
program.py` and `ingot --help` load nothing of the compiler.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "aot": "compile a module ahead of time: object file, libraries, C header",
    "run": "run modules and compare platforms",
    "opt": "run passes or a stage of the pipeline on a module and print it",
    "explain": "show what the compiler made of a module or a program, and why",
    "bisect": "find the pass that changes what a module computes",
    "profile": "show which kernels of a module or a program take the time",
    "diff": "find the first instruction whose compiled value differs, and what made it so",
    "reduce": "shrink a failing program while it keeps failing",
    "pjrt": "write the PJRT plugin as a shared library",
    "serve": "compile and run programs for another process, over pipes",
    "warmup": "compile ahead what every process on this machine needs",
    "doctor": "check this installation and say what to do for each problem",
    "translate": "convert between HLO text, HLO protos and StableHLO",
}
"""Name of a subcommand -> what it does; `ingot.tools.NAME` has the click command `command`."""
