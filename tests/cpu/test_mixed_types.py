# SPDX-License-Identifier: Apache-2.0
"""Results of another element type than the operands', and reductions of one byte per element.

Sums of products may be asked for in a wider type (preferred_element_type): every pass on the way
has to keep that. Split reductions keep their parts in memory, where a pred and an s8 look alike.
"""

import pytest
from tests.support.against_evaluator import agrees

from ingot.formats.hlo_text import parse
from ingot.tools.programs.inputs import random_inputs


def _check(text: str, relative: float = 0) -> None:
    module = parse(text)
    agrees(module, random_inputs(module, 5), rtol=relative)


@pytest.mark.parametrize(
    ("operand", "result"), [("s8", "s32"), ("u8", "u32"), ("s16", "s64"), ("f32", "f64")]
)
@pytest.mark.parametrize("labels", ["bf01_oi01->bf01", "b01f_01io->b01f"])
def test_a_convolution_sums_in_the_type_of_its_result(operand: str, result: str, labels: str):
    features_first = labels.startswith("bf")
    lhs = "2,3,5,5" if features_first else "2,5,5,3"
    rhs = "4,3,3,3" if features_first else "3,3,3,4"
    out = "2,4,5,5" if features_first else "2,5,5,4"
    _check(
        f"HloModule m ENTRY e {{ i = {operand}[{lhs}] parameter(0) k = {operand}[{rhs}] "
        f"parameter(1) ROOT c = {result}[{out}] convolution(i, k), "
        f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels} }}",
        1e-12,
    )


def test_phases_of_a_dilated_convolution_sum_in_the_type_of_the_result():
    _check(
        "HloModule m ENTRY e { i = s8[4,16,16,32] parameter(0) k = s8[32,3,3,32] parameter(1)\n"
        "ROOT c = s32[4,32,32,32] convolution(i, k), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2}, "
        "dim_labels=b01f_i01o->b01f }"
    )


@pytest.mark.parametrize("element", ["s8", "u8", "u4"])
def test_a_large_sum_of_bytes_is_split(element: str):
    _check(
        f"HloModule m add {{ a = {element}[] parameter(0) b = {element}[] parameter(1) "
        f"ROOT s = {element}[] add(a, b) }}\n"
        f"ENTRY e {{ x = {element}[1048576] parameter(0) z = {element}[] constant(0)\n"
        f"ROOT r = {element}[] reduce(x, z), dimensions={{0}}, to_apply=add }}"
    )


def test_values_that_must_run_before_others_are_fused():
    _check(
        "HloModule m ENTRY e { x = f32[8] parameter(0) a = f32[8] multiply(x, x) "
        "b = f32[8] add(a, x)\n c = f32[8] negate(x), control-predecessors={a}\n"
        "ROOT d = f32[8] add(b, c), control-predecessors={a, b} }",
        1e-6,
    )


def test_a_call_may_stand_in_an_order():
    _check(
        "HloModule m f { p = f32[8] parameter(0) ROOT a = f32[8] add(p, p) }\n"
        "ENTRY e { x = f32[8] parameter(0) n = f32[8] negate(x)\n"
        "y = f32[8] call(x), to_apply=f, control-predecessors={n}\n"
        "z = f32[8] abs(x), control-predecessors={y} ROOT r = f32[8] subtract(y, z) }",
        1e-6,
    )
