# SPDX-License-Identifier: Apache-2.0
"""The instructions of micro-kernels."""

import pytest

from ingot.cpu.emit.contraction.microkernel import MicroKernel, shared_along
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import PLAIN, assembly
from ingot.llvm.target import TargetSpec


def code_of(kernel: MicroKernel, level: str) -> list[str]:
    """Return the lines of a micro-kernel's assembly."""
    module = ModuleBuilder("micro")
    kernel.define(module, "external")
    return assembly(module.text(), TargetSpec.at_level(level), PLAIN).splitlines()


@pytest.mark.parametrize(("rows", "vectors"), [(14, 2), (7, 2), (9, 3), (6, 4)])
def test_rows_are_broadcast_by_the_instructions_of_their_products(rows: int, vectors: int) -> None:
    lines = code_of(shared_along(lt.F32, 16, rows, vectors, masked=False), "avx512")
    products = [line for line in lines if "vfmadd231ps" in line]
    embedded = [line for line in products if "{1to16}" in line]
    assert len(embedded) * rows == len(products) * -(-rows // 2)
    # An address with an index would make two instructions of one.
    assert not any(line.count(",") > 3 for line in embedded)
    assert not any("zmm" in line and "rsp" in line for line in lines), "a register is spilled"


def test_narrower_vectors_are_broadcast_once() -> None:
    lines = code_of(shared_along(lt.F32, 8, 6, 2, masked=False), "avx2")
    broadcasts = [line for line in lines if "vbroadcastss" in line]
    products = [line for line in lines if "vfmadd231ps" in line]
    assert len(products) == 2 * len(broadcasts)
