# SPDX-License-Identifier: Apache-2.0
"""The native runtime: thread pool, buffer allocator, execution, and the Python call.

Everything that runs while a program executes is native functions (`ingot.native`) over C structs,
each declared once (in `records`, or in the module that owns it). The flow: `native` builds and
links the runtime from `module`, `programs.program` joins a compiled program with its `ProgramInfo`,
and a call of it goes through `python.call` to `executor.execute`. The compiler and this package
share only `ingot.artifact`.

The packages and files, importers first:

* `load`: programs compiled ahead of time, run from Python: ingot.load_executable;
* `cuda`: programs on NVIDIA GPUs, by the C API of the CUDA driver: no package of NVIDIA is needed;
* `programs`: the Python half of programs: a compiled program with its `ProgramInfo`, and its calls;
* `recording`: recordings of events: `start()`, run programs, `stop()` returns the events;
* `own_pools`: thread pools besides the process's own: for programs with another number of threads,
  for devices;
* `cancellation`: ends executions from another thread, or at a deadline;
* `foreign`: code that compiled programs call but Ingot did not generate: registered custom-call
  targets;
* `python_api`: the border to CPython and NumPy: struct offsets tested, the `PYTHON` record,
  built-in functions;
* `native`: the native runtime of this process: linked once, on first use, and never unloaded;
* `module`: the runtime as one LLVM module: pool, allocator, execution and, if wanted, the Python
  call;
* `state`: native functions that return the records of the process, which are filled once;
* `python`: native functions at the border to CPython: calls, arguments, results, signals;
* `executor`: native functions that run programs, their steps and stages, and record events;
* `memory`: the buffer allocator, and NumPy's view of it;
* `threading`: threads and what they wait for: locks, the fork-join pool, fibers, interrupts;
* `arguments`: arguments and results as arrays of C: other libraries' tensors, conversions;
* `entries`: declarations of the runtime's functions, for native functions of other modules;
* `records`: the layout of memory that native code shares;
* `c_library`: the functions of the C library that native functions of the runtime call, and their
  structs.
"""
