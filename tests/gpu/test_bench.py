# SPDX-License-Identifier: Apache-2.0
"""`make bench-gpu` on the fake driver: every kernel has its row; times say nothing here."""

from __future__ import annotations

import pytest
from benchmarks.kernels import gpu
from tests.gpu.fake_driver import FakeDriver

pytest_plugins = ("tests.gpu.fixtures",)


def test_every_kernel_has_a_row(fake: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--size", "40", "--calls", "1"])
    printed = capsys.readouterr().out
    assert printed.count("of a copy") == 5
    assert printed.count("Tflop/s") == 2
