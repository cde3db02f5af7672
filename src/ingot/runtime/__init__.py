# SPDX-License-Identifier: Apache-2.0
"""The native runtime: thread pool, buffer allocator, execution, and the Python call.

Everything that runs while a program executes is native functions (`ingot.native`) over C structs,
each declared once (in `records`, or in the module that owns it). The flow: `native` builds and
links the runtime, `program.Program` joins a compiled program with its `ProgramInfo`, and
`program.call` executes it. The compiler and this package share only `ingot.artifact`.

The other files, those that import others first:

* `c_python`: the functions of CPython's C API that native functions of front ends and clients call
  by name;
* `cancellation`: ends executions from another thread, or at a deadline;
* `cuda`: programs on NVIDIA GPUs, by the C API of the CUDA driver: no package of NVIDIA is needed;
* `load`: programs compiled ahead of time, run from Python: ingot.load_executable;
* `observed`: observed executions: every call of a program goes through a Python observer;
* `own_pools`: thread pools besides the process's own: for programs with another number of threads,
  for devices;
* `recording`: recordings of events: `start()`, run programs, `stop()` returns the events;
* `staged`: a callable program that runs in stages on the CPU;
* `staged_record`: a program of stages, encoded as words that native code reads, for any target;
* `execution`: the Python half of a call: what the native fast path leaves to Python, and a
  replacement for it;
* `python_api`: the border to CPython and NumPy: struct offsets tested, the `PYTHON` record,
  built-in functions;
* `builtins`: built-in functions of Python made of native functions: `fastcall(name, address)`;
* `foreign`: code that compiled programs call but Ingot did not generate: registered custom-call
  targets;
* `convert`: arguments that do not have the form of the fast path: converted, without a copy where
  possible;
* `entries`: declarations of the runtime's functions, for native functions of other modules;
* `dlpack`: another library's tensor without a copy, and our memory for another library;
* `module`: the runtime as one LLVM module: pool, allocator, execution and, if wanted, the Python
  call;
* `array_memory`: NumPy's view of our allocator: the four functions of a NumPy memory handler,
  native;
* `c_arrays`: arrays of C in memory that Python owns;
* `fibers`: functions that wait for each other on a few threads, as native functions;
* `python_call`: one METH_FASTCALL function for all programs, native;
* `state`: native functions that return the records of the process, which are filled once;
* `steps`: the interpreter of host programs that are data (`artifact.steps.Steps`): three functions;
* `pool`: the fork-join thread pool, as native functions;
* `profiler`: the recorder of events, a native function that host programs call while a profiler is
  on;
* `python_arrays`: NumPy arrays in native functions: reading arguments, making outputs;
* `python_interrupts`: signals of Python during an execution: native checks, and the raise after
  them;
* `staged_code`: the interpreter of staged programs, which executes an `artifact.stages.StagedCode`;
* `execute`: execution of a program record, for every caller, Python or native;
* `python_objects`: objects of CPython and NumPy as C structs, and the record through which native
  code reaches them;
* `allocator`: the caching buffer allocator as native functions: ingot_allocate, ingot_free,
  ingot_trim;
* `float_modes`: how a thread's CPU computes with floats: rounding to nearest even, denormals kept,
  no traps;
* `interrupts`: cancellation of running executions: by a signal, another thread or a deadline;
* `c_library`: the functions of the C library that native functions of the runtime call, and their
  structs;
* `sync`: synchronization of native functions: spin lock, pause, futex sleep and wake;
* `threads`: detached threads.
"""
