# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as data, which the compiler passes to the runtime and writes to disk.

Compiler and runtime share nothing else. Invariant: nothing here runs or compiles anything.
"""
