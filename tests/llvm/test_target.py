"""What a target answers to emitters."""

import pytest

from ingot.llvm.target import CPU_LEVELS, TargetSpec
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
    target = TargetSpec.host(level)
    assert (target.vector_bits, target.num_vector_registers) == (bits, registers)
    assert (target.has_avx512, target.has_avx2, target.has_fma) == (avx512, avx2, fma)
    assert target.cpu == CPU_LEVELS[level].cpu


def test_the_environment_forces_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_CPU_LEVEL", "avx2")
    assert TargetSpec.host() == TargetSpec.host("avx2")
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
