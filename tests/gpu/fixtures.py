# SPDX-License-Identifier: Apache-2.0
"""A GPU for tests: the fake driver takes the place of the CUDA driver."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.gpu.fake_driver import FakeDriver

import ingot.gpu.program
from ingot.llvm.target import TargetSpec
from ingot.runtime.cuda import devices
from ingot.runtime.cuda.driver import Driver


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeDriver]:
    """Let programs that are compiled for a GPU run under the emulation."""
    made = FakeDriver(checks_races=True)
    driver = Driver(made)
    compile_text = ingot.gpu.program.assembly

    def assembly(text: str, target: TargetSpec) -> str:
        ptx = compile_text(text, target)
        made.sources[ptx] = text
        return ptx

    monkeypatch.setattr(ingot.gpu.program, "assembly", assembly)
    monkeypatch.setattr(devices, "driver", lambda: driver)
    yield made
    made.run_queue()
    made.check_margins()
    assert not made.graphs
    assert not made.executables, "graphs are given back"
    assert made.problems == []
