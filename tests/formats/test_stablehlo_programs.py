"""StableHLO of JAX programs: read, verified, evaluated, and equal to what JAX computes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.verifier import verify
from tests.formats.jax_programs import PROGRAMS


def _leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_program(name: str) -> None:
    function, arguments = PROGRAMS[name]
    jitted = jax.jit(function, keep_unused=True)
    module = parse_stablehlo(str(jitted.lower(*arguments).compiler_ir("stablehlo")))
    verify(module)
    text = print_module(module)
    assert print_module(parse_hlo(text)) == text
    found = evaluate(module, _leaves(arguments))
    expected = _leaves(jitted(*arguments))
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one = np.asarray(one)
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
        else:
            tol = 3e-2 if one.dtype.itemsize < 4 else 2e-5
            np.testing.assert_allclose(
                one.astype(np.complex128 if one.dtype.kind == "c" else np.float64),
                other.astype(np.complex128 if one.dtype.kind == "c" else np.float64),
                rtol=tol,
                atol=tol,
            )
