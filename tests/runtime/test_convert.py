# SPDX-License-Identifier: Apache-2.0
"""Arguments of all kinds: what converts without a copy, what converts at all, what is refused."""

import copy
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest
from tests.runtime import programs

from ingot.artifact.abi import ParamInfo
from ingot.hlo.dtype import DTYPES
from ingot.runtime.arguments.convert import conform
from ingot.runtime.arguments.dlpack import import_tensor
from ingot.support.diagnostics import ExecutionError

F32_VECTOR = ParamInfo("f32", (None,), "x")


class Exporter:
    """An array of another library: no NumPy methods, only DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class WithArray:
    """An object that only knows how to become a NumPy array."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.fixture(scope="module")
def pair():
    return programs.link(*programs.add_and_multiply())


def fits_fast_path(array):
    usable = array.flags.c_contiguous and array.flags.aligned
    return type(array) is np.ndarray and array.dtype is np.dtype("float32") and usable


@pytest.mark.parametrize("name", [name for name, row in DTYPES.items() if row.storage is not None])
def test_every_element_type_goes_in_and_out(name):
    storage = DTYPES[name].numpy
    program = programs.link(*programs.copy(name, storage.itemsize))
    values = np.array([0, 1, 0, 1, 1]).astype(storage)
    result = program.call(values)
    assert result.dtype is storage
    np.testing.assert_array_equal(result.view(np.uint8), values.view(np.uint8))
    assert program.call(values[:0]).shape == (0,)


def test_what_fits_is_not_touched():
    array = np.ones(4, np.float32)
    assert conform(array, 0, F32_VECTOR) is array


@pytest.mark.parametrize(
    "make",
    [
        lambda a: np.repeat(a, 2)[::2],
        lambda a: a.astype(">f4"),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32),
        lambda a: a.view(np.recarray),
        lambda a: pickle.loads(pickle.dumps(a)),
        lambda a: a.tolist(),
        lambda a: tuple(a.tolist()),
        Exporter,
        WithArray,
    ],
    ids=[
        *("strided", "big_endian", "unaligned", "subclass"),
        *("unpickled", "list", "tuple", "dlpack", "array"),
    ],
)
def test_the_same_values_in_other_clothes(make, pair):
    array = np.arange(6, dtype=np.float32)
    result = conform(make(array), 0, F32_VECTOR)
    assert fits_fast_path(result)
    np.testing.assert_array_equal(result, array)
    total, _ = pair.call(make(array), array)
    np.testing.assert_array_equal(total, 2 * array)


def test_no_copy_where_none_is_needed():
    array = np.arange(6, dtype=np.float32)
    for value in (Exporter(array), WithArray(array), array.view(np.recarray), copy.copy(array)):
        given = value if isinstance(value, np.ndarray) else value.array
        assert conform(value, 0, F32_VECTOR).ctypes.data == given.ctypes.data


def test_equal_dtypes_that_are_other_objects():
    # `longlong` is an int64 with another type number; NumPy says that they are equal.
    array = np.arange(3, dtype=np.longlong)
    result = conform(array, 0, ParamInfo("s64", (3,)))
    assert result.dtype is np.dtype("int64")
    assert np.shares_memory(result, array)


def test_scalars_of_rank_zero():
    program = programs.link(*programs.copy("f32", 4))
    result = conform(2, 0, ParamInfo("f32", ()))
    assert result.shape == ()
    assert result.dtype == np.float32
    assert conform(np.float32(2), 0, ParamInfo("f32", ())) == 2
    assert conform(np.array(7.0, ">f4"), 0, ParamInfo("f32", ())).shape == ()
    with pytest.raises(ExecutionError, match=r"argument 0: expected f32\[\?\], got f32\[\]"):
        program.call(np.float32(2))


