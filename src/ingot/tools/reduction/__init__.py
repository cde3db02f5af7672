# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: beneath `ingot reduce`, `ingot diff` and the fuzzer.

`cases` is a program with its inputs, `subgraph` and `simplify` make smaller ones, `graph` searches
among them, `cutting` cuts lists (lines, instructions), and `trials` says in a child process how a
program fails.
"""
