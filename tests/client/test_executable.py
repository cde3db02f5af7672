# SPDX-License-Identifier: Apache-2.0
"""`Executable`: texts of every stage, kernel rows, DLPack, errors, donation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot
from ingot.client.executables.executable import Executable
from ingot.client.reports import inspection
from ingot.formats.hlo_text import parse
from ingot.hlo.dim import Dim, evaluate
from ingot.hlo.module import Alias
from ingot.llvm.jit import compile_object
from ingot.llvm.optimization import SHORT, Optimization
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import ExecutionError, UnsupportedError, VerifyError

AXPY = """HloModule axpy
ENTRY e {
  a = f32[] parameter(0)
  x = f32[?n] parameter(1)
  y = f32[?n] parameter(2)
  ab = f32[?n] broadcast(a), dimensions={}
  ax = f32[?n] multiply(ab, x)
  ROOT r = f32[?n] add(ax, y)
}"""

DENSE = """HloModule dense
ENTRY e {
  x = f32[32,64] parameter(0)
  w = f32[64,16] parameter(1)
  d = f32[32,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[32,16] tanh(d)
}"""

SUM = """HloModule sum
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[?n,8] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[?n] reduce(x, zero), dimensions={1}, to_apply=add
}"""

STAGES = {
    "hlo_before": "ROOT %r",
    "hlo": "fusion(",
    "kernel_passes": "built: loop over",
    "kernel": "loop over",
    "schedule": "chunk <",
    "llvm": "define",
    "llvm_optimized": "target triple",
    "assembly": "ret",
    "buffers": "",
}


@pytest.fixture(scope="module")
def axpy() -> Executable:
    return ingot.compile(parse(AXPY))


def _arrays(size: int) -> tuple[Any, Any]:
    return np.arange(size, dtype=np.float32), np.ones(size, np.float32)


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_text(axpy: Executable, stage: str) -> None:
    assert set(axpy.stages()) == set(STAGES)
    text = axpy.as_text(stage)
    assert text.strip()
    assert STAGES[stage] in text


def test_the_text_before_the_passes_reads_back(axpy: Executable) -> None:
    x, y = _arrays(5)
    again = ingot.compile(parse(axpy.as_text("hlo_before")))
    assert again(2.0, x, y).tobytes() == axpy(2.0, x, y).tobytes()


def test_a_stage_that_does_not_exist_names_those_that_do(axpy: Executable) -> None:
    with pytest.raises(ExecutionError, match="no stage 'ptx'") as caught:
        axpy.as_text("ptx")
    assert "assembly" in caught.value.diagnostic.hint


@pytest.mark.parametrize("size", [0, 1, 17, 100_000])
def test_one_compilation_runs_at_every_size(axpy: Executable, size: int) -> None:
    x, y = _arrays(size)
    np.testing.assert_array_equal(axpy(2.0, x, y), 2 * x + y)
    np.testing.assert_array_equal(axpy.call(2.0, x, y), 2 * x + y)
    assert axpy.program.output_shapes(2.0, x, y) == ((size,),)


def test_kernel_rows_count_bytes_and_operations(axpy: Executable) -> None:
    (row,) = axpy.kernels
    sizes = {"n": 10}
    assert (row.kind, set(row.opcodes)) == ("kLoop", {"broadcast", "multiply", "add"})
    assert evaluate(row.bytes_read, sizes) == 4 + 40 + 40
    assert evaluate(row.bytes_written, sizes) == 40
    assert evaluate(row.flops, sizes) == 20
    assert isinstance(row.flops, Dim)


@pytest.mark.parametrize(
    ("body", "strategy"),
    [
        ("x = f32[100] parameter(0)  ROOT r = f32[100] tanh(x)", "lanes"),
        (
            "x = f32[50,70] parameter(0)  t = f32[70,50] transpose(x), dimensions={1,0}"
            "  ROOT r = f32[70,50] tanh(t)",
            "square tiles",
        ),
        (
            "x = f32[64,32] parameter(0)  y = f32[32,16] parameter(1)  ROOT r = f32[64,16]"
            " dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "product",
        ),
        (
            "x = c64[16] parameter(0)  ROOT r = c64[16] fft(x), fft_type=FFT, fft_length={16}",
            "Fourier transform",
        ),
    ],
)
def test_kernel_rows_say_how_kernels_run(body: str, strategy: str) -> None:
    executable = ingot.compile(f"HloModule m\n\nENTRY e {{ {body} }}")
    assert executable.kernels[-1].strategy == strategy


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        ("x = f32[10] parameter(0)  ROOT r = f32[10] negate(x)", "latency"),
        ("x = f32[4194304] parameter(0)  ROOT r = f32[4194304] negate(x)", "memory"),
        (
            "x = f32[1024,1024] parameter(0)  ROOT r = f32[1024,1024] dot(x, x),"
            " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "compute",
        ),
        ("x = f32[?n] parameter(0)  ROOT r = f32[?n] negate(x)", ""),
    ],
)
def test_kernel_rows_say_what_limits_kernels(body: str, bound: str) -> None:
    executable = ingot.compile(f"HloModule m\n\nENTRY e {{ {body} }}")
    assert executable.kernels[-1].bound == bound


def test_transcendentals_are_counted_by_themselves_too() -> None:
    body = "x = f32[8] parameter(0)  y = f32[8] tanh(x)  ROOT r = f32[8] add(x, y)"
    (row,) = ingot.compile(f"HloModule m\n\nENTRY e {{ {body} }}").kernels
    assert (row.flops, row.transcendentals) == (16, 8)


def test_kernel_rows_of_contractions_and_reductions() -> None:
    (row,) = ingot.compile(parse(DENSE)).kernels
    assert row.flops == 2 * 32 * 64 * 16 + 32 * 16
    assert row.bytes_read == 4 * (32 * 64 + 64 * 16)
    assert row.bytes_written == 4 * 32 * 16
    (row,) = ingot.compile(parse(SUM)).kernels
    assert evaluate(row.flops, {"n": 3}) == 24
    assert evaluate(row.bytes_written, {"n": 3}) == 12


def test_rows_carry_the_users_lines() -> None:
    text = AXPY.replace(
        "multiply(ab, x)",
        'multiply(ab, x), metadata={op_name="m" source_file="model.py" source_line=7}',
    )
    (row,) = ingot.compile(parse(text)).kernels
    assert row.lines == ("model.py:7",)


def test_fusion_log_rewrites_and_timer_tell_what_happened(axpy: Executable) -> None:
    assert any("%ax fused into %r" in line for line in axpy.fusion_log)
    phases = axpy.timer.report()
    assert "host program" in str(phases)
    executable = ingot.compile(parse(AXPY.replace("add(ax, y)", "add(y, ax)")))
    assert isinstance(executable.rewrites, tuple)


def test_equal_kernels_are_compiled_once() -> None:
    first, second = (ingot.compile(parse(AXPY)) for _ in range(2))
    names = [[row.name for row in executable.kernels] for executable in (first, second)]
    assert names[0] == names[1]
    code = [e.kernel_set.compiled[names[0][0]] for e in (first, second)]
    assert code[0] is code[1]


class ThroughDLPack:
    """An array that is known by the DLPack protocol only."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arguments_come_through_dlpack(axpy: Executable) -> None:
    x, y = _arrays(9)
    np.testing.assert_array_equal(axpy(2.0, ThroughDLPack(x), y), 2 * x + y)


