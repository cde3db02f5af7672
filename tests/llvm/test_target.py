# SPDX-License-Identifier: Apache-2.0
"""What a target answers to emitters."""

import numpy as np
import pytest

import ingot
from ingot.llvm import target as target_module
from ingot.llvm.target import CPU_LEVELS, TargetSpec, host_levels
from ingot.support.diagnostics import UnsupportedError


@pytest.mark.parametrize(
    ("level", "bits", "registers", "avx512", "avx2", "fma"),
    [
        ("avx512", 512, 32, True, True, True),
        ("avx2", 256, 16, False, True, True),
        ("plain", 128, 16, False, False, False),
    ],
)
def test_levels(level: str, bits: int, registers: int, avx512: bool, avx2: bool, fma: bool) -> None:
    target = TargetSpec.at_level(level)
    assert (target.vector_bits, target.num_vector_registers) == (bits, registers)
    assert (target.has_avx512, target.has_avx2, target.has_fma) == (avx512, avx2, fma)
    assert target.cpu == CPU_LEVELS[level].cpu


def test_the_environment_forces_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CPU_LEVEL", "plain")
    assert TargetSpec.host() == TargetSpec.host("plain")
    monkeypatch.delenv("INGOT_CPU_LEVEL")
    assert TargetSpec.host().cpu not in {level.cpu for level in CPU_LEVELS.values()}


def test_an_unknown_level_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="avx512, avx2, plain"):
        TargetSpec.host("sse9")


def test_a_spec_is_a_value() -> None:
    assert TargetSpec("t", "c", "+fma") == TargetSpec("t", "c", "+fma")
    assert hash(TargetSpec("t", "c", "")) == hash(TargetSpec("t", "c", ""))
    assert TargetSpec("x86_64", "c", "+fma,-avx2").feature_set == {"fma"}


def test_nvptx() -> None:
    target = TargetSpec.nvptx("sm_80", "+ptx75")
    assert target.architecture == "nvptx"
    assert target.has_fma
    assert not target.has_avx2


def test_a_level_that_the_cpu_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "host_features", lambda: frozenset({"avx2", "f16c"}))
    assert host_levels() == ("plain",)
    with pytest.raises(UnsupportedError, match="lacks fma"):
        TargetSpec.host("avx2")
    assert TargetSpec.at_level("avx2").has_fma


def test_code_for_another_cpu_is_looked_at_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "HloModule other_cpu ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] add(x, x) }"
    monkeypatch.setattr(target_module, "host_features", lambda: frozenset({"avx2", "f16c"}))
    executable = ingot.compile(ingot.parse_hlo(text), target=TargetSpec.at_level("avx2"))
    assert "define" in executable.as_text("llvm")
    x = np.ones(8, np.float32)
    for run in (executable, executable.call, lambda x: executable(x, donate=[0])):
        with pytest.raises(
            UnsupportedError, match=r"other_cpu, which was compiled for .* lacks fma"
        ):
            run(x)
    with pytest.raises(UnsupportedError, match="lacks fma"):
        _ = executable.program
    with pytest.raises(UnsupportedError, match="lacks fma"):
        executable.execute_replicated([[x]])
