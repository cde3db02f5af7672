# SPDX-License-Identifier: Apache-2.0
"""Reduction of failing programs, for `ingot reduce`, `ingot diff` and the fuzzer.

`cases` is a program with its inputs, `subgraph` and `simplify` make smaller ones, `graph` searches
among them, `cutting` cuts lists (lines, instructions), and `trials` finds out in a child process
how a program fails.

The other files, those that import others first:

* `called`: programs of the computations that an instruction runs, with the arguments that they get;
* `search`: one search: tests whether programs fail like the first one, within a time limit;
* `trial_worker`: the child of `trials`: reads, compiles and runs a program, and reports how it
  fails.
"""
