# SPDX-License-Identifier: Apache-2.0
"""The instructions of micro-kernels."""

import pytest

from ingot.cpu.emit.contraction.microkernel import MicroKernel, on_panels, shared_along
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.llvm.optimization import PLAIN
from ingot.llvm.target import TargetSpec


def code_of(kernel: MicroKernel, level: str) -> list[str]:
    """Return the lines of a micro-kernel's assembly."""
    module = ModuleBuilder("micro")
    kernel.define(module, "external")
    return assembly(module.text(), TargetSpec.at_level(level), PLAIN).splitlines()


IN_PLACE = [shared_along(lt.F32, 16, rows, 2, masked=False) for rows in (12, 13, 14)]
PANELS = [
    on_panels(shared_along(lt.F32, 16, rows, vectors, masked=False), vectors * 16)
    for rows, vectors in ((14, 2), (7, 2), (9, 3), (6, 4))
]


@pytest.mark.parametrize("kernel", [*IN_PLACE, *PANELS])
def test_rows_are_broadcast_by_the_instructions_of_their_products(kernel: MicroKernel) -> None:
    lines = code_of(kernel, "avx512")
    products = [line for line in lines if "vfmadd231ps" in line]
    embedded = [line for line in products if "{1to16}" in line]
    assert len(embedded) * kernel.rows == len(products) * -(-kernel.rows // 2)
    # An address with an index would make two instructions of one.
    assert not any(line.count(",") > 3 for line in embedded)
    assert not any("zmm" in line and "rsp" in line for line in lines), "a register is spilled"


@pytest.mark.parametrize(("rows", "vectors"), [(7, 2), (6, 4)])
def test_low_blocks_in_place_have_no_loads_to_spare(rows: int, vectors: int) -> None:
    lines = code_of(shared_along(lt.F32, 16, rows, vectors, masked=False), "avx512")
    assert not any("{1to16}" in line for line in lines)


def test_narrower_vectors_are_broadcast_once() -> None:
    lines = code_of(shared_along(lt.F32, 8, 6, 2, masked=False), "avx2")
    broadcasts = [line for line in lines if "vbroadcastss" in line]
    products = [line for line in lines if "vfmadd231ps" in line]
    assert len(products) == 2 * len(broadcasts)
