# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions in shared code: dimensions, windows, groups, borders, epilogues."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.support.against_evaluator import agrees_on_normal_numbers

import ingot
from ingot.analysis.direct_convolution import runs_whole
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.kernel.convolution.direct import Direct, direct_convolution, side_by_side
from ingot.kernel.ir import ContractionKernel, ConvolutionKernel
from ingot.kernel.lowering import lower_fusion
from ingot.kernel.parse import parse_kernel
from ingot.kernel.text import kernel_text
from ingot.llvm.machine_model import Vectors

W = WindowDimension


@dataclass(frozen=True)
class Case:
    """Sizes of a convolution; `groups` of features."""

    image: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    features: int
    groups: int = 1
    element: str = "f32"

    @property
    def results(self) -> tuple[Any, ...]:
        """Sizes of the result in space."""
        return tuple(
            one.count(size) for one, size in zip(self.window, self.image[1:-1], strict=True)
        )

    def module(self, *, epilogue: bool = False) -> Module:
        build = Builder("main")
        channels = self.image[-1] // self.groups
        taps: tuple[int, ...] = (*(one.size for one in self.window), channels, self.features)
        x = build.parameter(0, Shape.array(self.element, self.image))
        k = build.parameter(1, Shape.array(self.element, taps))
        digits = "".join(map(str, range(len(self.window))))
        root = build.convolution(
            x,
            k,
            window=self.window,
            dim_labels=f"b{digits}f_{digits}io->b{digits}f",
            feature_group_count=self.groups,
        )
        if epilogue:
            bias = build.parameter(2, Shape.array(self.element, (self.features,)))
            last = root.shape.rank - 1
            wide = build.broadcast(bias, shape=root.shape, dimensions=(last,))
            root = build.maximum(build.add(root, wide), build.full(0, root.shape))
        return Module.of("direct", build.build(root))


def _plan(module: Module, bits: int = 512) -> Direct | None:
    kernel = lower_fusion(module.entry)
    if not isinstance(kernel, ConvolutionKernel):
        return None
    vectors = Vectors(bits, 32 if bits == 512 else 16)
    found = direct_convolution(side_by_side(kernel, vectors), vectors)
    return None if isinstance(found, str) else found


