# SPDX-License-Identifier: Apache-2.0
"""The client: compile and execute. One implementation of executables for every front end.

The flow: `compile` takes a module and its `options`, and looks for an equal program in this process
(`shared`) and on the disk (`stored`). If there is none, `compilation` runs passes, kernels and code
of the target, and makes an executable (`executables`), which is called and inspected.

The packages and files, importers first:

* `pjrt`: the PJRT C API: Ingot as a device of JAX and of every other host that uses it;
* `load_executable`: ingot.load_executable: the executable that `Executable.serialize` wrote;
* `partition`: ingot.partition: from a program over global shapes to that of one of many devices;
* `roofline`: the limits of this machine, measured once per process: its model with measured rates;
* `caches`: the compiler's caches in this process: emptying and filling them;
* `compile`: ingot.compile: a module in, an `Executable` out;
* `stored`: compiled programs on the disk: a later process links them, and imports nothing of the
  compiler;
* `compilation`: compiling a module that no cache has: passes, kernels, code, with the dumps and
  logs on the way;
* `shared`: the compilation cache of this process: equal programs that are alive are one executable;
* `executables`: compiled programs that can be called and inspected, on every target;
* `profiling`: profiles: which kernel ran when, as text and as a trace;
* `reports`: what a compilation made, for people: texts, files, memory and costs;
* `config`: ingot.config: the settings of docs/flags.md in code;
* `evaluate`: ingot.evaluate: the meaning of a program, by the reference interpreter in NumPy;
* `options`: the types of users' choices: programs, floating-point modes, stages, settings.
"""

from ingot.client.caches import clear_caches, load_library
from ingot.client.compile import compile
from ingot.client.config import config
from ingot.client.evaluate import evaluate
from ingot.client.executables.executable import Executable

__all__ = [
    "Executable",
    "clear_caches",
    "compile",
    "config",
    "evaluate",
    "load_library",
]
