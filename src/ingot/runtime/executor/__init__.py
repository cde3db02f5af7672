# SPDX-License-Identifier: Apache-2.0
"""Native functions that run programs: one program, its steps or its stages; and record its events.

* `execute`: execution of a program record, for every caller, Python or native;
* `steps`: the interpreter of host programs that are data (`artifact.steps.Steps`): three functions;
* `staged_code`: the interpreter of staged programs, which executes an `artifact.stages.StagedCode`;
* `profiler`: the recorder of events, a native function that host programs call while a profiler is
  on.
"""
