# SPDX-License-Identifier: Apache-2.0
"""Filter gradients in shared code: dimensions, strides, dilations, borders, groups, epilogues."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.support.against_evaluator import agrees, agrees_on_normal_numbers

import ingot
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.kernel.convolution.filter_gradient import FilterGradient, filter_gradient
from ingot.kernel.ir import ConvolutionKernel
from ingot.kernel.lowering import lower_fusion
from ingot.llvm.machine_model import Vectors

W = WindowDimension


@dataclass(frozen=True)
class Case:
    """Sizes of a filter's gradient; the window's sizes are those of the result's gradient."""

    image: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    features: int
    element: str = "f32"
    groups: int = 1

    def module(self, *, epilogue: bool = False) -> Module:
        build = Builder("main")
        places = tuple(one.size for one in self.window)
        gradient = (self.image[0], *places, self.features)
        x = build.parameter(0, Shape.array(self.element, self.image))
        g = build.parameter(1, Shape.array(self.element, gradient))
        digits = "".join(map(str, range(len(self.window))))
        root = build.convolution(
            x,
            g,
            window=self.window,
            dim_labels=f"f{digits}b_i{digits}o->{digits}bf",
            batch_group_count=self.groups,
        )
        if epilogue:
            taps = build.parameter(2, root.shape)
            root = build.subtract(taps, build.multiply(root, build.full(0.5, root.shape)))
        return Module.of("gradient", build.build(root))


def _plan(module: Module) -> FilterGradient | None:
    kernel = lower_fusion(module.entry)
    if not isinstance(kernel, ConvolutionKernel):
        return None
    found = filter_gradient(kernel, Vectors(512, 32))
    return None if isinstance(found, str) else found


CASES = (
    # several images in a group, the last group with fewer
    Case((7, 9, 11, 40), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 32),
    # forward stride 2
    Case((3, 9, 11, 13), (W(5, 1, 1, 1, 1, 2), W(6, 1, 1, 1, 1, 2)), 49),
    # several groups of lines, the last with fewer
    Case((2, 19, 40, 64), (W(19, 1, 1, 1), W(40, 1, 1, 1)), 64),
    # without padding, and with negative padding
    Case((2, 20, 40, 8), (W(18, 1), W(38, 1)), 30),
    Case((2, 12, 14, 24), (W(9, 1, -1, 1), W(11, 1, 1, -1)), 32),
    # forward dilation 2
    Case((2, 12, 14, 24), (W(12, 2, 2, 2), W(14, 2, 2, 2)), 64),
    Case((5, 30, 24), (W(28, 2, 3, 4),), 32),
    # one long row in lines, the last one shorter; few taps, forward stride 2
    Case((1, 515, 24), (W(515, 1, 2, 2),), 35),
    Case((1, 601, 20), (W(300, 1, 1, 1, 1, 2),), 64),
    Case((2, 301, 20), (W(301, 1, 1, 1),), 128),
    Case((3, 5, 6, 7, 20), (W(5, 1, 1, 1), W(6, 1, 2, 1), W(7, 1, 1, 2)), 64),
    Case((4, 300, 3, 9), (W(300, 1, 1, 1), W(3, 1, 1, 1)), 64),
    # one vector behind whole panels: full, and masked
    Case((3, 9, 11, 40), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 48),
    Case((3, 9, 11, 40), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 35),
    # few features: vectors of 8 and of 4 lanes
    Case((3, 9, 11, 40), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 7),
    Case((3, 9, 11, 40), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 3),
)

GROUPED = (
    # vectors of 8 and 4 lanes, full and masked
    Case((3, 9, 11, 32), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 32, groups=4),
    Case((3, 9, 11, 35), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 30, groups=5),
    Case((3, 9, 11, 12), (W(9, 1, 1, 1), W(11, 1, 1, 1)), 12, groups=3),
    # one vector, two panels of a group, several blocks of channels
    Case((2, 19, 40, 24), (W(19, 1, 1, 1), W(40, 1, 1, 1)), 48, groups=3),
    Case((2, 12, 14, 10), (W(9, 1, -1, 1), W(11, 1, 1, -1)), 94, groups=2),
    Case((2, 9, 9, 96), (W(9, 1, 1, 1), W(9, 1, 1, 1)), 64, groups=2),
    # one dimension, three of them; a forward stride
    Case((5, 30, 24), (W(28, 2, 3, 4),), 32, groups=4),
    Case((3, 5, 6, 7, 20), (W(5, 1, 1, 1), W(6, 1, 2, 1), W(7, 1, 1, 2)), 64, groups=4),
    Case((3, 9, 11, 16), (W(5, 1, 1, 1, 1, 2), W(6, 1, 1, 1, 1, 2)), 48, groups=2),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES + GROUPED)
