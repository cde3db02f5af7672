# SPDX-License-Identifier: Apache-2.0
"""Random bits as integer arithmetic: the bits and next states of the evaluator, which are XLA's."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.runner import run_passes
from ingot.passes.expand.rng import rng_bit_generator_expander
from ingot.support.diagnostics import UnsupportedError

pytestmark = pytest.mark.fast_share(8)

_TEXT = """HloModule m
ENTRY e {{
  s = {state} parameter(0){size}
  ROOT r = ({state}, {bits}) rng-bit-generator(s), algorithm={algorithm}
}}
"""


def _module(algorithm: str, state: str, bits: str, size: str = "") -> Module:
    text = _TEXT.format(algorithm=algorithm, state=state, bits=bits, size=size)
    return parse(text)


def _state(shape: str) -> np.ndarray:
    count = int(shape[4:-1])
    # A low counter word about to overflow: the carry must reach the high word.
    return np.array([0x0123456789ABCDEF, 2**64 - 2, 7][:count], np.uint64)


@pytest.mark.parametrize(
    ("algorithm", "state"),
    [
        ("rng_philox", "u64[2]"),
        ("rng_philox", "u64[3]"),
        ("rng_default", "u64[3]"),
        ("rng_three_fry", "u64[2]"),
    ],
)
@pytest.mark.parametrize(
    "bits", ["u32[7]", "u32[3,4]", "u32[5,3]", "u64[5]", "s64[2,3]", "u8[9]", "f32[6]", "u32[]"]
)
def test_expanded_bits_are_the_evaluators(algorithm: str, state: str, bits: str) -> None:
    module = _module(algorithm, state, bits)
    inputs = [_state(state)]
    wanted = evaluate(module, inputs)
    run_passes(rng_bit_generator_expander, module, PassContext(debug=1))
    assert all(i.opcode != "rng-bit-generator" for i in module.entry.instructions)
    actual = evaluate(module, inputs)
    for left, right in zip(wanted, actual, strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


def test_symbolic_sizes() -> None:
    module = _module("rng_philox", "u64[2]", "u32[?n,3]", "\n  x = f32[?n] parameter(1)")
    inputs = [_state("u64[2]"), np.zeros(5, np.float32)]
    wanted = evaluate(module, inputs)
    run_passes(rng_bit_generator_expander, module, PassContext(debug=1))
    for left, right in zip(wanted, evaluate(module, inputs), strict=True):
        np.testing.assert_array_equal(left, right)


def test_threefry_of_symbolic_parity_is_refused() -> None:
    module = _module("rng_three_fry", "u64[2]", "u32[?n]", "\n  x = f32[?n] parameter(1)")
    with pytest.raises(UnsupportedError, match="rng_philox"):
        run_passes(rng_bit_generator_expander, module, PassContext())
