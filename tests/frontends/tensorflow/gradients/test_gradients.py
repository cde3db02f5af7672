"""Each program differentiated in each way: Ingot's numbers against plain TensorFlow's.

The whole table is slow; every program and every way is in the part that is not.
"""

import numpy as np
import pytest
from tests.frontends.tensorflow.gradients.table import PROGRAMS
from tests.frontends.tensorflow.gradients.ways import WAYS
from tests.frontends.tensorflow.programs.beside import COMPILED, run

FAST = (
    ("polynomial", "outside 2"),
    ("largest", "outside 1"),
    ("concat", "between 2"),
    ("branch", "graph 1"),
    ("total", "gradients 2"),
    ("bare_loop", "outside 2"),
    ("bare_loop", "gradients 2"),
    ("autograph_for", "outside 2"),
)


def check(program: str, way: str) -> None:
    """Hold a cell of the table against plain TensorFlow, up to the size of its numbers."""
    described, differentiate = PROGRAMS[program], WAYS[way]
    wanted = run(lambda jit: differentiate(described, jit), None)
    assert not COMPILED, "plain TensorFlow was compiled"
    got = run(lambda jit: differentiate(described, jit), True)
    assert COMPILED, "nothing was compiled"
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        scale = max(1.0, float(np.abs(want).max(initial=0.0)))
        np.testing.assert_allclose(have / scale, want / scale, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("program", "way"), FAST, ids=[f"{a}-{b}" for a, b in FAST])
def test_gradients(program, way):
    check(program, way)
