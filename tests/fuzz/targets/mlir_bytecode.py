# SPDX-License-Identifier: Apache-2.0
"""Mutated MLIR bytecode and portable artifacts, read as files are: a module or an error of Ingot's.

MLIR ends its process on some of them, and loops for ever on others; that is an error by name here,
and not a finding. Seeds are what JAX writes of the programs of
`jax_programs`, in both formats.
"""

from __future__ import annotations

import io
import random
from functools import cache

import jax
from jax import export
from tests.formats.jax_programs import PROGRAMS
from tests.fuzz.module_check import checked, verified
from tests.fuzz.mutation import drawn, mutated_bytes
from tests.fuzz.target import Target

from ingot.formats.load import load
from ingot.formats.stablehlo.binding import mlir, parse_mlir

_EACH = 6  # JAX takes its time.
_NO_ARTIFACT = "mhlo.backend_config"
"""In a module that only JAX itself writes as an artifact."""
_HANGS = "the child that reads hung"
_HEAD_BYTES = 200
"""Versions, dialects and the table of strings stand there: damage of one byte means most there."""


@cache
def seeds() -> tuple[bytes, ...]:
    """Return the data that is mutated, the same in each process: without locations."""
    found: list[bytes] = []
    for function, arguments in [*PROGRAMS.values()][::_EACH]:
        jitted = jax.jit(function)
        buffer = io.BytesIO()
        parse_mlir(jitted.lower(*arguments).as_text()).operation.write_bytecode(buffer)
        found.append(buffer.getvalue())
        text = export.export(jitted)(*arguments).mlir_module()
        if _NO_ARTIFACT not in text:
            version = mlir().stablehlo.get_current_version()
            module = parse_mlir(text)
            found.append(mlir().stablehlo.serialize_portable_artifact(module, version))
    return tuple(found)


def generate(choose: random.Random) -> bytes:
    """Return a mutant of a seed."""
    data = drawn(choose, seeds())
    if choose.random() < 0.3:
        return mutated_bytes(choose, data[:_HEAD_BYTES]) + data[_HEAD_BYTES:]
    if choose.random() < 0.1:
        other = choose.choice(seeds())
        return data[: choose.randrange(len(data))] + other[choose.randrange(len(other)) :]
    return mutated_bytes(choose, data)


def check(data: bytes) -> str:
    """Return what is wrong with how the data is read and written."""
    found = checked(lambda: verified(load(data, "stablehlo", isolated=True)), runs=False)
    return "" if found.startswith(_HANGS) else found


TARGET = Target("mlir_bytecode", ".mlirbc", generate, check, seconds=90.0, runs_compiler=False)
