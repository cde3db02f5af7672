# SPDX-License-Identifier: Apache-2.0
"""The PJRT C API: Ingot as a device of JAX and of every other host that uses it.

A host gets one table of functions (`plugin.api_address`). Those that a running program calls
(execute, buffers, events, transfers) are native functions (`ingot.native`) over the C structs of
`records`, in the `native_*` files. Most others only read a field and are emitted from the table of
`getters`; the rest is Python (`slots_*`), called through `trampolines`.

The other files, those that import others first:

* `library`: libingot_pjrt.so: the function table for hosts that load C libraries (Reactant, EXLA,
  C++);
* `profiler`: the profiler extension: `jax.profiler.trace` shows our kernels by name;
* `slots_alias`: Python slots of buffers that take over another buffer's memory, now or later;
* `slots_async`: Python slots of asynchronous transfers: transfer managers, and copies to a later
  target;
* `slots_client`: Python slots of plugin, client, devices and topology;
* `slots_executable`: Python slots of compilation and executables;
* `multi_device`: executions on several devices: each worker gets its part, and the parts meet in a
  rendezvous;
* `process_links`: how the processes of one program find each other, and how their devices reach
  each other;
* `slots_transfer`: Python slots of buffers: those made in unusual ways, and layouts that are not
  row-major;
* `stored`: programs of hosts on the disk, by the bytes that the host gave (`client.stored`);
* `compilation`: compiling a program of a host that no cache has: StableHLO in, an executable and
  its boundary;
* `key_values`: the host's key-value store, by which the processes of a program find each other;
* `serialize`: serialized executables: the program and its options, compiled again when they are
  loaded;
* `inspection`: `jax.debug.inspect_array_sharding`: tells the host how a value of a compiled program
  is divided;
* `module_handoff`: passing modules from a front end to the slots, past the host that passes only
  bytes;
* `preparations`: what a front end has to do before the first program is compiled;
* `program_digest`: the digest of a program that several processes run, which must be the same in
  all;
* `extensions`: Python slots of the extensions: layouts and shardings;
* `executables`: executables behind PJRT handles: an `ingot.client.Executable` with what hosts read;
* `native`: the native functions that Python slots call, and helpers that slots share;
* `slots`: Python slots as methods, decorated with the functions of the C API that they implement;
* `boundary`: what a host knows of a program's parameters and results, beside their types and
  dimensions;
* `compile_options`: the fields of CompileOptionsProto that Ingot reads;
* `layouts`: layouts of buffers: those that a host asks for, and the handles of those that are not
  row-major;
* `native_module`: the machine code of the PJRT C API: one module, compiled once per machine, linked
  once;
* `objects`: client, devices, memories and topology: this machine, as a host sees it;
* `debug_options`: XLA's debug options as data: every name, by the type of its value;
* `handles`: records that Python fills, and the objects behind their addresses;
* `native_execute`: the slots of executables as native functions: handles, and Execute on one
  device;
* `native_layouts`: layouts of buffers, as native functions: hosts ask for one whenever an array is
  read;
* `native_transfer`: transfers between host and devices, and between devices, as native functions;
* `processes`: the processes of one program: which devices each has;
* `errors`: failures of Python slots: conversion of exceptions to PJRT errors, with Ingot's own
  text;
* `native_turns`: executions on several devices that take turns in the call, as native functions;
* `native_launch`: one execution on one device as native functions: ingot_pjrt_launch;
* `native_donation`: which arguments of an execution are donated, as native functions;
* `native_jobs`: making the jobs of a device's queue, as native functions;
* `native_queue`: putting jobs into a device's queue, and poisoning executions, as native functions;
* `native_worker`: the thread of a device that runs the jobs of its queue (`native_queue`), as
  native functions;
* `native_backlog`: the limit of a host's backlog on a device, as native functions;
* `native_buffers`: storages and buffers of the PJRT C API, as native functions;
* `native_gpu`: memory and executions of GPUs, as native functions;
* `native_inline`: which programs run inline, in the call of Execute, as native functions;
* `native_events`: errors and events of the PJRT C API, as native functions;
* `emit`: what the native PJRT functions share: slots, the runtime's functions, errors, references;
* `c_api`: the PJRT C API as data: every argument struct and the order of the function table.

Invariant: no Python runs when a compiled program is executed again and its results are read.
"""
