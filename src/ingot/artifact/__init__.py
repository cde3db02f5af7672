# SPDX-License-Identifier: Apache-2.0
"""Compiled programs as data: what the compiler hands to the runtime and what is written to disk.

The one thing that compiler and runtime share. Invariant: nothing here runs or compiles anything.
"""
