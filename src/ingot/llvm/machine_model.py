# SPDX-License-Identifier: Apache-2.0
"""The machine model: registers, and the rates of bytes and operations.

Schedules use the vectors and the sizes of lines and caches; reports use the limit of a kernel
(`Roofline.bound`) and how near it came to that limit (`Roofline.share`). A model of a
target has rates from a table, one row for each level of vectors; `ingot.client.roofline` replaces
them by measured ones.

Invariant: code depends on the target alone, neither on rates nor on the caches of the machine that
compiles it, so it is the same on each machine.

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

from ingot.llvm.target import TargetSpec
from ingot.support.records import record

LINE_BYTES, PAGE_BYTES = 64, 4096
"""Bytes of a cache line, on all CPUs that code is emitted for, and of a page, which their own
prefetchers do not leave."""

TRANSCENDENTAL_FLOPS = 12
"""Cost of the cheapest of them, f32 exponential, in flops: 2^20 take 380 us where products of
matrices reach 36 GFLOP/s (EPYC, AVX2, 2026-11-26)."""

L1_WAYS, L1_STRIDE = 8, 4096
"""Lines of a set of the L1 cache, and the distance of addresses that share a set."""

L1_BYTES = L1_WAYS * L1_STRIDE
"""The L1 cache of a core, for data."""

L2_BYTES, L3_BYTES = 1 << 20, 8 << 20
"""The L2 cache of a core, and what it has of the L3 cache, that schedules are made for: those of
the servers (Skylake, Zen) on which thresholds were measured, and about those of all since."""

MANY_REGISTERS = 32
"""Vector registers of AVX-512: most thresholds that bound registers were measured there."""

ENOUGH_UNITS = 16
"""Units of work below which threads may be idle: a reduction of fewer is cut into parts, and is not
fused with large users."""

_HERTZ = 3e9
_FMA_UNITS = 2
_CORE_BYTES_PER_SECOND = 12e9
_CALL_SECONDS = 1e-6


@record
class Vectors:
    """The vectors of a target, for which schedules are made.

    Attributes:
        bits: bits of a register.
        registers: number of registers.
        most: registers that one value may take.
        has_fma: whether a float product and its addition are one instruction.
        has_bf16_pairs: whether products of bf16 are added to f32 two at a time.
        has_byte_quads: whether products of bytes are added to s32 four at a time.
        has_tiles, has_bf16_tiles: whether tiles of bytes, and of bf16, are multiplied by one
            instruction.
        l1_ways: lines of a set of the L1 cache.
        has_fast_gathers: whether an instruction gathers 32 or 64 bits faster than single loads.
    """

    bits: int
    registers: int
    most: int = 64
    has_fma: bool = True
    has_bf16_pairs: bool = False
    has_byte_quads: bool = False
    has_tiles: bool = False
    has_bf16_tiles: bool = False
    l1_ways: int = L1_WAYS
    has_fast_gathers: bool = False

    @staticmethod
    def of(target: TargetSpec) -> Vectors:
        """Return the vectors of a target."""
        return _vectors_of(target)

    def lanes(self, element_bits: int, registers: int) -> int:
        """Return the lanes of `registers` vector registers (`most` at most) of an element type."""
        return max(1, self.bits * min(registers, self.most) // max(element_bits, 8))


@record
class Roofline:
    """The rates that limit work on a CPU or GPU.

    Attributes:
        bytes_per_second: to and from memory.
        flops_per_second: f32 operations, a multiply-add being two.
        call_seconds: time of the shortest call of a kernel.
    """

    bytes_per_second: float
    flops_per_second: float
    call_seconds: float

    def bound(self, bytes_moved: int, flops: int, transcendentals: int = 0) -> str:
        """Return the limit of work of this size: "memory", "compute" or "latency".

        Args:
            bytes_moved: bytes that are read and written.
            flops: operations, transcendentals among them as one each.
            transcendentals: how many of these are exponentials and the like.
        """
        limits = self._limits(bytes_moved, flops, transcendentals)
        return max(limits, key=lambda name: limits[name])

    def seconds(self, bytes_moved: int, flops: int, transcendentals: int = 0) -> float:
        """Return the time of work of this size at its limit; the arguments are those of `bound`."""
        return max(self._limits(bytes_moved, flops, transcendentals).values())

    def _limits(self, bytes_moved: int, flops: int, transcendentals: int) -> dict[str, float]:
        return {
            "memory": bytes_moved / self.bytes_per_second,
            "compute": _operations(flops, transcendentals) / self.flops_per_second,
            "latency": self.call_seconds,
        }

    def share(
        self, bytes_moved: int, flops: int, seconds: float, transcendentals: int = 0
    ) -> float | None:
        """Return the share of the roofline that work in `seconds` reaches, None if unknown.

        It is the time that the bytes or the operations take at these rates, whichever is longer,
        divided by `seconds`. Work whose data lies in a cache may come over 1.
        """
        if not seconds or not (bytes_moved or flops):
            return None
        operations = _operations(flops, transcendentals)
        shortest = max(bytes_moved / self.bytes_per_second, operations / self.flops_per_second)
        return shortest / seconds


@record
class MachineModel(Roofline):
    """Resources and rates of a machine with all its cores.

    Attributes:
        vectors: the vectors of a core.
        cores: CPUs that the process may use.
    """

    vectors: Vectors
    cores: int

    @staticmethod
    def of(target: TargetSpec) -> MachineModel:
        """Return the model of a target: this machine's cores, rates from the table."""
        return _model_of(target)


def _operations(flops: int, transcendentals: int) -> int:
    return flops + (TRANSCENDENTAL_FLOPS - 1) * transcendentals


@cache
def _vectors_of(target: TargetSpec) -> Vectors:
    return Vectors(
        target.vector_bits,
        target.num_vector_registers,
        has_fma=target.has_fma,
        has_bf16_pairs=target.has_bf16_pairs,
        has_byte_quads=target.has_byte_quads,
        has_tiles=target.has_tiles,
        has_bf16_tiles=target.has_bf16_tiles,
        l1_ways=target.l1_ways,
        has_fast_gathers=target.has_fast_gathers,
    )


@cache
def _model_of(target: TargetSpec) -> MachineModel:
    cores = 1 if target.is_foreign else len(os.sched_getaffinity(0))
    lanes = target.vector_bits // 32
    per_cycle = lanes * 2 * (_FMA_UNITS if target.has_fma else 1)
    return MachineModel(
        _CORE_BYTES_PER_SECOND * cores,
        _HERTZ * per_cycle * cores,
        _CALL_SECONDS,
        Vectors.of(target),
        cores,
    )
