# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of every kind against NumPy: each algorithm, dimensions, batches."""

import weakref

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.kernel.fft import tables
from ingot.kernel.fft.radices import factors, pass_radices
from ingot.llvm.target import TargetSpec, host_levels

pytestmark = pytest.mark.fast_share(4)

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
REAL = {"c64": "f32", "c128": "f64"}
ULPS = {"c64": 1.2e-7, "c128": 2.3e-16}


def transform(kind, batch, lengths, element):
    """Return (module, operand, NumPy's result)."""
    full = (*batch, *lengths)
    half = (*batch, *lengths[:-1], lengths[-1] // 2 + 1)
    axes = tuple(range(len(batch), len(full)))
    random = np.random.default_rng(len(full) + lengths[-1])
    dims, name = (half if kind == "IRFFT" else full), element
    if kind == "RFFT":
        name = REAL[element]
        x = random.standard_normal(dims)
    else:
        x = random.standard_normal(dims) + 1j * random.standard_normal(dims)
    want = {
        "FFT": lambda: np.fft.fftn(x, axes=axes),
        "IFFT": lambda: np.fft.ifftn(x, axes=axes),
        "RFFT": lambda: np.fft.rfftn(x, axes=axes),
        "IRFFT": lambda: np.fft.irfftn(x, s=lengths, axes=axes),
    }[kind]
    b = Builder("main")
    p = b.parameter(0, f"{name}[{','.join(map(str, dims))}]")
    module = Module.of("fft", b.build(b.fft(p, fft_type=kind, fft_length=tuple(lengths))))
    x = x.astype(module.parameter_shapes[0].dtype.numpy)
    return module, x, want()


def check(kind, batch, lengths, element="c64", target=None):
    module, x, want = transform(kind, batch, lengths, element)
    got = ingot.compile(module, target=target)(x)
    assert got.shape == want.shape
    if want.size:
        size = np.abs(want).max()
        steps = max(1.0, float(np.log2(np.prod(lengths))))
        assert np.abs(got - want).max() <= 8 * steps * ULPS[element] * size


@pytest.mark.parametrize("length", [8, 100, 1024])
def test_the_ends_of_a_real_signals_spectrum_are_real(length):
    """Their imaginary parts are +0, as NumPy's: the angle of a negative one is pi, not -pi."""
    module, x, _ = transform("RFFT", (40,), (length,), "c64")
    ends = ingot.compile(module)(x)[:, [0, -1]].imag
    assert not ends.any()
    assert not np.signbit(ends).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 31, 37, 64, 97, 100, 1024])
def test_lengths(kind, length):
    check(kind, (3,), (length,))


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("rows", [16, 17, 50])
@pytest.mark.parametrize(
    ("length", "element"), [(64, "c64"), (128, "c64"), (16, "c64"), (32, "c64"), (32, "c128")]
)
def test_rows_that_registers_hold(length, element, rows, kind, level):
    check(kind, (rows,), (length,), element, TargetSpec.host(level))


def test_a_row_is_the_same_in_both_halves_of_the_lanes():
    module, x, _ = transform("FFT", (18,), (64,), "c64")
    run = ingot.compile(module)
    np.testing.assert_array_equal(run(x)[1:], run(np.roll(x, -1, 0))[:-1])


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e-44, -0.0])
def test_special_values_stay_in_their_row(value):
    module, x, _ = transform("FFT", (17,), (64,), "c64")
    run = ingot.compile(module)
    before = run(x)
    x[16, 5] = value
    after = run(x)
    np.testing.assert_array_equal(before[:16], after[:16])
    assert np.isfinite(after[16]).all() == bool(np.isfinite(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [6, 9, 10, 12, 15, 16, 90, 192, 200, 225, 240, 384, 480])
def test_composite_radices_and_passes_that_move_rows(length, kind):
    """Whole and partial blocks of lanes, and of a row's elements, at both ends of a transform."""
    for rows in (1, 16, 19):
        check(kind, (rows,), (length,))


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("length", [192, 200, 400, 1200])
def test_rows_that_passes_move_on_every_level(length, level):
    for kind in KINDS:
        check(kind, (18,), (length,), "c64", TargetSpec.host(level))


@pytest.mark.parametrize("length", [2, 6, 12, 31, 144, 192, 200, 1000, 4096, 1 << 21, 9 << 20])
def test_radices_of_passes(length):
    radices = pass_radices(length)
    assert radices is not None
    assert np.prod(radices) == length
    assert len(radices) <= len(factors(length) or ())


def test_large_primes_have_no_passes():
    assert pass_radices(37) is None
    assert pass_radices(2 * 41) is None
    assert pass_radices(1) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [2, 6, 11, 41, 128, 210, 1000, 1009, 4096, 8192, 10007, 1 << 16])
def test_more_lengths_in_double_precision(kind, length):
    check(kind, (2,), (length,), "c128")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch", "lengths"),
    [((0,), (8,)), ((), (64,)), ((17,), (20,)), ((2, 3), (5,)), ((2,), (8, 12)), ((), (5, 6, 7))],
)
def test_batches_and_dimensions(kind, batch, lengths):
    check(kind, batch, lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [2, 4, 8])
