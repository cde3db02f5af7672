# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's windows over a dimension of dynamic size: as static ones at the size that there is.

NaN stands behind the sizes: nothing of it may be seen. What TensorFlow's own XLA makes of its
programs was compared too: the texts are those that it writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import print_module
from ingot.support.diagnostics import UnsupportedError

Array = np.ndarray[Any, Any]
BOUND, KERNEL = 9, 4
REGIONS = """max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
"""


def _count(size: int, stride: int, padding: str) -> int:
    return -(-size // stride) if padding == "SAME" else max(0, (size - KERNEL) // stride + 1)


def _pads(size: int, stride: int, padding: str) -> tuple[int, int]:
    last = (_count(size, stride, "SAME") - 1) * stride
    total = max(0, last + KERNEL - size) if padding == "SAME" else 0
    return total // 2, total - total // 2


def _forward(size: int, stride: int, padding: str) -> tuple[str, ...]:
    low, high = _pads(size, stride, padding)
    window = f"window={{size={KERNEL} stride={stride} pad={low}_{high}}}, dim_labels=b0f_0io->b0f"
    return "DynamicConvolutionForward", f"x, k), {window}", f"convolution(x, k), {window}"


def _input_gradient(size: int, stride: int, padding: str) -> tuple[str, ...]:
    low, _ = _pads(size, stride, padding)
    spread = (_count(size, stride, padding) - 1) * stride + 1
    before = KERNEL - 1 - low
    after = size - (spread + before - KERNEL + 1)
    window = (
        f"window={{size={KERNEL} pad={before}_{after} lhs_dilate={stride}}}, "
        "dim_labels=b0f_0oi->b0f"
    )
    name = "DynamicConvolutionInputGrad"
    return name, f"sizes, g, k), {window}", f"convolution(g, k), {window}"


def _kernel_gradient(size: int, stride: int, padding: str) -> tuple[str, ...]:
    low, _ = _pads(size, stride, padding)
    count = _count(size, stride, padding)
    high = KERNEL - 1 + (count - 1) * stride + 1 - size - low
    window = (
        f"window={{size={count} pad={low}_{high} rhs_dilate={stride}}}, dim_labels=f0b_i0o->0bf"
    )
    return "DynamicConvolutionKernelGrad", f"x, g), {window}", f"convolution(x, g), {window}"


def _reduce_window(size: int, stride: int, padding: str) -> tuple[str, ...]:
    low, high = _pads(size, stride, "SAME")
    window = f"window={{size=1x{KERNEL}x1 stride=1x{stride}x1 pad=0_0x{low}_{high}x0_0}}"
    return (
        "DynamicReduceWindowSamePadding",
        f"x, low), {window}, called_computations={{%max}}",
        f"reduce-window(x, low), {window}, to_apply=max",
    )


def _select_and_scatter(size: int, stride: int, padding: str) -> tuple[str, ...]:
    low, high = _pads(size, stride, "SAME")
    window = f"window={{size=1x{KERNEL}x1 stride=1x{stride}x1 pad=0_0x{low}_{high}x0_0}}"
    return (
        "DynamicSelectAndScatterSamePadding",
        f"x, h, zero), {window}, called_computations={{%ge, %add}}",
        f"select-and-scatter(x, h, zero), {window}, select=ge, scatter=add",
    )


RESULTS = {
    _forward: "f32[2,{count},5]",
    _input_gradient: "f32[2,{size},3]",
    _kernel_gradient: "f32[4,3,5]",
    _reduce_window: "f32[2,{count},3]",
    _select_and_scatter: "f32[2,{size},3]",
}


def _module(op: Any, size: int, stride: int, padding: str, dynamic: bool) -> str:
    """A program at a size, or one of dynamic size whose window is the one at the bound."""
    name, call, plain = op(BOUND if dynamic else size, stride, padding)
    counts = {n: _count(n, stride, padding) for n in (size, BOUND)}
    most, sizes = (BOUND, "<=") if dynamic else (size, "")
    shape = RESULTS[op].format(size=f"{sizes}{most}", count=f"{sizes}{counts[most]}")

    def given(name: str, number: int, most: int, rest: str, have: str) -> str:
        if not dynamic:
            return f"{name} = f32[2,{most},{rest}] parameter({number})\n"
        whole = f"{name}w = f32[2,{most},{rest}] parameter({number})\n"
        resized = f"set-dimension-size({name}w, {have}), dimensions={{1}}"
        return f"{whole} {name} = f32[2,<={most},{rest}] {resized}\n"

    body = (
        f"n = s32[] parameter(4)\n c = s32[] constant({counts[size]})\n"
        f"two = s32[1] constant({{2}})\n three = s32[1] constant({{3}})\n"
        "n1 = s32[1] reshape(n)\n sizes = s32[3] concatenate(two, n1, three), dimensions={0}\n"
        + given("x", 0, most, "3", "n")
        + given("g", 1, counts[most], "5", "c")
        + given("h", 2, counts[most], "3", "c")
        + f"k = f32[{KERNEL},3,5] parameter(3)\n"
        "low = f32[] constant(-inf)\n zero = f32[] constant(0)\n"
    )
    kind = f', custom_call_target="{name}", padding_type=PADDING_{padding}'
    root = f"custom-call({call}{kind}" if dynamic else plain
    return f"HloModule m\n{REGIONS}\nENTRY e {{\n{body} ROOT r = {shape} {root}\n}}"


def _inputs(size: int, stride: int, padding: str) -> list[Array]:
    draw = np.random.default_rng(size)
    count = _count(size, stride, padding)
    dims = (2, size, 3), (2, count, 5), (2, count, 3), (KERNEL, 3, 5)
    return [draw.standard_normal(each).astype("f") for each in dims] + [np.array(size, np.int32)]


def _behind_sizes(inputs: list[Array], stride: int, padding: str) -> list[Array]:
    most = BOUND, *[_count(BOUND, stride, padding)] * 2
    wholes = [np.full((2, n, x.shape[2]), np.nan, "f") for n, x in zip(most, inputs, strict=False)]
    for whole, value in zip(wholes, inputs, strict=False):
        whole[:, : value.shape[1]] = value
    return [*wholes, *inputs[3:]]


CASES = [
    pytest.param(op, stride, padding, marks=[] if stride == 2 else [pytest.mark.slow])
    for op in RESULTS
    for stride in (1, 2, 3)
    for padding in ("SAME", "VALID")
    if padding == "SAME" or "gradient" in op.__name__ or op is _forward
]


@pytest.mark.parametrize(("op", "stride", "padding"), CASES)
def test_as_a_static_window_at_the_size(op: Any, stride: int, padding: str):
    dynamic = ingot.parse_hlo(_module(op, 5, stride, padding, dynamic=True))
    program = ingot.compile(dynamic)
    again = ingot.parse_hlo(print_module(dynamic))
    for size in (KERNEL, 5, 6, 8, BOUND):
        inputs = _inputs(size, stride, padding)
        text = _module(op, size, stride, padding, dynamic=False)
        expected = evaluate(ingot.parse_hlo(text), inputs)
        wholes = _behind_sizes(inputs, stride, padding)
        module = ingot.parse_hlo(_module(op, size, stride, padding, dynamic=True))
        np.testing.assert_allclose(evaluate(module, wholes), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ingot.compile(module)(*wholes), expected, rtol=1e-4, atol=1e-5)
    wholes = _behind_sizes(_inputs(5, stride, padding), stride, padding)
    np.testing.assert_array_equal(ingot.compile(again)(*wholes), program(*wholes))


def test_without_a_dynamic_size_it_is_the_plain_window():
    window = 'window={size=1}, dim_labels=b0f_0io->b0f, custom_call_target="DynamicConvolution'
    text = f"""HloModule m\nENTRY e {{ x = f32[1,2,1] parameter(0)\n k = f32[1,1,1] parameter(1)
      ROOT r = f32[1,2,1] custom-call(x, k), {window}Forward" }}"""
    x, k = np.array([[[2], [3]]], "f"), np.array([[[4]]], "f")
    module = ingot.parse_hlo(text)
    np.testing.assert_array_equal(evaluate(module, [x, k]), x * 4)
    np.testing.assert_array_equal(ingot.compile(module)(x, k), x * 4)


def test_a_select_that_is_no_comparison_is_refused():
    text = _module(_select_and_scatter, 5, 2, "SAME", dynamic=True)
    module = ingot.parse_hlo(text.replace("compare(a, b), direction=GE", "constant(true)"))
    with pytest.raises(UnsupportedError, match="select is no comparison"):
        ingot.compile(module)
