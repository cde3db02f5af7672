# SPDX-License-Identifier: Apache-2.0
"""Models of machines: what they say of registers, and what limits work."""

import pytest

from ingot.llvm.machine_model import TRANSCENDENTAL_FLOPS, MachineModel, Vectors
from ingot.llvm.target import TargetSpec

MODEL = MachineModel(
    vectors=Vectors(bits=256, registers=16),
    cores=1,
    bytes_per_second=1e9,
    flops_per_second=1e10,
    call_seconds=1e-6,
)


@pytest.mark.parametrize(
    ("work", "bound"),
    [
        ((0, 0), "latency"),
        ((999, 9_999), "latency"),
        ((2_000, 10_001), "memory"),
        ((2_000, 30_000), "compute"),
        ((2_000, 2_000, 2_000), "compute"),
    ],
)
def test_the_longest_time_is_the_bound(work: tuple[int, ...], bound: str) -> None:
    assert MODEL.bound(*work) == bound


def test_a_share_is_the_shortest_time_over_the_one_it_took() -> None:
    assert MODEL.share(1_000_000, 0, 0.002) == pytest.approx(0.5)
    assert MODEL.share(1_000_000, 20_000_000, 0.002) == pytest.approx(1.0)
    operations = TRANSCENDENTAL_FLOPS * 1_000_000
    assert MODEL.share(0, 1_000_000, 1.0, 1_000_000) == pytest.approx(operations / 1e10)
    assert MODEL.share(0, 0, 1.0) is None
    assert MODEL.share(1, 1, 0.0) is None


def test_wider_vectors_compute_more() -> None:
    plain, avx2, avx512 = (
        MachineModel.of(TargetSpec.at_level(level)) for level in ("plain", "avx2", "avx512")
    )
    assert plain.flops_per_second < avx2.flops_per_second < avx512.flops_per_second
    assert (plain.vectors.bits, avx2.vectors.registers) == (128, 16)
    assert avx512.vectors.registers == 32
    assert plain.bytes_per_second == avx512.bytes_per_second


def test_a_foreign_machine_has_one_core() -> None:
    foreign = MachineModel.of(TargetSpec("aarch64-unknown-linux-gnu", "generic", ""))
    assert foreign.cores == 1
