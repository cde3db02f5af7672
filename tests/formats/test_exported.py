# SPDX-License-Identifier: Apache-2.0
"""What `jax.export` serializes is found out from its data; damaged data is none of it."""

import numpy as np
import pytest

from ingot.formats.load import load, sniff
from ingot.formats.stablehlo.exported import artifact_of
from ingot.support.diagnostics import ParseError

jax = pytest.importorskip("jax")


@pytest.fixture(scope="module")
def data():
    shape = jax.ShapeDtypeStruct((3,), np.float32)
    exported = jax.export.export(jax.jit(lambda x, y: x * 2))(shape, shape)
    return bytes(exported.serialize())


def test_it_is_told_apart_and_read(data):
    assert sniff(data) == "jax_export"
    module = load(data)
    assert [str(one.shape) for one in module.entry.parameters] == ["f32[3]{0}"]
    assert load(data, "jax_export", isolated=False).entry.name == module.entry.name


def test_damaged_data_is_none_of_it(data):
    generator = np.random.default_rng(5)
    for _ in range(2000):
        changed = bytearray(data[:2000])
        for place in generator.integers(0, 200, 3):
            changed[place] = generator.integers(256)
        found = artifact_of(bytes(changed))
        assert found is None or found.startswith(b"ML\xefR")
    for size in range(80):
        assert artifact_of(data[:size]) is None
    with pytest.raises(ParseError, match=r"not what jax\.export writes"):
        load(b"\x01\x02\x03", "jax_export")
