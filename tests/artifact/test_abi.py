# SPDX-License-Identifier: Apache-2.0
"""The execution ABI as data: the layout of `sizes`, and its way through JSON."""

import pytest

from ingot.artifact.abi import (
    OutputInfo,
    ParamInfo,
    ProgramInfo,
)

INFO = ProgramInfo(
    "step",
    (ParamInfo("f32", (None, 3), "x"), ParamInfo("s64", ())),
    (OutputInfo("f32", (None, 3), alias_param=0), OutputInfo("pred", ()), OutputInfo("u8", (4,))),
    num_symbols=2,
    constraints=("a",),
    run_errors=("b", "c"),
)


def test_sizes_lie_one_after_the_other():
    layout = INFO.sizes_layout
    assert [layout.symbol(index) for index in range(2)] == [1, 2]
    assert [layout.output_bytes(index) for index in range(3)] == [3, 4, 5]
    assert [layout.output_dims(index) for index in range(3)] == [6, 8, 8]
    assert layout.count == INFO.num_sizes == 9


def test_a_wrong_number_of_sizes_is_refused():
    with pytest.raises(ValueError, match="num_sizes is 3, but the outputs need 2"):
        ProgramInfo("f", (), (OutputInfo("f32", ()),), num_sizes=3)
