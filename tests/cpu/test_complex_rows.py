"""The rows of complex products are library code: recognized at every common size, and right."""

import numpy as np
import pytest

import ingot
from ingot.cpu.library import library_kernel
from ingot.hlo.dtype import C64, C128
from ingot.kernel.complex_rows import complex_rows, rows_kernel
from ingot.kernel.schedule import Vectors
from ingot.llvm.target import TargetSpec

TEXT = """HloModule m
ENTRY e {{
  a = {element}[{m},{k}] parameter(0)
  b = {element}[{k},{n}] parameter(1)
  ROOT c = {element}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


@pytest.mark.parametrize("element", ["c64", "c128"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (100, 128, 300), (40, 50, 61)])
def test_a_product_compiles_no_code_of_its_own(element, m, k, n):
    program = ingot.compile(ingot.parse_hlo(TEXT.format(element=element, m=m, k=k, n=n)))
    random = np.random.default_rng(0)
    a, b = (
        (random.standard_normal(dims) + 1j * random.standard_normal(dims)).astype(
            np.complex64 if element == "c64" else np.complex128
        )
        for dims in ((m, k), (k, n))
    )
    np.testing.assert_allclose(program(a, b), a @ b, rtol=1e-4, atol=1e-4)
    names = {row.name for row in program.kernels}
    text = program.as_text("llvm")
    assert "complex_rows_" in text
    assert not any(f"@{name}(" in text for name in names)


def test_other_kernels_of_complex_numbers_are_not_taken():
    target = TargetSpec.host()
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    for element in (C64, C128):
        assert complex_rows(rows_kernel(element), vectors) is not None
    program = ingot.compile(
        ingot.parse_hlo("""HloModule m
        ENTRY e {
          b = c64[64,64] parameter(0)
          c = c64[64,2,64] broadcast(b), dimensions={0,2}
          ROOT d = c64[64,2,64] tanh(c)
        }""")
    )
    for kernel in program._compiled.kernels.compiled.values():
        assert library_kernel(target, kernel.kernel) is None
