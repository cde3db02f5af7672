# SPDX-License-Identifier: Apache-2.0
"""Native functions at the border to CPython: calls, arguments, results, signals.

* `objects`: objects of CPython and NumPy as C structs, and the record through which native code
  reaches them;
* `arrays`: NumPy arrays in native functions: reading arguments, making outputs;
* `call`: one METH_FASTCALL function for all programs, native;
* `interrupts`: signals of Python during an execution: native checks, and the raise after them;
* `c_python`: the functions of CPython's C API that native functions of front ends and clients call
  by name;
* `builtins`: built-in functions of Python made of native functions: `fastcall(name, address)`.
"""
