# SPDX-License-Identifier: Apache-2.0
"""Each kernel pass by itself: what it leaves is valid, and stores the same bits.

Kernels are those of the fusions of whole programs, written here or by the fuzzer.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.fuzz.targets.strategy_programs import LOADED, generate
from tests.kernel.programs import REDUCERS, SOFTMAX, argmax

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo
from ingot.hlo.computation import Computation
from ingot.hlo.dim import evaluate as number
from ingot.hlo.dtype import DType, Kind
from ingot.host.sites import scheduled_fusions
from ingot.kernel.convolution.build import find_convolution
from ingot.kernel.evaluate import evaluate_kernel
from ingot.kernel.ir import LoopKernel
from ingot.kernel.lowering import kernel_history
from ingot.kernel.passes.pipeline import KERNEL_PASSES, passes_for
from ingot.kernel.verifier import verify_kernel

SIZES = {"n": 5, "m": 3}
ARGMAX = argmax("s64")

PROGRAMS = {
    "frames of a signal": """x = f32[40] parameter(0)
  hop = s32[7] iota(), iota_dimension=0
  three = s32[] constant(3)
  threes = s32[7] broadcast(three), dimensions={}
  start = s32[7] multiply(hop, threes)
  starts = s32[7,10] broadcast(start), dimensions={0}
  along = s32[7,10] iota(), iota_dimension=1
  sum = s32[7,10] add(starts, along)
  at = s32[7,10,1] reshape(sum)
  ROOT r = f32[7,10] gather(x, at), offset_dims={}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=2, slice_sizes={1}""",
    "odd heads beside each other": """x = f32[2,5,9,7] parameter(0)
  y = f32[35] parameter(1)
  t = f32[2,9,5,7] transpose(x), dimensions={0,2,1,3}
  flat = f32[18,35] reshape(t)
  rows = f32[18,35] broadcast(y), dimensions={1}
  ROOT r = f32[18,35] add(flat, rows)""",
    "shuffled pixels": """x = f32[2,3,3,3,3] parameter(0)
  y = f32[3] parameter(1)
  t = f32[2,3,3,3,3] transpose(x), dimensions={0,2,1,3,4}
  rows = f32[2,3,3,3,3] broadcast(y), dimensions={4}
  s = f32[2,3,3,3,3] add(t, rows)
  ROOT r = f32[54,3] reshape(s)""",
    "padded rows end to end": """x = f32[50,70] parameter(0)
  y = f32[3650] parameter(1)
  zero = f32[] constant(0)
  p = f32[50,73] pad(x, zero), padding=0_0x1_2
  flat = f32[3650] reshape(p)
  ROOT r = f32[3650] multiply(flat, y)""",
    "elementwise over many axes": """x = f32[2,3,4,5] parameter(0)
  y = f32[4,5] parameter(1)
  b = f32[2,3,4,5] broadcast(y), dimensions={2,3}
  ROOT r = f32[2,3,4,5] multiply(x, b)""",
    "rows of three": """x = f32[128,3] parameter(0)
  y = f32[3] parameter(1)
  b = f32[128,3] broadcast(y), dimensions={1}
  ROOT r = f32[128,3] add(x, b)""",
    "sum and product beside each other": """x = f32[300] parameter(0)
  o = f32[300] multiply(x, x)
  q = f32[300] subtract(o, x)
  e = f32[300] multiply(q, o)
  s = f32[300] add(x, e)
  p = f32[300] multiply(x, e)
  a = f32[1,300] reshape(s)
  b = f32[1,300] reshape(p)
  ROOT r = f32[2,300] concatenate(a, b), dimensions={0}""",
    "softmax of short rows": """p = f32[80,6] parameter(0)
  low = f32[] constant(-inf)
  m = f32[80] reduce(p, low), dimensions={1}, to_apply=max
  mb = f32[80,6] broadcast(m), dimensions={0}
  s = f32[80,6] subtract(p, mb)
  e = f32[80,6] exponential(s)
  zero = f32[] constant(0)
  t = f32[80] reduce(e, zero), dimensions={1}, to_apply=add
  tb = f32[80,6] broadcast(t), dimensions={0}
  ROOT d = f32[80,6] divide(e, tb)""",
    "softmax": SOFTMAX,
    "residual": """r = f32[300] parameter(0)
  q = f32[300] parameter(1)
  a = f32[] parameter(2)
  ab = f32[300] broadcast(a), dimensions={}
  m = f32[300] multiply(ab, q)
  n = f32[300] subtract(r, m)
  o = f32[300] multiply(n, n)
  zero = f32[] constant(0)
  s = f32[] reduce(o, zero), dimensions={0}, to_apply=add
  sb = f32[300] broadcast(s), dimensions={}
  p = f32[300] multiply(sb, q)
  d = f32[300] add(n, p)
  ROOT t = (f32[300], f32[300]) tuple(n, d)""",
    "window": """x = f32[3,40] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[3,40] reduce-window(x, zero), window={size=1x3 pad=0_0x1_1}, to_apply=add""",
    "padded twice": """x = f32[4,9] parameter(0)
  z = f32[] constant(2)
  p = f32[6,12] pad(x, z), padding=1_1x2_1
  ROOT r = f32[5,11] slice(p), slice={[0:5],[1:12]}""",
    "concatenated": """x = f32[4,7] parameter(0)
  y = f32[4,5] parameter(1)
  n = f32[4,5] negate(y)
  ROOT r = f32[4,12] concatenate(x, n), dimensions={1}""",
    "concatenated sizes": """x = f32[?m,?n] parameter(0)
  y = f32[?m,4] parameter(1)
  n = f32[?m,4] negate(y)
  ROOT r = f32[?m,?(n+4)] concatenate(x, n), dimensions={1}""",
    "rolled": """x = f32[7,9] parameter(0)
  a = f32[1,9] slice(x), slice={[6:7],[0:9]}
  b = f32[6,9] slice(x), slice={[0:6],[0:9]}
  ROOT r = f32[7,9] concatenate(a, b), dimensions={0}""",
    "gathered": """x = f32[50,8] parameter(0)
  i = s32[20,1] parameter(1)
  g = f32[20,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,8}
  ROOT r = f32[20,8] negate(g)""",
    "rows in turn": """x = f32[5,8] parameter(0)
  y = f32[4,8] parameter(1)
  zero = f32[] constant(0)
  p = f32[9,8] pad(x, zero), padding=0_0_1x0_0
  q = f32[9,8] pad(y, zero), padding=1_1_1x0_0
  ROOT r = f32[9,8] add(p, q)""",
    "reversed and transposed": """x = f32[6,10] parameter(0)
  t = f32[10,6] transpose(x), dimensions={1,0}
  ROOT r = f32[10,6] reverse(t), dimensions={0}""",
    "a filter with its features last": """x = f32[24,5,3,3] parameter(0)
  t = f32[3,3,5,24] transpose(x), dimensions={2,3,1,0}
  ROOT r = f32[3,3,5,24] negate(t)""",
    "argmax": """x = f32[6,300] parameter(0)
  i = s64[6,300] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  first = s64[] constant(0)
  ROOT r = (f32[6], s64[6]) reduce(x, i, low, first), dimensions={1}, to_apply=argmax""",
    "scattered": """x = f32[60] parameter(0)
  i = s32[4,5,1] parameter(1)
  u = f32[4,5] parameter(2)
  ROOT r = f32[60] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=2, to_apply=add""",
    "scattered rows": """x = f32[60,6] parameter(0)
  i = s32[9,1] parameter(1)
  u = f32[9,6] parameter(2)
  n = f32[9,6] negate(u)
  ROOT r = f32[60,6] scatter(x, i, n), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "updated in place": """x = f32[30,4,8] parameter(0)
  u = f32[1,4,8] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  n = f32[1,4,8] negate(u)
  ROOT r = f32[30,4,8] dynamic-update-slice(x, n, i, z, z)""",
    "scanned": """x = f32[3,5,4] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[3,5,4] reduce-window(x, zero), window={size=1x5x1 pad=0_0x4_0x0_0},
    to_apply=add""",
    "sums of two coordinates": """x = f32[30,100] parameter(0)
  y = f32[100,2] parameter(1)
  s = f32[30,100] multiply(x, x)
  w = f32[30,100] subtract(s, x)
  wb = f32[30,100,2] broadcast(w), dimensions={0,1}
  yb = f32[30,100,2] broadcast(y), dimensions={1,2}
  m = f32[30,100,2] multiply(wb, yb)
  zero = f32[] constant(0)
  ROOT r = f32[30,2] reduce(m, zero), dimensions={1}, to_apply=add""",
    "sum of nothing": """x = f32[4,0] parameter(0)
  zero = f32[] constant(3)
  ROOT r = f32[4] reduce(x, zero), dimensions={1}, to_apply=add""",
}


