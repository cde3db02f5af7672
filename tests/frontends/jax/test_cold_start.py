# SPDX-License-Identifier: Apache-2.0
"""What a process loads of Ingot before its first result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.client.stored import SOURCES
from ingot.support.sources import sources_stamp

pytest.importorskip("jax")

PROGRAM = """
import json, sys
import jax
jax.jit(lambda x: x * 2)(3.0).block_until_ready()
print(json.dumps([name for name in sys.modules if name.startswith("ingot.")]))
"""


def loaded(**variables: str) -> set[str]:
    """Return the modules of Ingot that a one-line program loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_a_process_on_another_platform_loads_nothing_but_the_question() -> None:
    found = {name for name in loaded(JAX_PLATFORMS="cpu") if not name.startswith("ingot.support")}
    assert found == {
        "ingot.frontends",
        "ingot.frontends.jax",
        "ingot.frontends.jax.platforms",
    }


def test_a_process_that_finds_its_programs_loads_nothing_of_the_compiler(tmp_path: Path) -> None:
    if not sources_stamp(SOURCES):
        pytest.skip("sources changed a moment ago")
    compiler = (
        "passes",
        "kernel",
        "cpu",
        "emit",
        "evaluator",
        "analysis",
        "formats.stablehlo.parse",
    )
    names = tuple(f"ingot.{name}" for name in compiler)
    found = [
        {
            name
            for name in loaded(
                JAX_PLATFORMS="ingot",
                INGOT_CACHE_DIR=str(tmp_path),
                INGOT_CACHE="1",
                INGOT_PROGRAM_CACHE="1",
            )
            if name.startswith(names)
        }
        for _ in range(2)
    ]
    assert found[0]
    assert found[1] == set()


UNUSED = (
    "client.staged",
    "evaluator",
    "cpu.emit.attention",
    "cpu.emit.convolution",
    "cpu.emit.drivers",
    "cpu.emit.fft",
    "cpu.emit.sort",
    "cpu.strategies.common",
    "cpu.strategies.convolutions",
    "cpu.strategies.products",
    "cpu.strategies.selections",
    "cpu.strategies.samples",
    "formats.hlo_text.parser",
    "formats.hlo_text.printer",
    "kernel.attention",
    "kernel.fft",
    "kernel.sort",
    "passes.expand.collectives",
    "passes.expand.complex_expander",
    "passes.expand.dynamic.padder",
    "passes.expand.rng",
    "passes.schedule.estimates",
    "passes.simplify.convolution",
    "passes.simplify.dots",
    "passes.simplify.sorts",
    "passes.simplify.while",
    "passes.spmd.custom_partitioners",
    "passes.spmd.partitioner",
    "passes.stages",
    "runtime.foreign.builtin",
    "runtime.foreign.lapack",
    "runtime.foreign.register",
)


def test_a_first_compilation_loads_nothing_for_kernels_and_devices_that_it_lacks() -> None:
    found = loaded(JAX_PLATFORMS="ingot", INGOT_CACHE="0", INGOT_PROGRAM_CACHE="0")
    assert "ingot.kernel.lowering" in found
    names = tuple(f"ingot.{name}" for name in UNUSED)
    assert {name for name in found if name.startswith(names)} == set()
