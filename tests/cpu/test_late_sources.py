# SPDX-License-Identifier: Apache-2.0
"""What writes a driver's code is imported where that code is not on disk, and there alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.cpu.library.parts import SOURCES
from ingot.support.sources import sources_stamp

PROGRAM = """
import json, sys
import numpy as np
import ingot
text = '''HloModule product

ENTRY main {
  x = f32[70,70] parameter(0)
  y = f32[70,70] parameter(1)
  ROOT z = f32[70,70] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
'''
x = np.eye(70, dtype=np.float32)
found = ingot.compile(ingot.parse_hlo(text))(x, x)
assert (np.asarray(found) == x).all()
print(json.dumps([name for name in sys.modules if name.startswith("ingot.cpu.")]))
"""


def loaded(folder: Path) -> set[str]:
    """Return what a product's first call loads; the library's parts are in `folder`."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "INGOT_CACHE_DIR": str(folder), "INGOT_PROGRAM_CACHE": "0"},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_a_product_whose_driver_is_on_disk_loads_no_source_of_it(tmp_path: Path) -> None:
    if not sources_stamp(SOURCES):
        pytest.skip("sources changed a moment ago")
    driver = "ingot.cpu.emit.product.driver"
    first = loaded(tmp_path)
    assert driver in first
    again = loaded(tmp_path)
    assert "ingot.cpu.strategies.products" in again
    assert driver not in again
    for found in (first, again):
        assert not {name for name in found if "convolution" in name}