def test_arguments_may_be_strided_lists_and_numbers(axpy: Executable) -> None:
    x = np.arange(20, dtype=np.float32)[::2]
    np.testing.assert_array_equal(axpy(1, x, [0.0] * 10), x)


def test_results_are_the_callers_own(axpy: Executable) -> None:
    x, y = _arrays(8)
    first = axpy(1.0, x, y)
    kept = first.copy()
    axpy(5.0, x, y)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.0, np.ones(3, np.float32)), "takes 3 arguments"),
        ((1.0, np.ones(3, np.float64), np.ones(3, np.float32)), "f32"),
        ((1.0, np.ones((3, 1), np.float32), np.ones(3, np.float32)), "f32"),
        ((1.0, np.ones(3, np.float32), np.ones(4, np.float32)), "dimension 0 of 'y' must be"),
        ((1.0, object(), np.ones(4, np.float32)), "cannot read"),
    ],
)
def test_arguments_that_do_not_fit(axpy: Executable, arguments: Any, words: str) -> None:
    with pytest.raises(ExecutionError, match=words):
        axpy(*arguments)


def test_unsupported_ops_are_named_with_the_users_line() -> None:
    text = """HloModule m
    ENTRY e { p = f32[4] parameter(0)
      ROOT c = f32[4] custom-call(p), custom_call_target="f",
        metadata={op_type="MyOp" op_name="net/my_op" source_file="model.py" source_line=7}
    }"""
    with pytest.raises(UnsupportedError, match="custom-call") as caught:
        ingot.compile(parse(text))
    assert caught.value.diagnostic.code == "INGOT0332"
    assert "model.py:7" in str(caught.value)


