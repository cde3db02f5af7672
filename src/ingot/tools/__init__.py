# SPDX-License-Identifier: Apache-2.0
"""The `ingot` command: one file for each subcommand, the highest layer.

`COMMANDS` names them; a subcommand's file is loaded when it is called, so that `python -m ingot
program.py` and `ingot --help` load nothing of the compiler.

* `aot`: `ingot aot`: a module or a model compiled ahead of time, for programs without Python or
  Ingot;
* `cli`: the command line: subcommands on demand, errors as diagnostics, exit statuses;
* `diff`: `ingot diff`: the first value of a compiled program that differs from the reference's, and
  why;
* `doctor`: `ingot doctor`: checks of this installation, with advice for each problem;
* `explain`: `ingot explain`: reports on the compilation of a module, or of all that a program
  compiles;
* `explaining`: ingot.explain: from a function of any front end, or a module, to its report;
* `jax_diff`: JAX's functions for ingot.diff: compiled by Ingot, and op by op by JAX with jit off;
* `opt`: `ingot opt`: runs passes, or the pipeline up to a stage, on a module and prints the result;
* `pjrt`: `ingot pjrt`: writes the PJRT plugin as a shared library, for hosts that load C libraries;
* `profile`: `ingot profile`: which kernels of a module, or of a Python program, take the time;
* `reduce`: `ingot reduce`: shrinks a program that fails while it fails in the same way;
* `run`: `ingot run`: runs modules on a platform and compares the results with another platform's;
* `serve`: `ingot serve --stdio`: compiles and runs programs for hosts that cannot load C libraries;
* `tensorflow_diff`: TensorFlow's functions for ingot.diff: compiled by Ingot, and run by
  TensorFlow;
* `torch_diff`: PyTorch's modules and functions for ingot.diff: compiled by Ingot, and run eagerly;
* `translate`: `ingot translate`: a module from one format into another;
* `warmup`: `ingot warmup`: compile ahead what every process on a machine needs, for images and
  containers;
* `function_hooks`: compares the functions that a program compiles when it calls them, for `ingot
  diff program.py`;
* `isolated`: programs of one instruction each: what `ingot run --isolate-instructions` runs;
* `jax_cache_misses`: why JAX traced and compiled a function again: its own explanations, as
  observations;
* `kernel_opt`: `ingot opt` on kernels: runs kernel passes on the text of kernels and prints the
  results;
* `scripts`: Python programs as input of commands: they are run as by `python -m ingot`;
* `supervisor`: the process that a host talks to: it reads requests from the pipe and lets a worker
  answer them;
* `changes`: what each pass changes, as a unified diff: `ingot opt --print-changed`;
* `function_diff`: ingot.diff: comparison of a compiled function with its framework without
  compilation;
* `passes`: the registry of passes: every `Pass` of the compiler, found by its name;
* `serve_worker`: the process behind `ingot serve` that holds the programs and arrays, and runs what
  may crash;
* `differences`: the result of `ingot diff`: whether a program agrees, and the facts about a
  difference;
* `session`: the requests of `ingot serve`: programs and arrays by number, one method for each
  request;
* `bisect`: `ingot bisect`: finds the pass, and the rewrite in it, that changes what a module
  computes;
* `fields`: checked fields of a request's header, for `session` and `supervisor`;
* `first_difference`: the first instruction whose compiled value differs from the evaluator's;
* `interrupts`: Ctrl-C for one piece of work: interruptible marks where an interrupt may raise;
* `framing`: messages of `ingot serve` as bytes on a pipe: a JSON header, followed by raw bytes;
* `reduction`: reduction of failing programs, for `ingot reduce`, `ingot diff` and the fuzzer;
* `options`: options of the commands that run a module: how to read it, what to run it on, how to
  compare;
* `platforms`: what a module can run on, each as a function from a module to a program;
* `comparing`: compares the results of two platforms as XLA's run_hlo_module does, and shows the
  differences;
* `inputs`: random inputs for a module that are meaningful for their uses;
* `literals`: literals in files, for inputs and outputs;
* `loading`: modules from files: the format is given by an option, or found from the data.
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
