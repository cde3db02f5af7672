# SPDX-License-Identifier: Apache-2.0
"""Ahead of time: a module becomes an object file, a shared library, a static archive and a header.

It is above the compiler, as `client` is, and uses its artifact. `build` compiles, `glue` adds the C
functions, `relocatable`, `linkable` and `archive` write the files, `header` declares the functions.
`ingot.runtime.load` runs a shared library from Python without this package; both read
`ingot.artifact.metadata`.

The other files, those that import others first:

* `cpp_header`: the C++ header of an artifact: the class that tfcompile generates;
* `js_module`: the JavaScript module for a WebAssembly module: arrays in, arrays out;
* `cpp_class`: the text of the C++ class of an artifact, with the members of tfcompile's;
* `refusals`: programs that cannot be artifacts: refused before anything is compiled, with the op
  and its line;
* `wasm_link`: one WebAssembly module from several objects: what `wasm-ld` does, without a linker;
* `memory`: the allocator of an artifact: the C library's, or one of its own;
* `targets`: the target of an artifact: `--level`, `--target-triple`, `--target-cpu`, `-features`;
* `threads`: threads of an artifact: its own pool, with `--threads=own`;
* `wasm_glue`: the functions that a WebAssembly module needs besides those of `glue`;
* `wasm_object`: a relocatable WebAssembly object, as LLVM emits it: types, code, data, symbols,
  relocations;
* `weights`: weights outside of the code: a block that the program maps, or that the caller passes;
* `cpu_check`: the choice among an artifact's levels: the widest that this CPU has.
"""
