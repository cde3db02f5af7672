# SPDX-License-Identifier: Apache-2.0
"""Linked calls: one that its target cannot serve is an error of the execution that runs it."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.support.diagnostics import ExecutionError

WRONG = """HloModule m
sure { x = f32[2] parameter(0)  ROOT y = f32[2] negate(x) }
never {
  x = f32[2] parameter(0)
  wrong = () custom-call(), custom_call_target="lapack_sgetrf_ffi", custom_call_has_side_effect=true
  ROOT y = f32[2] add(x, x)
}
ENTRY main {
  which = s32[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(which, x, x), branch_computations={sure, never}
}
"""


def test_a_wrong_call_that_does_not_run_is_no_error() -> None:
    compiled = ingot.compile(ingot.parse_hlo(WRONG))
    x = np.array([1, 2], np.float32)
    assert np.asarray(compiled(np.int32(0), x)).tolist() == [-1, -2]
    with pytest.raises(ExecutionError, match=r"lapack_sgetrf_ffi.*it takes 1 operands"):
        compiled(np.int32(1), x)