WINDOWS = {
    "one feature of each channel": """HloModule m ENTRY e { x = f32[2,5,7,6] parameter(0)
  k = f32[3,3,1,6] parameter(1)  ROOT r = f32[2,5,7,6] convolution(x, k),
  window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=6 }""",
    "with strides": """HloModule m ENTRY e { x = f32[1,8,9,5] parameter(0)
  k = f32[2,3,1,5] parameter(1)  ROOT r = f32[1,4,4,5] convolution(x, k),
  window={size=2x3 stride=2x2}, dim_labels=b01f_01io->b01f, feature_group_count=5 }""",
    "along one axis, with an op behind": """HloModule m ENTRY e { x = f32[2,11,4] parameter(0)
  k = f32[5,1,4] parameter(1)  c = f32[2,11,4] convolution(x, k), window={size=5 pad=2_2},
  dim_labels=b0f_0io->b0f, feature_group_count=4  ROOT r = f32[2,11,4] negate(c) }""",
}
"""Convolutions whose window is a loop of their kernels."""


def _text(body: str) -> str:
    return f"HloModule m\n{REDUCERS}{ARGMAX}\nENTRY e {{ {body} }}"


def _fusions(text: str) -> list[Computation]:
    executable = ingot.compile(parse_hlo(text))
    return list(dict.fromkeys(f.attributes.calls for f in scheduled_fusions(executable.module)))


