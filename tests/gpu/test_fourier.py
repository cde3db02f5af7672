# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of every kind against NumPy: shared memory, two stages, tiles in scratch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.gpu.kernels import FFT
from tests.gpu.programs import SEEDS, Program, program
from tests.gpu.simt import Emulation, StuckError

from ingot.gpu.compiler import GpuKernel, compile_kernel
from ingot.gpu.machine import GpuMachine, machine_of
from ingot.support.records import replace

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
REAL = {"c64": "f32", "c128": "f64"}
EPSILON = {"c64": 1.2e-7, "c128": 2.3e-16}
STORAGE = {"c64": np.complex64, "c128": np.complex128, "f32": np.float32, "f64": np.float64}

Array = np.ndarray


def transform(
    kind: str,
    batch: tuple[int, ...],
    lengths: tuple[int, ...],
    element: str,
    symbol: str | None = None,
) -> tuple[Program, Array, Array]:
    """Return the program (with a symbolic batch, if given), its operand, and NumPy's result."""
    full = (*batch, *lengths)
    half = (*full[:-1], full[-1] // 2 + 1)
    axes = tuple(range(len(batch), len(full)))
    choose = np.random.default_rng(len(full) + lengths[-1])
    dims, results = (half if kind == "IRFFT" else full), (half if kind == "RFFT" else full)
    x = choose.standard_normal(dims)
    if kind != "RFFT":
        x = x + 1j * choose.standard_normal(dims)
    of, to = (REAL[element] if kind == each else element for each in ("RFFT", "IRFFT"))
    x = x.astype(STORAGE[of])
    wanted = {
        "FFT": lambda: np.fft.fftn(x, axes=axes),
        "IFFT": lambda: np.fft.ifftn(x, axes=axes),
        "RFFT": lambda: np.fft.rfftn(x, axes=axes),
        "IRFFT": lambda: np.fft.irfftn(x, s=lengths, axes=axes),
    }[kind]()

    def text(sizes: tuple[int, ...]) -> str:
        return ",".join([symbol or str(sizes[0]), *map(str, sizes[1:])])

    body = FFT.format(
        of=of,
        dims=text(dims),
        type=to,
        results=text(results),
        kind=kind,
        lengths=",".join(map(str, lengths)),
    )
    return program(body), x, wanted.astype(STORAGE[to])


def check_transform(
    given: tuple[Program, Array, Array],
    element: str,
    sizes: Mapping[str, int] | None = None,
    seeds: tuple[int, ...] = (0,),
    machine: GpuMachine | None = None,
) -> GpuKernel:
    """Check a transform under permuted orders; return the kernel."""
    made, x, wanted = given
    compiled = compile_kernel(made.kernel, machine)
    emulation = Emulation(compiled)
    for seed in seeds:
        _, found = emulation.run([x, np.zeros_like(wanted)], sizes or {}, seed)
        if wanted.size:
            steps = max(1.0, float(np.log2(wanted.size)))
            error = np.abs(found - wanted).max() / np.abs(wanted).max()
            assert error <= 4 * steps * EPSILON[element]
    return compiled.kernel


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 3, 8, 15, 30, 37, 74, 128, 286, 1001])
def test_lengths(kind: str, length: int) -> None:
    check_transform(transform(kind, (3,), (length,), "c64"), "c64")


@pytest.mark.parametrize("kind", KINDS)
def test_doubles(kind: str) -> None:
    check_transform(transform(kind, (5,), (120,), "c128"), "c128", seeds=SEEDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [(12, 10), (10, 13), (5, 6, 7), (1, 1), (40, 1031)])
def test_several_dimensions(kind: str, lengths: tuple[int, ...]) -> None:
    kernel = check_transform(transform(kind, (2,), lengths, "c64"), "c64")
    assert len(kernel.launches) >= len(lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("element", ["c64", "c128"])
def test_long_sequences_are_two_stages(kind: str, element: str) -> None:
    kernel = check_transform(transform(kind, (2,), (8192,), element), element)
    assert len(kernel.launches) == (3 if "R" in kind else 2)


@pytest.mark.parametrize(("kind", "lengths"), [
    ("FFT", (4099,)), ("IFFT", (4099,)), ("RFFT", (4099,)), ("IRFFT", (4099,)), ("RFFT", (8198,)),
    ("IRFFT", (8198,)), ("FFT", (4099, 3)), ("FFT", (32_792,)),
])  # fmt: skip
@pytest.mark.parametrize("element", ["c64", "c128"])
def test_long_sequences_with_a_large_prime_factor_are_convolved(
    kind: str, lengths: tuple[int, ...], element: str
) -> None:
    kernel = check_transform(transform(kind, (2,), lengths, element), element)
    assert len(kernel.launches) >= 7
    assert "convolution with a chirp" in kernel.strategy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [3**9, 2 * 3**9])
def test_tiles_that_do_not_fit_shared_memory_are_in_scratch(kind: str, length: int) -> None:
    """Both factors of a very long sequence are longer than a tile; here tiles are short."""
    machine = replace(machine_of(), shared_bytes=1 << 10)
    kernel = check_transform(transform(kind, (2,), (length,), "c64"), "c64", machine=machine)
    assert kernel.scratch[-1].size != 0
    assert 0 in [launch.shared_bytes for launch in kernel.launches]


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize(("kind", "lengths"), [
    ("FFT", (16,)), ("IFFT", (4096,)), ("RFFT", (6, 10)), ("IRFFT", (9,)), ("RFFT", (8192,)),
    ("FFT", (4099,)), ("IRFFT", (8198,)),
])  # fmt: skip
def test_batches_of_symbolic_size(kind: str, lengths: tuple[int, ...], n: int) -> None:
    check_transform(transform(kind, (n,), lengths, "c64", "?n"), "c64", {"n": n})


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_barrier_left_out_is_caught(line: int) -> None:
    made, x, wanted = transform("FFT", (2,), (1024,), "c64")
    kernel = compile_kernel(made.kernel)
    lines = kernel.llvm_ir.splitlines()
    barriers = [n for n, text in enumerate(lines) if "call void @llvm.nvvm.barrier" in text]
    assert len(barriers) > line
    del lines[barriers[line]]
    emulation = Emulation(kernel, "\n".join(lines))
    wrong = 0
    for seed in SEEDS:
        try:
            _, found = emulation.run([x, np.zeros_like(wanted)], {}, seed)
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
        except (AssertionError, StuckError):
            wrong += 1
    assert wrong == len(SEEDS)
