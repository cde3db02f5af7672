# SPDX-License-Identifier: Apache-2.0
"""The machine model of GPUs: the numbers from which schedules are decided.

Invariant: plain values; equal machines and equal kernels give equal code. Nothing here asks a
device: code is compiled for a compute capability by its name.

Source: NVIDIA's CUDA C++ Programming Guide, Compute Capabilities.

Example:
    >>> machine_of("sm_90").warp
    32
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.llvm.machine_model import Roofline
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record


@record
class GpuMachine:
    """One compute capability.

    Attributes:
        name: as LLVM and ptxas call it ("sm_90").
        ptx: the PTX version that is emitted, times ten.
        shared_bytes: shared memory that a block may declare.
        warp: threads that run together.
        threads: threads of a block, in strategies that need no other number.
        contracts: whether a product and a sum of floats may be one operation, rounded once.
    """

    name: str
    ptx: int
    shared_bytes: int = 48 << 10
    warp: int = 32
    threads: int = 256
    contracts: bool = True

    @property
    def capability(self) -> int:
        """The compute capability, times ten."""
        return int(self.name.removeprefix("sm_"))

    @property
    def rates(self) -> Roofline:
        """The rates of memory and f32 operations of a device of this capability."""
        return RATES[self.name]

    @property
    def target(self) -> TargetSpec:
        """What LLVM compiles for."""
        return TargetSpec.nvptx(self.name, f"+ptx{self.ptx}", contracts=self.contracts)


LAUNCH_SECONDS = 4e-6
"""About what a launch takes on any of them, until its kernel is done; not measured here."""

RATES: Mapping[str, Roofline] = {
    name: Roofline(bytes_per_second, flops_per_second, LAUNCH_SECONDS)
    for name, bytes_per_second, flops_per_second in (
        ("sm_75", 320e9, 8.1e12),  # T4
        ("sm_80", 1555e9, 19.5e12),  # A100, 40 GB
        ("sm_86", 600e9, 31.2e12),  # A10
        ("sm_89", 300e9, 30.3e12),  # L4
        ("sm_90", 3350e9, 67e12),  # H100 SXM
        ("sm_100", 8000e9, 75e12),  # B200
        ("sm_120", 1792e9, 104.8e12),  # GeForce RTX 5090
    )
}
"""Peak rates of one device of each capability by NVIDIA's data sheets: bytes of memory and f32
operations, without tensor cores, in a second. Reports say by them what limits a kernel; no code
depends on them. No device was measured."""

BLOCKS = 128
"""Blocks that keep a GPU busy: about one for each multiprocessor."""

SHARED_ALIGNMENT = 16
"""Bytes: arrays in shared memory begin at multiples of it."""


def array_bytes(item: int, count: int) -> int:
    """Return the bytes of an array in shared memory, of `count` items of `item` bytes."""
    return -(-item * count // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


DEFAULT = "sm_90"

MACHINES = {
    name: GpuMachine(name, ptx)
    for name, ptx in (
        *(("sm_75", 63), ("sm_80", 70), ("sm_86", 71), ("sm_89", 78)),
        *((DEFAULT, 80), ("sm_100", 86), ("sm_120", 87)),
    )
}
"""Each with the oldest PTX version that knows it: a driver accepts any version that is not newer
than itself."""


def machine_of(name: str = DEFAULT) -> GpuMachine:
    """Return the machine of a compute capability.

    Raises:
        UnsupportedError: INGOT0323, there is none of this name.
    """
    found = MACHINES.get(name)
    if found is None:
        raise UnsupportedError(
            f"there is no GPU '{name}'", code="INGOT0323", hint=f"use one of {', '.join(MACHINES)}"
        )
    return found


def machine_for(capability: tuple[int, int], name: str) -> GpuMachine:
    """Return the newest machine that a device runs the code of.

    Args:
        capability: the device's compute capability, major and minor.
        name: what messages call the device.

    Raises:
        UnsupportedError: INGOT0323, there is none.

    Example:
        >>> machine_for((9, 0), "H100").name, machine_for((11, 0), "Thor").name
        ('sm_90', 'sm_100')
    """
    number = 10 * capability[0] + capability[1]
    fitting = [row for row in MACHINES.values() if int(row.name[3:]) <= number]
    if not fitting:
        raise UnsupportedError(
            f"there is no code for {name}, of compute capability {capability[0]}.{capability[1]}",
            code="INGOT0323",
            hint=f"use a GPU that runs code for {next(iter(MACHINES))} or newer",
        )
    return fitting[-1]
