# SPDX-License-Identifier: Apache-2.0
"""The instructions of micro-kernels."""

import pytest

from ingot.cpu.emit.contraction.microkernel import MicroKernel, on_panels, shared
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.micro_blocks import BlockMaker
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import assembly
from ingot.llvm.optimization import PLAIN
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace


def code_of(kernel: MicroKernel, level: str) -> list[str]:
    """Return the lines of a micro-kernel's assembly."""
    module = ModuleBuilder("micro")
    kernel.define(module, "external")
    return assembly(module.text(), TargetSpec.at_level(level), PLAIN).splitlines()


def along(rows: int, columns: int, lanes: int = 16, panel: int | None = None) -> MicroKernel:
    """Return a micro-kernel for rows that are dense along k."""
    block = BlockMaker(F32, lanes, panel).block(rows, columns)
    made = replace(shared(lt.F32, lanes, block, masked=False), a_step=1)
    return made if panel is None else on_panels(made, panel)


IN_PLACE = [along(rows, 32) for rows in (12, 13, 14)]
PANELS = [along(rows, n, panel=n) for rows, n in ((14, 32), (7, 32), (9, 48), (6, 64))]


@pytest.mark.parametrize("kernel", [*IN_PLACE, *PANELS])
def test_rows_are_broadcast_by_the_instructions_of_their_products(kernel: MicroKernel) -> None:
    lines = code_of(kernel, "avx512")
    products = [line for line in lines if "vfmadd231ps" in line]
    embedded = [line for line in products if "{1to16}" in line]
    assert len(embedded) * kernel.block.rows == len(products) * -(-kernel.block.rows // 2)
    # An address with an index would make two instructions of one.
    assert not any(line.count(",") > 3 for line in embedded)
    assert not any("zmm" in line and "rsp" in line for line in lines), "a register is spilled"


@pytest.mark.parametrize(("rows", "vectors"), [(7, 2), (6, 4)])
def test_low_blocks_in_place_have_no_loads_to_spare(rows: int, vectors: int) -> None:
    lines = code_of(along(rows, 16 * vectors), "avx512")
    assert not any("{1to16}" in line for line in lines)


def test_narrower_vectors_are_broadcast_once() -> None:
    lines = code_of(along(6, 16, lanes=8), "avx2")
    broadcasts = [line for line in lines if "vbroadcastss" in line]
    products = [line for line in lines if "vfmadd231ps" in line]
    assert len(products) == 2 * len(broadcasts)
