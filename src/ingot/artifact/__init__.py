# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as data, which the compiler passes to the runtime and writes to disk.

Compiler and runtime share nothing else. Invariant: nothing here runs or compiles anything.

* `artifact`: a compiled program as data, ready to be linked here or written to disk;
* `facts`: what callers ask of a compiled program beside running it, as plain data;
* `metadata`: the metadata of an artifact: format, version, instruction set, signature;
* `stages`: staged programs as data: programs run one after the other, whose sizes are known at each
  start;
* `device_code`: the kernels of a program for a GPU, as data;
* `steps`: host programs as data: a straight line of kernel calls whose sizes are all known;
* `abi`: the execution ABI as plain data: the interface of compiler and runtime for one program.
"""