@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("level", ["", "avx2", "plain"])
def test_windows(case: Case, epilogue: bool, level: str) -> None:
    module = case.module(epilogue=epilogue)
    assert _plan(module) is not None
    agrees_on_normal_numbers(module, 4e-6, level)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[:7] + GROUPED)
def test_f64(case: Case) -> None:
    module = replace(case, element="f64").module()
    assert _plan(module) is not None
    agrees_on_normal_numbers(module, 1e-14)


def test_some_windows() -> None:
    agrees_on_normal_numbers(CASES[0].module(), 4e-6)
    agrees_on_normal_numbers(CASES[1].module(epilogue=True), 4e-6)
    agrees_on_normal_numbers(GROUPED[1].module(epilogue=True), 4e-6)
    agrees_on_normal_numbers(GROUPED[3].module(), 4e-6)


@pytest.mark.slow
def test_sums_do_not_depend_on_the_epilogue() -> None:
    case = CASES[2]
    plain, minus = ingot.compile(case.module()), ingot.compile(case.module(epilogue=True))
    generator = np.random.default_rng(0)
    x = generator.standard_normal(case.image).astype(np.float32)
    g = generator.standard_normal((2, 19, 40, 64)).astype(np.float32)
    found = plain(x, g)
    np.testing.assert_array_equal(minus(x, g, np.zeros_like(found)), -0.5 * found)


@pytest.mark.parametrize(
    "case",
    [
        # few channels, few taps, few features, long lines, other types, spread-out input, reversal
        Case((2, 20, 20, 3), (W(20, 1, 1, 1), W(20, 1, 1, 1)), 64),
        Case((2, 20, 20, 64), (W(20), W(20)), 64),
        Case((2, 20, 20, 64), (W(20, 1, 1, 1), W(20, 1, 1, 1)), 9),
        Case((2, 2, 3000, 16), (W(2, 1, 1, 1), W(3000, 1, 2, 2)), 32),
        Case((2, 20, 20, 64), (W(20, 1, 1, 1), W(20, 1, 1, 1)), 64, "bf16"),
        Case((2, 10, 20, 64), (W(20, 1, 1, 3, 2), W(20, 1, 1, 1)), 64),
        Case((2, 20, 20, 64), (W(20, 1, 1, 1, reversal=True), W(20, 1, 1, 1)), 64),
    ],
)
def test_what_has_code_of_its_own(case: Case) -> None:
    assert _plan(case.module()) is None


@pytest.mark.parametrize(
    ("labels", "image", "gradient", "result", "groups", "has_driver"),
    [
        # PyTorch's, and JAX's with channels first
        ("fb01_io01->fb01", "5,24,13,12", "5,32,13,12", "32,24,3,3", 1, True),
        ("fb01_io01->bf01", "5,24,13,12", "5,32,13,12", "24,32,3,3", 1, True),
        ("fb01_io01->fb01", "?n,24,13,12", "?n,32,13,12", "32,24,3,3", 1, True),
        ("fb01_io01->fb01", "?n,3,13,12", "?n,32,13,12", "32,3,3,3", 1, True),
        ("fb01_io01->fb01", "?n,2,13,12", "?n,32,13,12", "32,2,3,3", 1, False),
        ("b01f_01io->b01f", "24,13,12,5", "13,12,5,32", "24,3,3,32", 1, False),
        ("fb01_io01->fb01", "5,6,13,12", "5,32,13,12", "32,6,3,3", 1, False),
        ("fb01_io01->fb01", "5,24,13,12", "5,32,13,12", "32,6,3,3", 4, True),
        ("fb01_io01->fb01", "?n,24,13,12", "?n,32,13,12", "32,6,3,3", 4, True),
        # two features of each channel
        ("fb01_io01->fb01", "5,24,13,12", "5,48,13,12", "48,1,3,3", 24, False),
        ("fb01_io01->fb01", "5,24,13,12", "5,24,13,12", "24,1,3,3", 24, False),
        ("fb01_io01->fb01", "?n,24,13,12", "?n,24,13,12", "24,1,3,3", 24, False),
    ],
)
def test_orders_of_dimensions(
    labels: str, image: str, gradient: str, result: str, groups: int, has_driver: bool
) -> None:
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[{image}] parameter(0)
  g = f32[{gradient}] parameter(1)
  ROOT y = f32[{result}] convolution(x, g), window={{size=13x12 pad=1_1x1_1}}, \
dim_labels={labels}, batch_group_count={groups}
}}""")
    executable = ingot.compile(module)
    generator = np.random.default_rng(2)
    for batch in (0, 1, 7) if "?n" in image else (5,):
        sizes = [text.replace("?n", str(batch)).split(",") for text in (image, gradient)]
        shapes = [tuple(map(int, size)) for size in sizes]
        inputs = [generator.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
        agrees(module, inputs, executable=executable)
    (kernel,) = [kernel for kernel in executable.kernels if "convolution" in kernel.opcodes]
    assert (kernel.strategy == "filter gradient") == has_driver
