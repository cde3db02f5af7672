# SPDX-License-Identifier: Apache-2.0
"""Runs a program whole, and as parts of four devices, by the evaluator."""

from typing import Any

import numpy as np

from ingot.evaluator import evaluate, evaluate_replicated
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition
from ingot.passes.spmd.sharding import Sharding


def part_of(value: np.ndarray, sharding: Sharding, device: int) -> np.ndarray:
    if sharding.is_replicated:
        return value
    sizes = sharding.local_dims(value.shape)
    begins = (sharding.offsets(value.shape, axis)[device] for axis in range(value.ndim))
    return value[tuple(slice(a, a + n) for a, n in zip(begins, sizes, strict=True))]


def check(text: str, size: int = 0) -> str:
    """Compare the parts of a program for 4 devices with the whole; return the partitioned text.

    Symbolic sizes are `size`.
    """
    whole, module = parse(text), parse(text)
    division = partition(module, 4)
    verify(module)
    values: list[np.ndarray] = []
    for number, parameter in enumerate(whole.entry.parameters):
        dims = [dim if isinstance(dim, int) else size for dim in parameter.shape.dims]
        count = 1000 * number + np.arange(1, 1 + np.prod(dims))
        values.append(count.reshape(dims).astype(parameter.shape.dtype.numpy))
    for instruction in list(whole.entry.instructions):
        instruction.extra.pop("sharding", None)
        if instruction.opcode == "custom-call":
            whole.entry.replace(instruction, instruction.operands[0])
    expected = _results(evaluate(whole, values))
    given = [
        [part_of(*pair, device) for pair in zip(values, division.parameters, strict=True)]
        for device in range(4)
    ]
    for device, found in enumerate(evaluate_replicated(module, given, 1, 4)):
        results = zip(_results(found), expected, division.results, strict=True)
        for got, want, sharding in results:
            np.testing.assert_array_equal(got, part_of(want, sharding, device))
    return print_module(module)


def _results(value: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in (value if isinstance(value, tuple) else (value,))]
