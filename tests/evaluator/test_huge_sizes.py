# SPDX-License-Identifier: Apache-2.0
"""Arrays that the evaluator has no memory for are a ResourceError that names the instruction."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.support.diagnostics import ResourceError


@pytest.mark.parametrize("size", [1 << 44, 1 << 52, (1 << 60) - 1])
@pytest.mark.parametrize("op", ["negate(b)", "add(b, b)", "reverse(i), dimensions={0}"])
def test_memory_that_there_is_not(size: int, op: str) -> None:
    text = (
        f"HloModule m ENTRY e {{ p = f32[] parameter(0) "
        f"b = f32[{size}] broadcast(p), dimensions={{}} "
        f"i = f32[{size}] iota(), iota_dimension=0 ROOT r = f32[{size}] {op} }}"
    )
    with pytest.raises(ResourceError, match=rf"f32\[{size}\]") as caught:
        evaluate(ingot.parse_hlo(text), [np.float32(1)])
    assert caught.value.diagnostic.code == "INGOT0401"
