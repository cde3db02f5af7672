# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of its ops, compiled beside eager: the rows of `opinfo.sweep`."""

import pytest
from tests.frontends.torch.opinfo.exceptions import ALWAYS
from tests.frontends.torch.opinfo.row import check_row, rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ingot.support.flags.IngotWarning")
@pytest.mark.parametrize("name", [name for name in rows() if name not in ALWAYS])
def test_row(name: str) -> None:
    compared = check_row(rows()[name])
    assert compared.samples, "eager runs none of the samples"


@pytest.mark.slow
def test_exceptions_are_rows() -> None:
    assert ALWAYS.keys() <= rows().keys()