CASES = (
    Case((2, 15, 13, 24), (W(3, 2, 1, 1), W(3, 2, 1, 1)), 52),
    Case((1, 30, 30, 3), (W(7, 2, 3, 3), W(7, 2, 3, 3)), 64),
    Case((2, 9, 12, 16), (W(3, 1, 2, 2, 1, 2), W(3, 1, 2, 2, 1, 2)), 32),
    Case((1, 10, 11, 64), (W(3, 1, -1, 1), W(2, 1, 2, -1)), 96, 2),
    Case((3, 40, 20), (W(5, 1, 4, 0),), 49),
    Case((1, 6, 7, 8, 5), (W(2, 2, 1, 0), W(3, 1, 1, 1), W(3, 1, 1, 1)), 64),
    Case((2, 5, 10, 512), (W(1, 1), W(1, 2)), 32),
    Case((1, 3, 5, 32), (W(1, 1, 6, -4), W(1, 1, 6, -5)), 32),
    Case((2, 11, 4, 32), (W(2, 1, 1, 0), W(1, 1, 9, -2)), 32),
    Case((1, 9, 8, 24), (W(3, 1, 1, 1, 1, 1, True), W(3, 1, 2, 2, 1, 2, True)), 64),
    Case((2, 10, 14, 32), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 32, 8),
    Case((1, 10, 14, 48), (W(3, 2, 1, 1), W(3, 2, 1, 1)), 48, 3),
    Case((1, 10, 9, 96), (W(3, 1, 1, 1), W(3)), 96, 3),
    Case((2, 30, 29, 16), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 16),
    Case((1, 28, 28, 1), (W(3), W(3)), 6),
    Case((1, 12, 9, 5), (W(3, 2, 1, 1), W(3, 1, 1, 1)), 11),
    Case((2, 9, 13, 40), (W(3, 1, 1, 1), W(3, 2, 1, 1)), 40, 40),
    Case((1, 12, 30), (W(5, 1, 2, 2, 1, 2),), 30, 30),
    Case((1, 8, 9, 40), (W(5, 1, 2, 2), W(5, 1, 2, 2)), 160),
    # channels by themselves: taps side by side, or spread; more panels than one, the last masked
    Case((2, 33, 29, 50), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 50, 50),
    Case((1, 21, 40, 96), (W(7, 1, 3, 3), W(7, 1, 3, 3)), 96, 96),
    Case((1, 21, 19, 70), (W(5, 2, 2, 1), W(2, 1, 1, 0)), 70, 70),
    Case((1, 6, 9, 17, 33), (W(3, 2, 1, 1), W(3, 3, 1, 1, 1, 2), W(3, 1, 1, 1)), 33, 33),
    Case((1, 12, 30, 34), (W(3, 1, 1, 1), W(3, 1, 1, 1, 1, 1, True)), 34, 34),
    # a run of several panels to a unit
    Case((1, 61, 59, 75), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 75, 75),
    Case((2, 31, 37, 140), (W(5, 2, 2, 2), W(5, 1, 2, 2)), 140, 140),
    # one long row in lines: all alike, with results left over, with negative padding
    Case((2, 300, 12), (W(3, 1, 1, 1),), 40),
    Case((1, 700, 8), (W(5, 2, 3, 4, 1, 3),), 32),
    Case((1, 1, 421, 16), (W(1), W(4, 1, -2, 5)), 32, 2),
    # one vector behind whole panels: full, and masked
    Case((2, 9, 20, 24), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 48),
    Case((2, 9, 20, 24), (W(5, 1, 2, 2), W(5, 1, 2, 2)), 35),
)


def test_depthwise_taps_that_lie_side_by_side_share_the_rows_that_they_read() -> None:
    plan = _plan(Case((1, 56, 56, 128), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 128, 128).module())
    assert plan is not None
    (part,) = plan.parts
    assert (part.value("segment"), part.value("segments")) == (3, 3)
    spread = _plan(Case((1, 56, 56, 128), (W(3, 1, 1, 1), W(3, 2, 1, 1)), 128, 128).module())
    assert spread is not None
    assert spread.parts[0].value("segment") == 1


