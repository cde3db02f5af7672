# SPDX-License-Identifier: Apache-2.0
"""Convolutions of a symbolic batch run in the library's drivers, as those of a known batch do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.cpu import test_direct_convolution as direct
from tests.cpu import test_filter_gradient as gradients
from tests.support.against_evaluator import agrees

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim, evaluate
from ingot.hlo.module import Module
from ingot.hlo.window import WindowDimension as W
from ingot.kernel.ir import ConvolutionKernel
from ingot.kernel.lowering import lower_fusion
from ingot.kernel.parse import parse_kernel
from ingot.kernel.text import kernel_text

N = Dim.symbol("n")
BATCHES = (0, 1, 2, 5, 19)
PADDED = (W(3, 1, 1, 1), W(3, 1, 1, 1))

DIRECT = {
    "strides": direct.CASES[0],
    "one dimension": direct.CASES[4],
    "three dimensions": direct.CASES[5],
    "groups": direct.Case((2, 10, 14, 32), PADDED, 32, 8),
    "depthwise": direct.Case((2, 33, 29, 50), PADDED, 50, 50),
    "phases": direct.SPREAD[0],
    "empty phases": direct.SPREAD[2],
}
WINOGRAD = {
    "images": direct.Case((1, 14, 14, 64), PADDED, 64),
    "small images": direct.Case((1, 7, 7, 96), PADDED, 128),
    "large images": direct.Case((1, 41, 39, 32), PADDED, 64),
}


def symbolic(case: direct.Case) -> direct.Case:
    """Return a case with a batch of any size."""
    return replace(case, image=(N, *case.image[1:]))  # type: ignore[arg-type]


def strategies(executable: ingot.Executable) -> set[str]:
    return {kernel.strategy for kernel in executable.kernels if "convolution" in kernel.opcodes}


def agrees_for_every_batch(module: Module, nearness: float) -> ingot.Executable:
    """Assert that one program agrees with the evaluator for all batches; return it."""
    executable = ingot.compile(module)
    assert isinstance(executable, ingot.Executable)
    generator = np.random.default_rng(1)
    for batch in BATCHES:
        shapes = [item.shape for item in module.entry.parameters]
        sizes = [[evaluate(size, {"n": batch}) for size in shape.dims] for shape in shapes]
        inputs = [generator.standard_normal(size).astype(np.float32) for size in sizes]
        agrees(module, inputs, executable=executable, of_largest=nearness)
    return executable


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("name", DIRECT)
def test_direct(name: str, epilogue: bool) -> None:
    case = symbolic(DIRECT[name])
    executable = agrees_for_every_batch(case.module(epilogue=epilogue), 3e-6)
    assert strategies(executable) == {"direct convolution"}


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(name: str, epilogue: bool) -> None:
    module = symbolic(WINOGRAD[name]).module(epilogue=epilogue)
    assert strategies(agrees_for_every_batch(module, 3e-6)) == {"Winograd convolution"}


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2, 6, 7, 10])
def test_filter_gradient(number: int, epilogue: bool) -> None:
    case = gradients.CASES[number]
    module = replace(case, image=(N, *case.image[1:])).module(epilogue=epilogue)  # type: ignore[arg-type]
    # Sums of up to 14,440 products.
    assert strategies(agrees_for_every_batch(module, 1e-5)) == {"filter gradient"}


@pytest.mark.parametrize("case", [WINOGRAD["images"], DIRECT["strides"]])
def test_an_epilogue_may_read_the_size_of_the_batch(case: direct.Case) -> None:
    # The images of the other operand come in the other order.
    build = Builder("main")
    root = symbolic(case).module().entry.root
    x, k = (build.parameter(n, item.shape) for n, item in enumerate(root.operands))
    given = root.attributes
    sums = build.convolution(x, k, window=given.window, dim_labels=given.dim_labels)
    other = build.parameter(2, sums.shape)
    module = Module.of("m", build.build(build.add(sums, build.reverse(other, dimensions=(0,)))))
    executable = agrees_for_every_batch(module, 3e-6)
    (kernel,) = executable.kernels
    assert kernel.opcodes == ("convolution", "reverse", "add")
    assert kernel.strategy in ("Winograd convolution", "direct convolution")


@pytest.mark.parametrize(
    "make",
    [
        lambda: symbolic(DIRECT["strides"]).module(epilogue=True),
        lambda: symbolic(DIRECT["depthwise"]).module(),
    ],
)
def test_the_kernel_is_printed_and_read_with_its_batch(make: Callable[[], Module]) -> None:
    kernel = lower_fusion(make().entry)
    assert isinstance(kernel, ConvolutionKernel)
    assert kernel.convolution.batch is N
    text = kernel_text(kernel)
    assert "batch=n " in text
    assert parse_kernel(text) == kernel


def test_another_symbolic_size_has_code_of_its_own() -> None:
    case = replace(DIRECT["strides"], image=(2, N, 13, 24))  # type: ignore[arg-type]
    assert not isinstance(lower_fusion(case.module().entry), ConvolutionKernel)
