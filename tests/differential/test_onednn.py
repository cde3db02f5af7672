# SPDX-License-Identifier: Apache-2.0
"""XLA's calls of oneDNN: evaluator, Ingot's CPU and real XLA agree.

jaxlib is built with oneDNN, so it runs what TensorFlow's XLA writes after optimization. Its
`__onednn$softmax` gives what was in memory before, so that one is held against NumPy.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.support.real_xla import run_hlo_text

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.target import host_features
from ingot.support.diagnostics import UnsupportedError, VerifyError

Array = np.ndarray[Any, Any]


def _matmul(parameters: str, declared: str, **config: Any) -> str:
    return _call("matmul", parameters, declared, {"onednn_matmul_config": config})


def _call(target: str, parameters: str, result: str, config: Any) -> str:
    shapes = parameters.split()
    lines = "\n".join(f"p{n} = {shape} parameter({n})" for n, shape in enumerate(shapes))
    names = ", ".join(f"p{n}" for n in range(len(shapes)))
    return f"""HloModule m
ENTRY e {{ {lines}
  ROOT r = {result} custom-call({names}), custom_call_target="__onednn${target}",
    backend_config={json.dumps(config)} }}"""


def _order(*numbers: int) -> Any:
    return {"tensor": {"dimensions": [str(number) for number in numbers]}}


def _convolution(parameters: str, result: str, places: Any, window: Any, **config: Any) -> str:
    lhs, kernel, output = places
    return _call("convolution", parameters, result, {"onednn_conv_config": {
        "dims": str(len(lhs)),
        "input": {"data": _places(lhs, b="batch_dim", f="feature_dim")},
        "kernel": {"filter": _places(kernel, i="input_feature_dim", o="output_feature_dim")},
        "output": {"data": _places(output, b="batch_dim", f="feature_dim")},
        "window": {name: [str(n) for n in numbers] for name, numbers in window.items()},
        "feature_groups": "1", **config,
    }})  # fmt: skip


def _places(letters: str, **names: str) -> Any:
    spatial = sorted(n for n in range(len(letters)) if letters[n].isdigit())
    spatial.sort(key=lambda n: letters[n])
    found: dict[str, Any] = {name: str(letters.index(at)) for at, name in names.items()}
    return found | {"spatial_dims": [str(n) for n in spatial]}


_WINDOW = {"size": (3, 2), "strides": (2, 1), "pad_left": (1, 0), "pad_right": (0, 1),
           "window_dilations": (1, 2)}  # fmt: skip
_NHWC = ("b01f", "01io", "b01f")
PROGRAMS = {
    "matmul": _matmul("f32[4,8] f32[8,5]", "f32[4,5]"),
    "matmul transposed": _matmul("f32[8,4] f32[5,8]", "f32[4,5]", transpose_a=True,
                                 transposeB=True),
    "matmul in order": _matmul(
        "f32[2,4,3,8] f32[2,5,3,8]", "f32[2,4,3,5]", transpose_b=True,
        lhs=_order(1, 3, 2, 4), rhs=_order(1, 3, 2, 4), result=_order(1, 3, 2, 4)),
    "matmul bias gelu add": _matmul(
        "f32[4,8] f32[8,5] f32[1,5] f32[4,5]", "f32[4,5]",
        fusions={"ops": ["LINEAR", "BIAS", "GELU_TANH", "BINARY_ADD"], "alpha": [0.5]}),
    "matmul bf16": _matmul("bf16[4,8] bf16[8,5]", "f32[4,5]", fusions={"ops": ["GELU_ERF"]}),
    "layernorm": _call("layernorm", "f32[2,4,8] f32[8] f32[8]", "f32[2,4,8]", {
        "onednn_layer_norm_config": {"rescale": "SCALE_AND_SHIFT",
                                     "epsilon_typecast": 925353388}}),
    "layernorm of no config": _call("layernorm", "f32[3,8] f32[8] f32[8]", "f32[3,8]", {}),
    "convolution": _convolution(
        "f32[2,7,6,3] f32[3,2,3,4] f32[4]", "f32[2,3,5,4]", _NHWC, _WINDOW,
        fusions={"ops": ["BIAS", "RELU"]}),
    "convolution in groups": _convolution(
        "f32[2,7,6,4] f32[3,2,2,4]", "f32[2,3,5,4]", _NHWC, _WINDOW, feature_groups="2"),
    "convolution of features first": _convolution(
        "f32[2,3,7,6] f32[4,3,3,2] f32[2,4,3,5]", "f32[2,4,3,5]", ("bf01", "oi01", "bf01"),
        _WINDOW, fusions={"ops": ["BINARY_ADD", "SIGMOID"]}),
}  # fmt: skip
for _kind in ("RELU", "RELU6", "TANH", "ELU", "SIGMOID", "SWISH"):
    PROGRAMS[f"matmul {_kind}"] = _matmul("f32[4,8] f32[8,5]", "f32[4,5]", fusions={"ops": [_kind]})


def _inputs(module: ingot.Module) -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = module.parameter_shapes
    return [rng.normal(size=shape.static_dims).astype(shape.dtype.numpy) for shape in shapes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cpu_gives_what_the_evaluator_gives(name: str) -> None:
    module = ingot.parse_hlo(PROGRAMS[name])
    inputs = _inputs(module)
    got, want = ingot.compile(module)(*inputs), evaluate(module, inputs)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(
    "avx512f" not in host_features(),
    reason="XLA's own calls of oneDNN end the process on a CPU without AVX-512 (SIGILL)",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_real_xla_gives_what_the_evaluator_gives(name: str) -> None:
    module = ingot.parse_hlo(PROGRAMS[name])
    inputs = _inputs(module)
    (got,) = run_hlo_text(PROGRAMS[name], inputs)
    np.testing.assert_allclose(got, evaluate(module, inputs), rtol=1e-4, atol=1e-4)


def test_softmax() -> None:
    config = {"onednn_softmax_config": {"softmax_axis": 1}}
    module = ingot.parse_hlo(_call("softmax", "f32[2,3,4]", "f32[2,3,4]", config))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32) * 50
    powers = np.exp(x - x.max(1, keepdims=True))
    want = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(ingot.compile(module)(x), want, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(evaluate(module, [x]), want, rtol=1e-5, atol=1e-30)


def test_room_to_work_in_is_there() -> None:
    config = {"optimization_config": {"user_scratchpad": True}}
    text = _matmul("f32[2,3] f32[3,2]", "(f32[2,2], u8[16])", **config)
    x = np.arange(6, dtype=np.float32)
    got = ingot.compile(ingot.parse_hlo(text))(x.reshape(2, 3), x.reshape(3, 2))
    np.testing.assert_array_equal(got[0], x.reshape(2, 3) @ x.reshape(3, 2))
    assert got[1].shape == (16,)


def test_weights_in_another_order_are_refused() -> None:
    config = {"optimization_config": {"weights_prepacked": True}}
    module = ingot.parse_hlo(_matmul("f32[2,3] f32[6]", "f32[2,2]", **config))
    with pytest.raises(UnsupportedError, match="oneDNN chose"):
        ingot.compile(module)


def _matmul_of(config: Any) -> str:
    return _call("matmul", "f32[4,8] f32[8,5]", "f32[4,5]", config)


MISFITS = {
    "result": _matmul("f32[4,8] f32[8,5]", "f32[4,6]"),
    "rank of the result": _matmul("f32[4,8] f32[8,5]", "f32[4]"),
    "no result": _matmul("f32[4,8] f32[8,5]", "()"),
    "a tuple of tuples": _matmul("f32[4,8] f32[8,5]", "((f32[4,5]), u8[3])"),
    "contracted sizes": _matmul("f32[4,8] f32[7,5]", "f32[4,5]"),
    "one operand": _matmul("f32[4,8]", "f32[4,5]"),
    "no operands": _matmul("", "f32[4,5]"),
    "vectors": _matmul("f32[8] f32[8]", "f32[]"),
    "an operand that is a tuple": _matmul("(f32[4,8]) f32[8,5]", "f32[4,5]"),
    "more fused operands": _matmul("f32[4,8] f32[8,5] f32[5]", "f32[4,5]"),
    "fewer fused operands": _matmul("f32[4,8] f32[8,5]", "f32[4,5]", fusions={"ops": ["BIAS"]}),
    "an order of other rank": _matmul("f32[4,8] f32[8,5]", "f32[4,5]", lhs=_order(1, 2, 3)),
    "an order that is none": _matmul("f32[4,8] f32[8,5]", "f32[4,5]", result=_order(7, 7)),
    "a word for a number": _matmul("f32[4,8] f32[8,5]", "f32[4,5]", lhs=_order("a", "b")),  # pyright: ignore
    "a fused op that is none": _matmul("f32[4,8] f32[8,5]", "f32[4,5]", fusions={"ops": [99]}),
    "a list as config": _matmul_of({"onednn_matmul_config": [1]}),
    "fusions that are none": _matmul_of({"onednn_matmul_config": {"fusions": 3}}),
    "layernorm of a scalar": _call("layernorm", "f32[] f32[] f32[]", "f32[]", {}),
    "layernorm of two": _call("layernorm", "f32[3,8] f32[8]", "f32[3,8]", {}),
    "layernorm of other sizes": _call("layernorm", "f32[3,8] f32[7] f32[8]", "f32[3,8]", {}),
    "softmax result": _call("softmax", "f32[3,8]", "f32[8,3]", {}),
    "softmax axis": _call("softmax", "f32[3,8]", "f32[3,8]",
                          {"onednn_softmax_config": {"softmax_axis": "x"}}),
    "convolution without a config": _call("convolution", "f32[2,3] f32[3,2]", "f32[2,2]", {}),
}  # fmt: skip


@pytest.mark.parametrize("text", MISFITS.values(), ids=MISFITS)
def test_calls_that_do_not_fit_are_named(text: str) -> None:
    with pytest.raises((VerifyError, UnsupportedError), match="__onednn"):
        ingot.compile(ingot.parse_hlo(text))
    module = ingot.parse_hlo(text)
    arguments = [_zeros(parameter.shape) for parameter in module.entry.parameters]
    with pytest.raises((VerifyError, UnsupportedError), match="__onednn"):
        evaluate(module, arguments)


def _zeros(shape: Any) -> Any:
    if shape.is_tuple:
        return tuple(map(_zeros, shape.elements))
    return np.zeros(shape.dims, shape.dtype.numpy)
