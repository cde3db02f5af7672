# SPDX-License-Identifier: Apache-2.0
"""The Python half of programs: a compiled program joined with its `ProgramInfo`, and its calls.

* `program`: a compiled program that can be called, from Python and from native code;
* `execution`: the Python half of a call: what the native fast path leaves to Python, and a
  replacement for it;
* `staged`: a callable program that runs in stages on the CPU;
* `staged_record`: a program of stages, encoded as words that native code reads, for any target;
* `observed`: observed executions: every call of a program goes through a Python observer.
"""