def test_invalid_modules_are_refused_before_anything_else() -> None:
    module = parse(AXPY)
    module.aliases = (Alias((3,), 0, (), "may-alias"),)
    with pytest.raises(VerifyError, match=r"alias of output \(3,\)"):
        ingot.compile(module)


def test_compiling_leaves_the_module_alone() -> None:
    module = parse(AXPY)
    before = len(list(module.entry.instructions))
    ingot.compile(module)
    assert len(list(module.entry.instructions)) == before
    assert module.entry.root.opcode == "add"


DONATING = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  state = f32[?n] parameter(0)
  delta = f32[?n] parameter(1)
  new = f32[?n] add(state, delta)
  twice = f32[?n] add(new, new)
  ROOT t = (f32[?n], f32[?n]) tuple(new, twice)
}"""


def test_donated_arguments_become_results() -> None:
    executable = ingot.compile(parse(DONATING))
    state, delta = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    address = state.ctypes.data
    new, twice = executable(state, delta, donate=(0,))
    assert new.ctypes.data == address
    np.testing.assert_array_equal(new, np.arange(1, 1001, dtype=np.float32))
    np.testing.assert_array_equal(twice, 2 * new)


def test_without_donation_the_argument_stays_as_it_is() -> None:
    executable = ingot.compile(parse(DONATING))
    state, delta = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    new, _ = executable(state, delta)
    np.testing.assert_array_equal(state, np.arange(1000, dtype=np.float32))
    np.testing.assert_array_equal(new, state + 1)


def test_one_leaf_is_returned_as_it_is() -> None:
    text = AXPY.replace("ROOT r", "r").replace(
        "add(ax, y)\n}", "add(ax, y)\n ROOT t = (f32[?n]) tuple(r) }"
    )
    x, y = _arrays(4)
    np.testing.assert_array_equal(ingot.compile(parse(text))(1.0, x, y), x + y)


LOOP_AND_KERNELS = """
HloModule m

condition {
  s = (s32[], f32[7,13]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[7,13]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[7,13] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[7,13] tanh(x)
  z = f32[7,7] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  w = f32[7,13] dot(z, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[7,13]) tuple(next, w)
}

ENTRY main {
  x = f32[7,13] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[7,13]) tuple(zero, x)
  ROOT end = (s32[], f32[7,13]) while(start), condition=condition, body=body
}
"""


@pytest.mark.parametrize("shows", ["assembly", "optimized_ir"])
def test_code_is_shown_as_it_runs(shows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What LLVM does with a module that is shown gives the object that runs."""
    objects: list[bytes] = []

    def keep(text: str, target: TargetSpec, how: Optimization = SHORT) -> str:
        objects.append(compile_object(text, target, how))
        return ""

    executable = ingot.compile(parse(LOOP_AND_KERNELS))
    assert isinstance(executable, Executable)
    monkeypatch.setattr(inspection, shows, keep)
    executable.as_text({"optimized_ir": "llvm_optimized"}.get(shows, shows))
    artifact = executable.artifact
    assert isinstance(artifact.host, bytes)
    assert sorted(objects) == sorted([*artifact.objects, *artifact.parts, artifact.host])