def _built(fused: Computation) -> LoopKernel | None:
    """Return the loops of a fused computation before the passes; None if it has none."""
    _, kernel = next(kernel_history(fused))
    return kernel if isinstance(kernel, LoopKernel) else None


def _array(choose: np.random.Generator, element: DType, size: int) -> np.ndarray:
    if element.kind in (Kind.PRED, Kind.SIGNED, Kind.UNSIGNED):
        most = 2 if element.kind is Kind.PRED else 20
        return choose.integers(0, most, size).astype(element.numpy)
    return (choose.standard_normal(size) * 2).astype(element.numpy)


def memory_of(kernel: LoopKernel, sizes: dict[str, int]) -> list[np.ndarray]:
    """Return data for the buffers of a kernel, the same every time."""
    choose = np.random.default_rng(0)
    return [_array(choose, b.dtype, number(b.size, sizes)) for b in kernel.buffers]


def _check(fused: Computation, sizes: dict[str, int]) -> list[str]:
    """Check every pass on the kernel of a fusion; return the passes that changed it."""
    kernel = _built(fused)
    if kernel is None:
        return []
    verify_kernel(kernel)
    memory = memory_of(kernel, sizes)
    wanted = [held.tobytes() for held in evaluate_kernel(kernel, memory, sizes)]
    changed: list[str] = []
    for name, made in kernel_history(fused):
        assert isinstance(made, LoopKernel)
        found = [held.tobytes() for held in evaluate_kernel(made, memory, sizes)]
        assert found == wanted, f"{name} changed what is stored"
        changed.append(name)
    return changed[1:]


def _check_alone(fused: Computation, sizes: dict[str, int]) -> set[str]:
    """Check each pass on each kernel between the passes; return the passes that change any.

    A pass must not depend on the passes that run before it in the pipeline.
    """
    kernel = _built(fused)
    if kernel is None:
        return set()
    memory = memory_of(kernel, sizes)
    wanted = [held.tobytes() for held in evaluate_kernel(kernel, memory, sizes)]
    passes = passes_for(find_convolution(fused) is not None)
    changed: set[str] = set()
    for name, given in kernel_history(fused):
        assert isinstance(given, LoopKernel)
        for item in passes:
            made = item.run(given)
            if made == given:
                continue
            verify_kernel(made, item.name)
            found = [held.tobytes() for held in evaluate_kernel(made, memory, sizes)]
            assert found == wanted, f"{item.name} changed what the kernel after {name} stores"
            changed.add(item.name)
    return changed


@pytest.mark.parametrize("name", PROGRAMS)
def test_passes_keep_what_programs_store(name: str) -> None:
    fusions = _fusions(_text(PROGRAMS[name]))
    assert fusions or name == "sum of nothing"
    for fused in fusions:
        _check(fused, SIZES)


def test_every_pass_changes_some_program() -> None:
    texts = map(_text, PROGRAMS.values())
    changed = {name for text in texts for fused in _fusions(text) for name in _check(fused, SIZES)}
    assert changed == {item.name for item in KERNEL_PASSES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_passes_keep_what_random_programs_store(seed: int) -> None:
    data = generate(random.Random(seed)).removeprefix(LOADED).decode()
    for fused in _fusions(data):
        kernel = _built(fused)
        small = kernel is not None and all(
            isinstance(b.size, int) and b.size <= 1 << 16 for b in kernel.buffers
        )
        if small:
            _check(fused, {})


def test_a_kernel_stores_what_its_fusion_gives() -> None:
    text = _text(PROGRAMS["softmax of short rows"])
    module = parse_hlo(text)
    (fused,) = _fusions(text)
    kernel = _built(fused)
    assert kernel is not None
    memory = memory_of(kernel, {})
    (found,) = evaluate_kernel(kernel, memory)
    wanted = evaluate(module, [memory[0].reshape(80, 6)])
    np.testing.assert_allclose(found.reshape(80, 6), wanted, rtol=1e-5)


@pytest.mark.slow
def test_each_pass_alone_keeps_what_programs_store() -> None:
    texts = [*map(_text, PROGRAMS.values()), *WINDOWS.values()]
    fusions = [fused for text in texts for fused in _fusions(text)]
    changed = [_check_alone(fused, SIZES) for fused in fusions]
    assert set().union(*changed) == {item.name for item in KERNEL_PASSES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_each_pass_alone_keeps_what_random_programs_store(seed: int) -> None:
    data = generate(random.Random(seed)).removeprefix(LOADED).decode()
    for fused in _fusions(data):
        _check_alone(fused, SIZES)


@pytest.mark.parametrize("name", WINDOWS)
def test_passes_keep_what_windows_of_convolutions_store(name: str) -> None:
    fusions = [fused for fused in _fusions(WINDOWS[name]) if find_convolution(fused) is not None]
    assert any(_built(fused) is not None for fused in fusions)
    for fused in fusions:
        _check(fused, SIZES)
        _check_alone(fused, SIZES)
