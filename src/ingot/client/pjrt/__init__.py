# SPDX-License-Identifier: Apache-2.0
"""The PJRT C API: Ingot as a device of JAX and of every other host that uses it.

A host gets one table of functions (`plugin.api_address`). Those that a running program calls
(execute, buffers, events, transfers) are native functions over the C structs of `records`
(`native_code`); most others only read a field and are emitted from a table
(`native_code.getters`); the rest is Python (`python_slots`), called through `trampolines`.

The files, importers first:

* `library`: libingot_pjrt.so, for hosts that load C libraries (Reactant, EXLA, C++);
* `plugin`: makes the table of functions that a host gets;
* `python_slots`: the functions of the API that are Python;
* `stored`: programs on disk, by the bytes that the host passed (`client.stored`);
* `compilation`: compiles a program that no cache has: StableHLO in, an executable out;
* `inspection`: `jax.debug.inspect_array_sharding`: the sharding of a value of a compiled program;
* `module_handoff`: passes modules from a front end to the slots, past the host, which passes bytes;
* `preparations`: what a front end has to do before the first program is compiled;
* `multi_device`: executions on several devices: each worker runs its part;
* `process_links`: how the processes of one program find and reach each other;
* `key_values`: the host's key-value store, where processes publish their addresses;
* `processes`: the processes of one program, and the devices of each;
* `program_digest`: the digest of a program, which must be the same in all of its processes;
* `native`: the native functions that Python slots call, and helpers that slots share;
* `serialize`: serialized executables: program and options, compiled again when loaded;
* `executables`: an `ingot.client.Executable` behind a PJRT handle, with what hosts read;
* `native_code`: the functions that a running program calls, as machine code;
* `boundary`: layouts, memories and shardings of a program's parameters and results;
* `compile_options`: the fields of CompileOptionsProto that Ingot reads;
* `debug_options`: XLA's debug options as data: every name, by the type of its value;
* `layouts`: layouts of buffers that a host requests, and handles of those that are not row-major;
* `objects`: client, devices, memories and topology of this machine;
* `handles`: records that Python fills, and the objects behind their addresses;
* `errors`: converts exceptions of Python slots to PJRT errors, with Ingot's text;
* `trampolines`: slots whose body is a Python function;
* `records`: the objects of the API as C structs;
* `c_api`: the API as data: every argument struct and the order of the function table.
"""
