# SPDX-License-Identifier: Apache-2.0
"""Each class and function of Keras: results, shapes and gradients as plain TensorFlow's.

The whole table takes minutes: `make test` runs a share of the rows, those of layers and optimizers
among the slow tests.
"""

import pytest
from tests.frontends.tensorflow.keras.names import public_names
from tests.frontends.tensorflow.keras.row import check_row
from tests.frontends.tensorflow.keras.table import CANNOT, ROWS

_SLOW = ("layers.", "optimizers.", "image.", "metrics.")


def test_every_name_has_a_row_or_a_reason():
    named = set(public_names())
    assert not named - set(ROWS) - set(CANNOT), "no row and no reason"
    assert not (set(ROWS) | set(CANNOT)) - named, "Keras has no such name"
    assert not set(ROWS) & set(CANNOT)


@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if not name.startswith(_SLOW)])
def test_functions(name):
    check_row(ROWS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in sorted(ROWS) if name.startswith(_SLOW)])
def test_classes(name):
    check_row(ROWS[name])
