# SPDX-License-Identifier: Apache-2.0
"""LLVM for the rest of Ingot: a text IR builder, our vector math, and the JIT.

It is below every code generator (`cpu`, `gpu`, `runtime`) and above `support` only. Nothing here
knows HLO. The flow: `builder.ModuleBuilder` writes IR text, `jit.compile_object` compiles it to an
object (through `cache`), `linking.link_object` maps the object into the process.

The other files, those that import others first:

* `emitter_process`: the child process of `isolated`: compiles for other architectures, which may
  kill it;
* `machine_model`: registers, and the rates of bytes and operations;
* `math`: vector math: HLO's elementwise functions as LLVM IR for f32 and f64, any lane count;
* `shared_library`: a shared library from one relocatable object, with no linker installed;
* `image`: objects laid out side by side, with the distances between their parts written in;
* `control`: structured control flow of the text IR builder: loops with carried values, if_ with
  results;
* `elf`: a relocatable ELF64 object, as LLVM emits it: its sections, symbols and relocations;
* `headroom`: memory for LLVM: checks before each call that it can allocate enough;
* `isolated`: emit_isolated: machine code for another architecture, made in a child process;
* `machines`: LLVM's target machines, which turn IR into code: made once, lent to one compilation at
  a time;
* `optimization`: how LLVM compiles each kind of code: one table, with the reason for each row;
* `index`: index arithmetic that folds: operands are `Value | int`, and two ints give an int;
* `relocations`: relocations by machine: how a distance is written into code of x86-64 and of
  AArch64;
* `target`: targets of code generation: triple, CPU, features, and their properties for emitters;
* `host_cpu`: what LLVM says of this machine's CPU, kept on the disk so that later processes need no
  LLVM;
* `memory`: memory of the text IR builder: loads, stores, addresses, masked access, atomics;
* `tile_permission`: linux's permission to use the tile registers of Intel's AMX, which a process
  must ask for;
* `arithmetic`: typed arithmetic of the text IR builder: one name per operation, int or float by
  operand type;
* `binding`: the interface to llvmlite, which has no type stubs: `llvm` is llvmlite.binding as
  `Any`;
* `folding`: integer ops of constants, which the builder folds itself to know the lanes of masks;
* `lanes`: lanes of the text IR builder: splat, extract, insert, shuffle, slices and concatenation;
* `writer`: the core of the text IR builder: module-level text and the instruction stream of one
  function;
* `intrinsics`: the intrinsics that may be used, per target: LLVM aborts the process on others;
* `values`: typed values and constants of the text IR builder;
* `types`: LLVM types as interned, frozen values.
"""
