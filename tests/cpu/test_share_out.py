# SPDX-License-Identifier: Apache-2.0
"""Kernels of a program are shared out so that all CPUs end to compile at about the same time."""

from __future__ import annotations

import pytest

from ingot import parse_hlo
from ingot.client.compilation import default_context
from ingot.cpu.kernels import KernelCode, KernelSet, kernel_codes, share_out
from ingot.cpu.pipeline import PIPELINE
from ingot.hlo.rewrite.runner import run_passes
from ingot.host.sites import scheduled_fusions
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.target import TargetSpec

OPS = ("sine", "cosine", "exponential", "log", "sqrt", "tanh", "rsqrt", "cbrt", "log-plus-one",
       "exponential-minus-one", "logistic", "erf")  # fmt: skip
TEXT = "\n".join((
    "HloModule m",
    "ENTRY e {",
    "  a = f32[128,64] parameter(0)",
    "  b = f32[64,96] parameter(1)",
    "  product = f32[128,96] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "  activated = f32[128,96] tanh(product)",
    *(f"  p{n} = f32[{40 + n}] parameter({2 + n})" for n in range(len(OPS))),
    *(f"  r{n} = f32[{40 + n}] {op}(p{n})" for n, op in enumerate(OPS)),
    f"  ROOT all = (f32[128,96], {', '.join(f'f32[{40 + n}]' for n in range(len(OPS)))}) "
    f"tuple(activated, {', '.join(f'r{n}' for n in range(len(OPS)))})",
    "}",
))  # fmt: skip


@pytest.fixture(scope="module")
def functions() -> list[KernelCode]:
    """What a program of thirteen kernels, one of them around a product of the library, compiles."""
    module = parse_hlo(TEXT)
    run_passes(PIPELINE, module, default_context())
    kernels = KernelSet(TargetSpec.host())
    for fusion in scheduled_fusions(module):
        kernels.add(fusion)
    return list(kernel_codes(kernels.pending))


@pytest.mark.parametrize("cpus", [1, 2, 3])
def test_every_kernel_is_in_one_group(functions: list[KernelCode], cpus: int):
    groups = share_out(functions, cpus)
    assert len(groups) == cpus
    shared = [function for group in groups for function in group]
    assert sorted(map(id, shared)) == sorted(map(id, functions))


def test_earlier_groups_have_more(functions: list[KernelCode]):
    alike = [item for item in functions if not isinstance(item.plan.kernel, ContractionKernel)][:5]
    groups = share_out(alike, 2)
    assert [len(group) for group in groups] == [3, 2]


def test_a_product_of_the_library_weighs_no_more_than_another_kernel(functions: list[KernelCode]):
    assert any(isinstance(item.plan.kernel, ContractionKernel) for item in functions)
    sizes = [len(group) for group in share_out(functions, 2)]
    assert sizes == [7, 6]