@pytest.mark.parametrize("element", ["c64", "c128"])
def test_rows_as_long_as_a_block_of_registers(kind, length, element):
    check(kind, (37,), (length,), element)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(20,), ()])
@pytest.mark.parametrize("lengths", [(16, 4, 9), (256, 256), (7, 512), (1 << 13, 6)])
def test_large_dimensions(kind, batch, lengths):
    check(kind, batch, lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(9,), (2, 20)])
@pytest.mark.parametrize(
    ("lengths", "element"), [((512,), "c64"), ((1001,), "c64"), ((768,), "c128")]
)
def test_many_sequences_go_through_two_stages_by_themselves(kind, batch, lengths, element):
    check(kind, batch, lengths, element)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batch", "lengths"), [((33,), (4096,)), ((8,), (1 << 16,)), ((40,), (600,)), ((3,), (9, 2000))]
)
def test_longer_sequences_by_themselves(kind, batch, lengths):
    check(kind, batch, lengths)


@pytest.mark.parametrize("level", ["avx2", "plain"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "length"), [(5, 72), (9, 2048)])
def test_narrower_vectors(level, kind, rows, length):
    check(kind, (rows,), (length,), target=TargetSpec.host(level))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [16, 1024])
def test_batch_of_a_symbolic_size(kind, length):
    lengths = length // 2 + 1 if kind == "IRFFT" else length
    element = "f32" if kind == "RFFT" else "c64"
    b = Builder("main")
    p = b.parameter(0, f"{element}[?n,{lengths}]")
    program = ingot.compile(
        Module.of("fft", b.build(b.fft(p, fft_type=kind, fft_length=(length,))))
    )
    for rows in (0, 1, 5, 33):
        _, x, want = transform(kind, (rows,), (length,), "c64")
        np.testing.assert_allclose(program(x), want, atol=1e-6 * length)


def test_between_kernels_and_evaluator():
    text = """HloModule filter
    ENTRY main {
      x = f32[4,64] parameter(0)
      w = c64[4,33] parameter(1)
      s = c64[4,33] fft(x), fft_type=RFFT, fft_length={64}
      y = c64[4,33] multiply(s, w)
      ROOT r = f32[4,64] fft(y), fft_type=IRFFT, fft_length={64}
    }"""
    module = ingot.parse_hlo(text)
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 64)).astype(np.float32)
    w = (random.standard_normal((4, 33)) + 1j).astype(np.complex64)
    want = np.fft.irfft(np.fft.rfft(x) * w)
    np.testing.assert_allclose(ingot.compile(module)(x, w), want, atol=1e-5)
    np.testing.assert_allclose(evaluate(module, [x, w]), want, atol=1e-5)


def library_parts(executable):
    compiled = executable.inspection.compiled.kernels.compiled.values()
    assert all(kernel.code is None for kernel in compiled)
    return {part.name for kernel in compiled for part in kernel.shared}


def test_sizes_and_directions_share_the_code():
    def parts(kind, batch, lengths):
        return library_parts(ingot.compile(transform(kind, batch, lengths, "c64")[0]))

    forth = parts("FFT", (64,), (4096,))
    assert forth == parts("IFFT", (3000,), (4096,))
    assert {part.split("_")[2] for part in parts("FFT", (9,), (1024,)) - forth} == {"last4"}
    real, back = parts("RFFT", (64,), (8192,)), parts("IRFFT", (77,), (8192,))
    assert len(real - forth) == len(back - forth) == len(real - back) == 1
    assert any(name.endswith("_fold") for name in parts("RFFT", (), (1 << 20,)) - real)


@pytest.mark.parametrize("length", [0, -8])
def test_no_radices_have_such_a_product(length):
    with pytest.raises(ValueError, match="no transform has the length"):
        factors(length)


def test_tables_are_bounded_by_their_bytes() -> None:
    first = tables.table("chirp", (1000,), True)
    assert tables.table("chirp", (1000,), True) is first
    weak = weakref.ref(tables.table("chirp", (1 << 20,), True))
    assert weak() is not None
    for length in range((1 << 20) + 1, (1 << 20) + 6):
        tables.table("chirp", (length,), True)
    assert weak() is None
    assert tables.table("chirp", (1000,), True) is first


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize(
    ("batch", "lengths", "element"),
    [
        *(((rows,), (length,), "c64") for rows in (1, 7) for length in (81, 99, 255, 999, 1309)),
        *(((rows,), (length,), "c128") for rows in (1, 3) for length in (81, 495, 5005)),
        ((9,), (4347,), "c64"),
        ((2,), (3, 99), "c64"),
        ((), (5, 255), "c64"),
    ],
)
def test_real_rows_of_odd_length_in_two_stages(batch, lengths, element, kind, level):
    check(kind, batch, lengths, element, TargetSpec.host(level))


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
def test_an_infinity_in_a_row_of_odd_length_stays_there(kind):
    module, x, _ = transform(kind, (3,), (1309,), "c64")
    run = ingot.compile(module)
    before = run(x)
    x[1, 77] = np.inf
    after = run(x)
    np.testing.assert_array_equal(before[::2], after[::2])
    assert not np.isfinite(after[1]).any()
