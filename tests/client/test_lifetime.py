# SPDX-License-Identifier: Apache-2.0
"""What keeps code mapped: whoever can call an executable."""

import gc

import numpy as np

import ingot
from ingot.client import clear_caches

TEXT = """\
HloModule lifetime

ENTRY main {
  x = f32[100,30] parameter(0)
  y = f32[30,70] parameter(1)
  z = f32[100,70] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT w = f32[100,70] exponential(z)
}
"""


def test_call_alone_keeps_the_kernels():
    call = ingot.compile(ingot.parse_hlo(TEXT)).call
    clear_caches()
    gc.collect()
    x, y = np.full((100, 30), 0.1, np.float32), np.full((30, 70), 0.1, np.float32)
    for _ in range(3):
        np.testing.assert_allclose(call(x, y), np.exp(x @ y), rtol=1e-5)
