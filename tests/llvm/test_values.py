# SPDX-License-Identifier: Apache-2.0
"""Types and constants: what Python holds is what LLVM gets."""

import ctypes
import math
import struct

import ml_dtypes
import numpy as np
import pytest

from ingot.llvm.builder import ModuleBuilder, const, undef, zero
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    array,
    pointer,
    vector,
)
from ingot.llvm.types import (
    struct as struct_type,
)
from ingot.support.diagnostics import InternalError

FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-45, -1e-40, 1e39, math.inf, -math.inf, 65504.0, 65520.0]
INTEGER_OF = {F16: I16, BF16: I16, F32: I32, F64: I64}
NUMPY_OF = {F16: np.float16, BF16: ml_dtypes.bfloat16, F32: np.float32, F64: np.float64}


def run_constant(value) -> int:
    """The bits of a float constant as the compiled program sees it."""
    bits = INTEGER_OF[value.type]
    module = ModuleBuilder("constant")
    f = module.function("f", I64, [])
    f.ret(f.zext(f.bitcast(value, bits), I64))
    library = link_object([compile_object(module.text(), TargetSpec.host())])
    return library.function("f", ctypes.c_uint64)()


@pytest.mark.parametrize("type", [F16, BF16, F32, F64])
def test_float_constants_round_to_nearest_even(type) -> None:
    dtype = NUMPY_OF[type]
    for value in FLOATS:
        with np.errstate(over="ignore"):
            wanted = np.array(value).astype(dtype).view(f"u{np.dtype(dtype).itemsize}")
        assert run_constant(const(type, value)) == int(wanted), value


@pytest.mark.parametrize("type", [F16, BF16, F32, F64])
def test_nan_constants_are_quiet_nans(type) -> None:
    bits = run_constant(const(type, math.nan))
    dtype = NUMPY_OF[type]
    assert np.isnan(np.array(bits, f"u{np.dtype(dtype).itemsize}").view(dtype))


def test_bf16_rounds_once() -> None:
    # Just above a tie of bf16, but a tie after rounding to f32 first.
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert run_constant(const(BF16, value)) == 0x3F81
    assert run_constant(const(BF16, 1.0 + 2.0**-8)) == 0x3F80


def test_zeros_of_both_signs_are_different_constants() -> None:
    assert const(F32, 0.0).text != const(F32, -0.0).text
    assert const(F32, 0).text == const(F32, 0.0).text
    assert const(vector(F64, 4), -0.0).text == "splat (double 0x8000000000000000)"


@pytest.mark.parametrize(
    ("type", "value", "text"),
    [
        (I8, 255, "-1"),
        (I8, 128, "-128"),
        (I64, 2**64 - 1, "-1"),
        (I1, True, "true"),
        (I1, 0, "false"),
        (I32, -7, "-7"),
        (PTR, 0, "null"),
        (vector(I32, 3), [1, 2, -1], "<i32 1, i32 2, i32 -1>"),
        (vector(I1, 4), True, "splat (i1 true)"),
    ],
)
def test_constants_have_the_text_of_llvm(type, value, text: str) -> None:
    assert const(type, value).text == text


def test_a_wrong_number_of_lanes_is_refused() -> None:
    with pytest.raises(InternalError, match="2 constants for the 4 lanes"):
        const(vector(F32, 4), [1.0, 2.0])


def test_equal_types_are_one_object() -> None:
    assert vector(F32, 8) is vector(F32, 8)
    assert vector(F32, 1) is F32
    assert array(I8, 3) is array(I8, 3)
    assert struct_type(I64, PTR) is struct_type(I64, PTR)
    assert pointer(0) is PTR


def test_types_know_their_sizes() -> None:
    assert vector(F32, 16).bytes == 64
    assert vector(I1, 16).bytes == 16
    assert struct_type(I8, I64, I8).bytes == struct.calcsize("@bqb0q")
    assert array(F64, 5).bytes == 40
    assert vector(F16, 8).with_element(F32) is vector(F32, 8)
    assert str(pointer(3)) == "ptr addrspace(3)"


def test_zero_and_undef_fit_every_type() -> None:
    assert zero(vector(F32, 4)).text == "zeroinitializer"
    assert zero(F64).text == "0x0000000000000000"
    assert undef(vector(I8, 4)).text == "poison"