@pytest.mark.parametrize(
    ("image", "taps", "features"),
    [
        ((28, 28, 256), 3, 32),  # the cache keeps it: a unit copies the channels of one panel
        ((56, 56, 128), 3, 128),
        ((60, 60, 200), 3, 128),
        ((56, 56, 144), 7, 64),  # units have many rows in common
    ],
)
def test_units_of_large_depthwise_images_copy_long_runs(image, taps, features) -> None:
    window = (W(taps, 1, taps // 2, taps // 2),) * 2
    plan = _plan(Case((1, *image), window, image[-1], image[-1]).module())
    assert plan is not None
    (part,) = plan.parts
    assert part.value("n_block") == features
    assert part.value("own_columns") == (features < image[-1])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epilogue", [False, True])
def test_windows(case: Case, epilogue: bool) -> None:
    module = case.module(epilogue=epilogue)
    is_product = all(one == W(one.size, one.stride) and one.size == 1 for one in case.window)
    assert (_plan(module) is None) == is_product
    agrees_on_normal_numbers(module, 3e-6)


@pytest.mark.parametrize(("channels", "groups"), [(32, 8), (40, 40)])
def test_epilogues_of_groups_count_all_features(channels: int, groups: int) -> None:
    case = Case((2, 10, 14, channels), (W(3, 1, 1, 1), W(3, 1, 1, 1)), channels, groups)
    module = case.module(epilogue=True)
    assert _plan(module) is not None
    agrees_on_normal_numbers(module, 3e-6)
    kernel = lower_fusion(module.entry)
    assert kernel_text(parse_kernel(kernel_text(kernel))) == kernel_text(kernel)


def test_an_epilogue_that_shuffles_the_features_of_groups_is_code_of_the_kernels_own() -> None:
    case = Case((2, 10, 14, 32), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 32, 8)
    build = Builder("main")
    x = build.parameter(0, Shape.array("f32", case.image))
    k = build.parameter(1, Shape.array("f32", (3, 3, 4, 32)))
    sums = build.convolution(
        x, k, window=case.window, dim_labels="b01f_01io->b01f", feature_group_count=8
    )
    of_groups = build.reshape_to(sums, (2, 10, 14, 8, 4))
    shuffled = build.transpose(of_groups, dimensions=(0, 1, 2, 4, 3))
    root = build.negate(build.reshape_to(shuffled, (2, 10, 14, 32)))
    agrees_on_normal_numbers(Module.of("shuffled", build.build(root)), 3e-6)


@pytest.mark.parametrize("case", [CASES[0], CASES[-2], CASES[-4]])
def test_some_windows(case: Case) -> None:
    agrees_on_normal_numbers(case.module(), 3e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("features", "groups"), [(52, 1), (24, 24)])
def test_f64(features: int, groups: int) -> None:
    window = (W(3, 2, 1, 1), W(3, 2, 1, 1))
    agrees_on_normal_numbers(Case((2, 15, 13, 24), window, features, groups, "f64").module(), 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["avx2", "plain"])
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 9, 13, 40), (W(3, 1, 1, 1), W(3, 2, 1, 1)), 40, 40),
        Case((1, 16, 15, 48), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 64),
        Case((1, 16, 15, 48), (W(3, 2, 1, 1), W(3, 2, 1, 1)), 64),
    ],
)
def test_narrower_vectors(level: str, case: Case) -> None:
    agrees_on_normal_numbers(case.module(), 3e-6, level)


