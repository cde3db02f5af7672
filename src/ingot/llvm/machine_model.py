# SPDX-License-Identifier: Apache-2.0
"""What a machine can do: registers, caches, and how fast bytes and operations go.

Schedules ask `LINE_BYTES`; reports ask what bounds a kernel (`MachineModel.bound`) and how near it
came to that limit (`MachineModel.share`). A model of a target has rates from a table, one row for
each level of vectors; `ingot.client.roofline` replaces them by measured ones.

Invariant: code depends on the target alone, never on the rates, so it is the same on each machine.

Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.

Example:
    >>> model = MachineModel.of(TargetSpec.at_level("avx2"))
    >>> model.bound(bytes_moved=1 << 26, flops=1 << 24)
    'memory'
    >>> model.bound(bytes_moved=3 << 22, flops=2 << 30)
    'compute'
    >>> model.bound(bytes_moved=64, flops=16)
    'latency'
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from ingot.llvm.target import TargetSpec
from ingot.support.records import record

LINE_BYTES = 64
"""Bytes of a cache line, on all CPUs that there is code for."""

TRANSCENDENTAL_FLOPS = 12
"""What the cheapest of them, the exponential of f32, takes: 2^20 in 380 us where products of
matrices reach 36 GFLOP/s (EPYC, AVX2, 2026-11-26)."""

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
"""Bytes of caches where the system does not say them: a small server of 2020."""

_HERTZ = 3e9
_FMA_UNITS = 2
_CORE_BYTES_PER_SECOND = 12e9
_CALL_SECONDS = 1e-6


@record
class MachineModel:
    """What a machine can do with all its cores.

    Attributes:
        vector_bits: bits of a vector register.
        vector_registers: how many there are.
        l1_bytes, l2_bytes, l3_bytes: data caches of a core; the last is shared.
        cores: CPUs that the process may use.
        bytes_per_second: to and from memory.
        flops_per_second: f32 operations, a multiply-add being two.
        call_seconds: what the shortest call of a kernel takes.
    """

    vector_bits: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int
    bytes_per_second: float
    flops_per_second: float
    call_seconds: float = _CALL_SECONDS

    @staticmethod
    def of(target: TargetSpec) -> MachineModel:
        """Return the model of a target: this machine's caches and cores, rates from the table."""
        return _model_of(target)

    def bound(self, bytes_moved: int, flops: int, transcendentals: int = 0) -> str:
        """Return what limits work of this size: "memory", "compute" or "latency".

        Args:
            bytes_moved: bytes that are read and written.
            flops: operations, transcendentals among them as one each.
            transcendentals: how many of these are exponentials and the like.
        """
        limits = {
            "memory": bytes_moved / self.bytes_per_second,
            "compute": _operations(flops, transcendentals) / self.flops_per_second,
            "latency": self.call_seconds,
        }
        return max(limits, key=lambda name: limits[name])

    def share(
        self, bytes_moved: int, flops: int, seconds: float, transcendentals: int = 0
    ) -> float | None:
        """Return the share of the roofline that work in so many seconds is, None if unknown.

        It is the time that the bytes or the operations take at these rates, whichever is longer,
        divided by `seconds`. Work whose data lies in a cache may come over 1.
        """
        if not seconds or not (bytes_moved or flops):
            return None
        operations = _operations(flops, transcendentals)
        shortest = max(bytes_moved / self.bytes_per_second, operations / self.flops_per_second)
        return shortest / seconds


def _operations(flops: int, transcendentals: int) -> int:
    return flops + (TRANSCENDENTAL_FLOPS - 1) * transcendentals


@cache
def _model_of(target: TargetSpec) -> MachineModel:
    caches = _UNKNOWN_CACHES if target.is_foreign else _UNKNOWN_CACHES | _caches_here()
    cores = 1 if target.is_foreign else len(os.sched_getaffinity(0))
    lanes = target.vector_bits // 32
    per_cycle = lanes * 2 * (_FMA_UNITS if target.has_fma else 1)
    return MachineModel(
        target.vector_bits,
        target.num_vector_registers,
        caches[1],
        caches[2],
        caches[3],
        cores,
        _CORE_BYTES_PER_SECOND * cores,
        _HERTZ * per_cycle * cores,
    )


def _caches_here() -> dict[int, int]:
    """Return the bytes of this machine's data caches by level, as far as the system says them."""
    found: dict[int, int] = {}
    for entry in _CACHES.glob("index*"):
        try:
            level, kind, size = (
                (entry / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K") and size[:-1].isdigit():
            found[int(level)] = int(size[:-1]) << 10
    return found
