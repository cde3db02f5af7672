# SPDX-License-Identifier: Apache-2.0
"""The functions of the PJRT C API that a running program calls, as machine code over C structs.

They are native functions (`ingot.native`), compiled once per machine. No Python runs when a
compiled program is executed again and its results are read.

The files, importers first:

* `module`: the machine code of the API: one module, compiled once per machine, linked once;
* `execute`: the slots of executables: handles, and Execute on one device;
* `turns`: executions on several devices that take turns in the call;
* `launch`: one execution on one device: ingot_pjrt_launch;
* `alignment`: host memory that does not begin with a cache line;
* `transfer`: transfers between host and devices, and between devices;
* `queue`: puts jobs into a device's queue, and poisons executions;
* `jobs`: makes the jobs of a device's queue;
* `worker`: the thread of a device that runs the jobs of its queue;
* `buffers`: storages and buffers;
* `gpu`: memory and executions of GPUs;
* `events`: errors and events;
* `donation`: which arguments of an execution are donated;
* `layouts`: layouts of buffers: hosts ask for one whenever an array is read;
* `getters`: slots that only read: a table of the field of a struct for each result;
* `backlog`: the limit of a host's backlog on a device;
* `inline`: which programs run inline, in the call of Execute;
* `emit`: what these functions share: slots, the runtime's functions, errors, references.
"""
