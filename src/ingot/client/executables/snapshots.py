# SPDX-License-Identifier: Apache-2.0
"""Snapshots of executions: `--xla_dump_hlo_snapshots`, XLA's `HloSnapshot` of each call.

A snapshot is the module before the passes, the arguments and the result of one execution, written
as `module_0001.NAME.execution_0000.hlo_snapshot.pb` beside the other dumps. `ingot run FILE.pb`
runs it again. Every caller's executions are written: the API's, JAX's, TensorFlow's, torch's.

Source: xla/service/dump.cc (DumpHloSnapshotIfEnabled).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from ingot.client.executables.executable import Executable
from ingot.client.profiling.profile import remember
from ingot.client.reports.dump import Dump
from ingot.formats.hlo_proto import Snapshot, print_snapshot
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.runtime.programs.observed import observe
from ingot.support.trampoline import Recursion, run

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

PLATFORM = "cpu"
"""XLA's name of the platform."""

_log = logging.getLogger("ingot")


def dump_snapshots(executable: Executable, dump: Dump) -> None:
    """Let each execution write its snapshot."""
    module = executable.source
    if not all(leaf.is_static and not leaf.bounded for leaf in _leaves(module)):
        _log.warning("no snapshots of %s: a proto has no sizes that calls decide", module.name)
        return
    numbers = itertools.count()

    def begin(arguments: list[Array]) -> Callable[[list[Array]], None]:
        number = next(numbers)
        values = iter(arguments)
        given = tuple([run(_literal(shape, values)) for shape in module.parameter_shapes])

        def end(results: list[Array]) -> None:
            result = run(_literal(module.result_shape, iter(results)))
            snapshot = Snapshot(module, given, result, PLATFORM)
            dump.data(f"execution_{number:04d}.hlo_snapshot.pb", print_snapshot(snapshot))

        return end

    observe(executable.program, begin)
    remember(executable, executable.program.record_address)


def _leaves(module: Module) -> list[Shape]:
    shapes = (*module.parameter_shapes, module.result_shape)
    return [leaf for shape in shapes for _, leaf in shape.leaves()]


def _literal(shape: Shape, values: Iterator[Array]) -> Recursion[Literal]:
    """Return the next values as a literal of `shape`."""
    if not shape.is_tuple:
        return Literal(shape, np.array(next(values), shape.dtype.numpy))
    elements: list[Literal] = []
    for element in shape.elements:
        elements.append((yield _literal(element, values)))
    return Literal(shape, None, tuple(elements))
