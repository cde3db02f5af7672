# SPDX-License-Identifier: Apache-2.0
"""Reduction of failing programs, for `ingot reduce`, `ingot diff` and the fuzzer.

A program with its inputs is a `programs.cases.Case`. `subgraph` and `simplify` make smaller ones,
`graph` searches among them, `cutting` cuts lists (lines, instructions), and `trials` finds out in a
child process how a program fails.

The other files, importers first:

* `called`: programs of the computations that an instruction runs, with the arguments that they get;
* `search`: one search: tests whether programs fail like the first one, within a time limit;
* `trial_worker`: the child of `trials`: compiles and runs a program, and reports the failure.
"""
