# SPDX-License-Identifier: Apache-2.0
"""`ingot.partition`: from a program over global shapes to that of one of many devices.

Neither the devices nor a client are needed: a program for thousands can be divided, compiled and
explained on any machine. It is divided once, whatever their number.

Example: two devices, each with two of the four rows; they add their sums.
    >>> text = '''HloModule m
    ... add { a = f32[] parameter(0)
    ...   b = f32[] parameter(1)
    ...   ROOT c = f32[] add(a, b) }
    ... ENTRY e { x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
    ...   zero = f32[] constant(0)
    ...   ROOT r = f32[] reduce(x, zero), dimensions={0}, to_apply=add }'''
    >>> [str(shape) for shape in partition(text, 2).parameter_shapes]
    ['f32[2]{0}']
"""

from __future__ import annotations

import os
from pathlib import Path

from ingot.client.options import ProgramLike, module_of
from ingot.formats.load import data_of, has_global_shapes, sniff
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition as divide
from ingot.semantics.device_groups import MOST_DEVICES, grid_of
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError


def partition(program: ProgramLike, num_partitions: int | None = None) -> Module:
    """Return the program of one device of many; a given module is not changed.

    Args:
        program: a module over global shapes, with shardings of Shardy or GSPMD; what
            `ingot.compile` takes.
        num_partitions: the devices that share it; default: the number in the program
            (`num_partitions`, in StableHLO `mhlo.num_partitions`).

    Raises:
        ArgumentError: INGOT0513, that is no number of devices.
        ParseError: the text or data is no program.
        UnsupportedError: INGOT0360, an op or a value cannot be divided as the program asks.
        VerifyError: the module is not valid HLO.
    """
    given = module_of(program)
    verify(given)
    module = given.clone()
    if num_partitions is not None:
        require_type(num_partitions, int, "num_partitions")
        if not 1 <= num_partitions <= MOST_DEVICES:
            raise ArgumentError(f"num_partitions is {num_partitions}, not 1 to {MOST_DEVICES}")
        module.extra["num_partitions"] = str(num_partitions)
    divide(module, grid_of(module).partitions)
    return module


def module_of_device(program: ProgramLike) -> Module:
    """Return the program that a device runs: one of a format with global shapes is divided.

    Raises:
        ParseError: the text or data is no program.
        UnsupportedError: INGOT0360, an op or a value cannot be divided as the program asks.
    """
    module = module_of(program)
    if isinstance(program, Module) or grid_of(module).partitions == 1:
        return module
    data = data_of(Path(program) if isinstance(program, os.PathLike) else program)
    return divided(module, sniff(data))


def divided(module: Module, source_format: str) -> Module:
    """Return the program that a device runs, of a module that was read from a format."""
    is_global = has_global_shapes(source_format) and grid_of(module).partitions > 1
    return partition(module) if is_global else module
