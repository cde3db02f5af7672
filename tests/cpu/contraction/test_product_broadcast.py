# SPDX-License-Identifier: Apache-2.0
"""Products of operands that are broadcast: no step of one need be 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate

KINDS = ("all", "scalar", "along", "across")


def _operand(kind: str, element: str, name: str, number: int, dims: tuple[int, int]) -> str:
    if kind == "all":
        return f"{name} = {element}[{dims[0]},{dims[1]}] parameter({number})"
    kept = {"scalar": (), "along": (1,), "across": (0,)}[kind]
    narrow = ",".join(str(dims[place]) for place in kept)
    return (
        f"{name}0 = {element}[{narrow}] parameter({number})\n{name} = "
        f"{element}[{dims[0]},{dims[1]}] broadcast({name}0), "
        f"dimensions={{{','.join(map(str, kept))}}}"
    )


@pytest.mark.parametrize(
    ("element", "m", "k", "n"),
    [
        ("f32", 17, 40, 24),
        pytest.param("f32", 64, 256, 128, marks=pytest.mark.slow),
        pytest.param("f32", 1, 64, 33, marks=pytest.mark.slow),
        pytest.param("bf16", 17, 40, 24, marks=pytest.mark.slow),
        pytest.param("s8", 130, 512, 300, marks=pytest.mark.slow),
        pytest.param("c64", 5, 7, 1, marks=pytest.mark.slow),
        pytest.param("f64", 64, 256, 128, marks=pytest.mark.slow),
    ],
)
def test_operands_that_are_broadcast(element: str, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    for left, right in itertools.product(KINDS, repeat=2):
        dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        text = f"""HloModule m
ENTRY e {{ {_operand(left, element, "x", 0, (m, k))}
  {_operand(right, element, "y", 1, (k, n))}
  ROOT d = {element}[{m},{n}] dot(x, y), {dims} }}"""
        module = ingot.parse_hlo(text)
        inputs = [
            np.asarray(rng.integers(-3, 4, shape.static_dims)).astype(shape.dtype.numpy)
            for shape in module.parameter_shapes
        ]
        got, want = ingot.compile(module)(*inputs), np.asarray(evaluate(module, inputs))
        np.testing.assert_allclose(
            np.asarray(got).astype(np.complex128),
            want.astype(np.complex128),
            rtol=1e-2,
            err_msg=f"{left}, {right}",
        )
