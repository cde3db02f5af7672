# SPDX-License-Identifier: Apache-2.0
"""The client: compile and execute. One implementation of executables for every front end.

* `caches`: the compiler's caches in this process: emptying and filling them;
* `config`: ingot.config: the settings of docs/flags.md in code;
* `evaluate`: ingot.evaluate: the meaning of a program, by the reference interpreter in NumPy;
* `gpu_hosted`: executables on a GPU for callers whose arrays are in the memory of the host;
* `load_executable`: ingot.load_executable: the executable that `Executable.serialize` wrote;
* `partition`: ingot.partition: from a program over global shapes to that of one of many devices;
* `pjrt`: the PJRT C API: Ingot as a device of JAX and of every other host that uses it;
* `roofline`: the limits of this machine, measured once per process: its model with measured rates;
* `compile`: ingot.compile: a module in, an `Executable` out;
* `stored`: compiled programs on the disk: a later process links them, and imports nothing of the
  compiler;
* `compilation`: compiling a module that no cache has: passes, kernels, code, with the dumps and
  logs on the way;
* `shared`: the compilation cache of this process: equal programs that are alive are one executable;
* `gpu_staged`: staged executables on a GPU: programs that compute sizes, compiled stage by stage;
* `memory_report`: which allocations and values take the memory of a program: XLA's
  `-memory-usage-report.txt`;
* `reproducer`: failures inside a compilation become an `InternalError` that names a file with the
  module;
* `snapshots`: snapshots of executions: `--xla_dump_hlo_snapshots`, XLA's `HloSnapshot` of each
  call;
* `staged`: staged executables: programs that compute sizes, compiled stage by stage for the CPU;
* `executable`: compiled programs that can be called and inspected;
* `gpu_executable`: executables on a GPU: compiled programs that take and give arrays in its memory;
* `inspected_stages`: what can be inspected of every program that runs in stages, on any target;
* `dynamic_sizes`: calls of programs whose parameters or results are of dynamic size (`f32[<=8]`);
* `inspected`: what can be inspected of every compiled program, on any target;
* `linking`: from an artifact for this machine to a program that can be called;
* `replicated`: runs a program on several virtual devices of this machine, with a thread for each;
* `serialize`: `Executable.serialize`: a compiled program as bytes, which ingot.load_executable
  loads;
* `threads`: a thread pool for the executables that were compiled with `threads=`;
* `container`: a container of byte strings that detects damage: the format of serialized
  executables;
* `inspection`: the stages of a compilation, for people to look at: what `Executable.as_text` and
  others show;
* `profile`: which kernel ran when, by the names of the program;
* `analyses`: the memory and the costs of a compiled program, by JAX's names;
* `chrome_trace`: a profile as a trace in Chrome's format, which Perfetto shows, also offline;
* `compiled`: what the compilers of all targets return: an artifact and what the stages on the way
  made;
* `dump`: the stages of one compilation as files, named as XLA names them;
* `options`: the types of users' choices: programs, floating-point modes, stages, settings;
* `profile_table`: a profile as text: kernels by time, and the user's lines by the time of their
  kernels;
* `timings`: what a profile holds: the events of a recording, each with what ran.
"""

from ingot.client.caches import clear_caches, load_library
from ingot.client.compile import compile
from ingot.client.config import config
from ingot.client.evaluate import evaluate
from ingot.client.executable import Executable

__all__ = [
    "Executable",
    "clear_caches",
    "compile",
    "config",
    "evaluate",
    "load_library",
]