@pytest.mark.parametrize(
    ("value", "dtype", "stored"),
    [
        (True, "pred", True),
        (True, "s32", 1),
        (3, "u8", 3),
        (3, "bf16", 3),
        (2.5, "f16", 2.5),
        (2, "c64", 2),
        (1j, "c128", 1j),
        ([[1, 2], [3, 4]], "f8e4m3fn", [[1, 2], [3, 4]]),
        ([], "s8", []),
    ],
)
def test_python_numbers_take_the_programs_type(value, dtype, stored):
    dims = np.asarray(stored).shape
    result = conform(value, 0, ParamInfo(dtype, dims))
    assert result.dtype is DTYPES[dtype].storage
    np.testing.assert_array_equal(result, np.asarray(stored).astype(result.dtype))


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (2.5, "s32", r"argument 3 \('x'\): expected s32\[\], got Python float f64\[\]"),
        (1j, "f32", r"expected f32\[\], got Python complex c128\[\]"),
        (2, "pred", r"expected pred\[\], got Python int"),
        (300, "u8", "expected u8.*int: .*300"),
        ([1, [2, 3]], "f32", "expected f32.*list: "),
        ("text", "f32", "cannot read a value of type str"),
        (None, "f32", "cannot read a value of type NoneType"),
        (object(), "f32", "cannot read a value of type object"),
        (["a"], "f32", "Python list <U1"),
        (np.array(["a"]), "f32", "got <U1"),
        (np.float64(1), "f32", r"expected f32\[\], got f64\[\]"),
        (np.zeros(2, ml_dtypes.bfloat16), "f32", r"expected f32\[\], got bf16\[2\]"),
    ],
)
def test_what_does_not_fit_is_explained(value, dtype, message):
    with pytest.raises(ExecutionError, match=message):
        conform(value, 3, ParamInfo(dtype, (), "x"))


@pytest.mark.parametrize("shape", [(3,), (4, 2), (4, 3, 1), ()])
def test_wrong_shapes_are_explained(shape):
    param = ParamInfo("f32", (None, 3), "weights")
    text = ",".join(map(str, shape))
    with pytest.raises(ExecutionError, match=rf"expected f32\[\?,3\], got f32\[{text}\]") as caught:
        conform(np.zeros(shape, np.float32), 1, param)
    assert caught.value.diagnostic.code == "INGOT0503"


def test_the_fast_path_checks_static_dims_too():
    scale = programs.link(*programs.scale_in_place(), constants=np.float32(1).tobytes())
    for shape in ((3, 2), (6,), (2, 3, 1)):
        with pytest.raises(ExecutionError, match=r"expected f32\[2,3\]"):
            scale.call(np.zeros(shape, np.float32))


def test_other_devices_are_refused():
    with pytest.raises(ExecutionError, match=r"(?s)cannot read.*DLPack device 2, not in the CPU"):
        conform(Exporter(np.zeros(2, np.float32), device=(2, 0)), 0, F32_VECTOR)


def test_dlpack_keeps_the_tensor_alive_and_lets_go():
    array = np.ones((3, 4), np.float32)
    before = sys.getrefcount(array)
    view = import_tensor(Exporter(array.T))
    np.testing.assert_array_equal(view, array.T)
    part = view[1:]
    del view
    assert sys.getrefcount(array) > before
    np.testing.assert_array_equal(part, array.T[1:])
    del part
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("name", ["bf16", "f32", "s8", "pred", "c64", "f8e4m3fn"])
def test_jax_arrays_come_without_a_copy(name):
    jax_numpy = pytest.importorskip("jax.numpy")
    values = np.array([0, 1, 1]).astype(DTYPES[name].numpy)
    array = jax_numpy.asarray(values)
    result = conform(array, 0, ParamInfo(name, (3,)))
    np.testing.assert_array_equal(result, values)
    assert result.ctypes.data == array.unsafe_buffer_pointer()


def test_conversion_errors_of_the_exporter_are_told():
    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self):
            raise BufferError("needs a gradient")

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("detach it first")

    with pytest.raises(ExecutionError) as caught:
        conform(Broken(), 0, F32_VECTOR)
    notes = " ".join(caught.value.diagnostic.notes)
    assert "needs a gradient" in notes
    assert "detach it first" in notes
