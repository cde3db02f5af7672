# SPDX-License-Identifier: Apache-2.0
"""The `ingot` command: one file for each subcommand, the highest layer.

`COMMANDS` names them. A subcommand's file is loaded when it is called, so `python -m ingot
program.py` and `ingot --help` load no part of the compiler.

The subcommands are `aot`, `bisect`, `diff`, `doctor`, `explain`, `opt`, `pjrt`, `profile`,
`reduce`, `run`, `serve`, `translate` and `warmup`. The packages and files that they share:

* `diffs`: where a compiled program departs from its reference, and why;
* `kernel_opt`: `ingot opt` on the text of kernels;
* `reduction`: reduction of failing programs, for `ingot reduce`, `ingot diff` and the fuzzer;
* `changes`: what each pass changes, as a unified diff: `ingot opt --print-changed`;
* `cli`: the command line: subcommands on demand, errors as diagnostics, exit statuses;
* `explaining`: ingot.explain: from a function of any front end, or a module, to its report;
* `jax_cache_misses`: JAX's own explanations of why it compiled a function again;
* `passes`: the registry of passes: every `Pass` of the compiler, found by its name;
* `programs`: modules in files, their inputs, and the platforms that run them;
* `scripts`: Python programs as input of commands, run as by `python -m ingot`;
* `script_runner`: runs a Python program with Ingot behind TensorFlow's compilation;
* `serving`: the processes and messages of `ingot serve`.
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
