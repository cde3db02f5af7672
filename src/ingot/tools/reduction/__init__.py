# SPDX-License-Identifier: Apache-2.0
"""Reduction of failing programs, for `ingot reduce`, `ingot diff` and the fuzzer.

`cases` is a program with its inputs, `subgraph` and `simplify` make smaller ones, `graph` searches
among them, `cutting` cuts lists (lines, instructions), and `trials` finds out in a child process
how a program fails.
"""
