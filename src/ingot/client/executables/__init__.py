# SPDX-License-Identifier: Apache-2.0
"""Compiled programs that can be called and inspected, on every target.

An executable is one program (`executable`, `gpu_executable`) or the stages of a program that
computes sizes (`staged`, `gpu_staged`). `linking` makes it callable, `serialize` writes it.

* `executable`: compiled programs that can be called and inspected;
* `inspected`: what can be inspected of every compiled program, on any target;
* `inspected_stages`: what can be inspected of every program that runs in stages, on any target;
* `staged`: staged executables: programs that compute sizes, compiled stage by stage for the CPU;
* `gpu_executable`: executables on a GPU: compiled programs that take and give arrays in its memory;
* `gpu_staged`: staged executables on a GPU: programs that compute sizes, compiled stage by stage;
* `gpu_hosted`: executables on a GPU for callers whose arrays are in the memory of the host;
* `dynamic_sizes`: calls of programs whose parameters or results are of dynamic size (`f32[<=8]`);
* `replicated`: runs a program on several virtual devices of this machine, with a thread for each;
* `threads`: a thread pool for the executables that were compiled with `threads=`;
* `linking`: from an artifact for this machine to a program that can be called;
* `serialize`: `Executable.serialize`: a compiled program as bytes, which ingot.load_executable
  loads;
* `container`: a container of byte strings that detects damage: the format of serialized
  executables;
* `snapshots`: snapshots of executions: `--xla_dump_hlo_snapshots`, XLA's `HloSnapshot` of each
  call.
"""