SPREAD = (
    Case((2, 9, 11, 40), (W(3, 1, 2, 1, 2), W(3, 1, 2, 1, 2)), 32),
    Case((2, 8, 9, 24), (W(4, 1, 1, 2, 2, reversal=True), W(5, 1, 3, 0, 3, reversal=True)), 64),
    # no tap meets three of four results
    Case((1, 7, 8, 16), (W(1, 1, 0, 1, 2), W(1, 1, 0, 1, 2)), 32),
    Case((2, 13, 8), (W(3, 1, -1, 2, 4),), 49),
    Case((1, 5, 4, 9, 20), (W(2, 1, 1, 0, 2), W(3, 1, 1, 1), W(3, 1, 1, 2, 2)), 32),
    Case((2, 6, 9, 64), (W(3, 2, 1, 1), W(3, 1, 2, 1, 2)), 96, 2),
    # phases that are long rows
    Case((1, 400, 8), (W(4, 1, 2, 3, 2),), 48),
    # results of which some phases have none
    Case((1, 2, 9, 12), (W(3, 1, 0, 0, 3), W(3, 1, 1, 2, 2)), 32),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", SPREAD)
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("level", ["", "avx2", "plain"])
def test_spread_inputs(case: Case, element: str, epilogue: bool, level: str) -> None:
    module = replace(case, element=element).module(epilogue=epilogue)
    if not level:
        plan = _plan(module)
        assert plan is not None
        assert len(plan.parts) > 1
    agrees_on_normal_numbers(module, 3e-6 if element == "f32" else 1e-14, level)


@pytest.mark.parametrize("case", SPREAD[:2])
def test_some_spread_inputs(case: Case) -> None:
    agrees_on_normal_numbers(case.module(epilogue=True), 3e-6)


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_spread_inputs_of_narrow_floats_run_in_f32(element: str) -> None:
    image = (2, 9, 7, 32)
    case = Case(image, (W(3, 1, 1, 1, 2), W(3, 1, 1, 1, 2)), 32, 1, element)
    module = case.module()
    agrees_on_normal_numbers(module, 1e-2)
    kernels = ingot.compile(module).inspection.compiled.kernels.compiled.values()
    assert any(part.name.startswith("direct_f32") for kernel in kernels for part in kernel.shared)


@pytest.mark.slow
def test_convolutions_without_phases_run_whole() -> None:
    """The pass leaves to the driver what the driver takes, whatever the target's vectors are."""
    generator = np.random.default_rng(0)

    def choose(*values: int) -> int:
        return int(generator.choice(values))

    left = 0
    for _ in range(300):
        groups = choose(1, 1, 2)
        channels = groups * choose(1, 3, 8, 60, 64, 250, 256, 257, 500, 512, 1024, 4096)
        window = tuple(
            W(choose(1, 2, 3, 5, 7), choose(1, 1, 1, 2), choose(0, 1, 2), 1, choose(1, 2, 3, 4))
            for _ in range(choose(1, 2, 3))
        )
        image = (choose(1, 4), *(choose(1, 3, 8, 19) for _ in window), channels)
        features = groups * choose(2, 4, 8, 10, 16, 24, 32, 46, 64, 96)
        case = Case(image, window, features, groups, ("f32", "f64")[choose(0, 1)])
        if 0 in case.results:
            continue
        module = case.module()
        whole = runs_whole(module.entry.root)
        left += whole
        is_product = isinstance(lower_fusion(module.entry), ContractionKernel)
        taken = is_product or all(_plan(module, bits) is not None for bits in (256, 512))
        is_spread = any(one.base_dilation > 1 for one in window)
        # Groups that fill a panel each may be taken although the pass cuts them apart, and what is
        # a plain product runs as one.
        assert whole <= taken, case
        assert whole == (taken and is_spread) or groups > 1 or is_product, case
    assert left > 30


def test_results_a_page_apart_are_copied_with_gaps() -> None:
    plan = _plan(Case((2, 5, 10, 512), (W(2, 1), W(1, 2)), 32).module())
    assert plan is not None
    assert plan.parts[0].value("copies") == 1
    assert plan.parts[0].value("pixel") > 512


def test_without_padding_the_image_is_read_in_place() -> None:
    plan = _plan(Case((2, 10, 10, 64), (W(1, 2), W(1, 2)), 32).module())
    assert plan is not None
    assert plan.parts[0].value("copies") == 0


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 16, 16, 8), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 3),
        Case((1, 16, 16, 64), (W(3, 1, 1, 1), W(3, 2, 1, 1, 2)), 64),
        Case((1, 16, 5, 64), (W(3, 1, 1, 1), W(3)), 64),
        Case((1, 16, 16, 64), (W(3, 1, 1, 1), W(3, 1, 1, 1)), 64, element="bf16"),
    ],
)
def test_what_has_code_of_its_own(case: Case) -> None:
    assert _plan(case.module()) is None


@pytest.mark.parametrize("element", ["bf16", "f16", "u8"])
def test_converted_operands_are_kernels_before_the_drivers(element, generator):
    sums = "f32" if element == "u8" else element
    program = ingot.parse_hlo(f"""\
HloModule narrow

ENTRY e {{
  x = {element}[2,11,13,16] parameter(0)
  w = {sums}[3,3,16,24] parameter(1)
  c = {sums}[2,11,13,16] convert(x)
  ROOT y = {sums}[2,11,13,24] convolution(c, w), window={{size=3x3 pad=1_1x1_1}}, \
dim_labels=b01f_01io->b01f
}}
""")
    executable = ingot.compile(program)
    assert [item.strategy for item in executable.kernels][-1] == "direct convolution"
    image, taps = (item.shape for item in program.entry.parameters)
    x = (4 * generator.standard_normal(image.static_dims)).astype(image.dtype.numpy)
    w = generator.standard_normal(taps.static_dims).astype(taps.dtype.numpy)
    expected = np.asarray(ingot.evaluate(program, x, w), np.float64)
    np.testing.assert_allclose(
        np.asarray(executable(x, w), np.float64), expected, rtol=2**-7, atol=1e-3
    )
