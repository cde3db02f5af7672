# SPDX-License-Identifier: Apache-2.0
"""Programs for several devices, as text: what the tests of collectives run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.hlo.dtype import dtype

Array = np.ndarray[Any, np.dtype[Any]]

_HEAD = """HloModule replicated, replica_count={replicas}, num_partitions={partitions}

add {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT c = {element}[] {combine}(a, b)
}}

"""

APART = """HloModule apart, replica_count=2
    meet { a = f32[3] parameter(0)
      ROOT b = f32[3] collective-permute(a), source_target_pairs={{0,1},{1,0}} }
    stay { c = f32[3] parameter(0) ROOT d = f32[3] negate(c) }
    ENTRY main { x = f32[3] parameter(0) i = u32[] replica-id() z = u32[] constant(0)
      p = pred[] compare(i, z), direction=EQ
      ROOT r = f32[3] conditional(p, x, x), true_computation=meet, false_computation=stay }"""
"""Device 0 is at a collective to which device 1 does not come."""


def program(
    body: str,
    *,
    replicas: int = 1,
    partitions: int = 1,
    element: str = "f32",
    combine: str = "add",
) -> str:
    """Return a module whose entry is `body`, with a reducer called `add`."""
    head = _HEAD.format(replicas=replicas, partitions=partitions, element=element, combine=combine)
    return head + "ENTRY main {\n" + body + "\n}\n"


def values(element: str, dims: tuple[int, ...], seed: int) -> Array:
    """Return numbers that every element type can hold, small enough to add exactly."""
    generator = np.random.default_rng(seed)
    numbers = generator.integers(-3, 4, dims)
    if dtype(element).is_complex:
        return (numbers + 1j * generator.integers(-3, 4, dims)).astype(dtype(element).numpy)
    if dtype(element).kind.value in ("unsigned", "pred"):
        numbers = abs(numbers)
    return numbers.astype(dtype(element).numpy)


def one_each(body: str, element: str, dims: tuple[int, ...], grid: tuple[int, int]):
    """Return the program's text and one input for each device."""
    replicas, partitions = grid
    sizes = ",".join(map(str, dims))
    text = f"  x = {element}[{sizes}] parameter(0)\n  {body}"
    inputs = [[values(element, dims, device)] for device in range(replicas * partitions)]
    return program(text, replicas=replicas, partitions=partitions, element=element), inputs
