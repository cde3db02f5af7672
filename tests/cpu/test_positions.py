# SPDX-License-Identifier: Apache-2.0
"""Positions (`iota`) are written by library code, the same at every size."""

import numpy as np
import pytest

import ingot


def positions(element, dims, dimension):
    shape = f"{element}[{','.join(map(str, dims))}]"
    return ingot.compile(
        ingot.parse_hlo(
            f"HloModule positions\n\nENTRY main {{ "
            f"ROOT y = {shape} iota(), iota_dimension={dimension} }}\n"
        )
    )


def parts(executable):
    compiled = executable.inspection.compiled.kernels.compiled.values()
    return {part.name for kernel in compiled for part in kernel.shared}


@pytest.mark.parametrize("element", ["s32", "u8", "f32", "s64"])
@pytest.mark.parametrize(
    ("dims", "dimension"),
    [((5001,), 0), ((70, 130), 0), ((70, 130), 1), ((9, 33, 65), 1), ((8192,), 0)],
)
def test_values(element, dims, dimension):
    executable = positions(element, dims, dimension)
    assert len(parts(executable)) == 1
    found = np.asarray(executable())
    shape = [1] * len(dims)
    shape[dimension] = dims[dimension]
    wanted = np.arange(dims[dimension]).astype(found.dtype).reshape(shape)
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, dims))


def test_sizes_share_the_code():
    assert parts(positions("s32", (1 << 20,), 0)) == parts(positions("s32", (12345,), 0))
    assert parts(positions("s32", (100, 100), 1)) == parts(positions("s32", (77, 4099), 1))


def test_few_positions_have_code_of_their_own():
    assert not parts(positions("s32", (100,), 0))
