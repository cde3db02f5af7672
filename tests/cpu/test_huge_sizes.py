# SPDX-License-Identifier: Apache-2.0
"""Sizes that no machine has end in one of Ingot's errors, which names the instruction."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ingot
from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.runtime.native import machine_memory, native_runtime
from ingot.support.diagnostics import ExecutionError, ResourceError, VerifyError

ROOT = Path(__file__).parents[2]

FOUR_AXES = """HloModule m
less { a = u8[] parameter(0) b = u8[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e {
  a = u8[?n] parameter(0)
  b = u8[?m] parameter(1)
  c = u8[?k] parameter(2)
  d = u8[?l] parameter(3)
  aa = u8[?n,?m,?k,?l] broadcast(a), dimensions={0}
  bb = u8[?n,?m,?k,?l] broadcast(b), dimensions={1}
  cc = u8[?n,?m,?k,?l] broadcast(c), dimensions={2}
  dd = u8[?n,?m,?k,?l] broadcast(d), dimensions={3}
  x = u8[?n,?m,?k,?l] add(aa, bb)
  y = u8[?n,?m,?k,?l] add(cc, dd)
  z = u8[?n,?m,?k,?l] add(x, y)
  s = u8[?n,?m,?k,?l] sort(z), dimensions={3}, to_apply=less
  ROOT r = u8[1,1,1,1] slice(s), slice={[0:1],[0:1],[0:1],[0:1]}
}"""


def _compiled(body: str) -> ingot.Executable:
    return ingot.compile(ingot.parse_hlo(f"HloModule m\nENTRY e {{ {body} }}"))


@pytest.mark.parametrize("size", [1 << 13, 1 << 14, 1 << 16, 3 << 15, 1 << 20])
def test_a_product_of_sizes_that_wraps_is_refused(size: int) -> None:
    program = ingot.compile(ingot.parse_hlo(FOUR_AXES))
    few = [np.full(3, value, np.uint8) for value in (1, 2, 3, 4)]
    assert program(*few).item() == 10
    with pytest.raises(ResourceError, match=r"\?n,\?m,\?k,\?l.*k\*l\*m\*n bytes") as caught:
        program(*[np.zeros(size, np.uint8)] * 4)
    assert caught.value.diagnostic.code in ("INGOT0401", "INGOT0402")
    assert program(*few).item() == 10


def test_a_long_formula_of_a_size_is_shortened() -> None:
    names = [f"?a_size_with_a_long_name_{number}" for number in range(12)]
    given = "\n".join(f"p{n} = u8[{name}] parameter({n})" for n, name in enumerate(names))
    program = _compiled(
        f"{given} one = u8[] constant(1) "
        f"ROOT x = u8[{','.join(names)}] broadcast(one), dimensions={{}}"
    )
    with pytest.raises(ResourceError) as caught:
        program(*[np.zeros(64, np.uint8)] * len(names))
    assert caught.value.diagnostic.code == "INGOT0402"
    assert "characters ...]" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_an_array_of_no_elements_may_have_a_large_size() -> None:
    program = _compiled("p = f32[?n,?m] parameter(0) ROOT r = f32[?n,?m] negate(p)")
    assert program(np.zeros((1 << 40, 0), np.float32)).shape == (1 << 40, 0)


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = f32[4294967296,4294967296] iota(), iota_dimension=0",
        "p = s8[] parameter(0) b = s8[9223372036854775807] broadcast(p), dimensions={} "
        "ROOT r = s8[1] slice(b), slice={[0:1]}",
        "p = f32[1152921504606846977] parameter(0) ROOT r = f32[] constant(0)",
    ],
)
def test_a_static_shape_has_at_most_two_to_the_62_bytes(body: str) -> None:
    with pytest.raises(VerifyError, match="more than 2\\*\\*62") as caught:
        _compiled(body)
    assert caught.value.diagnostic.code == "INGOT0218"


def test_a_static_buffer_that_no_machine_has_is_refused_by_name() -> None:
    with pytest.raises(ResourceError, match=r"f32\[17592186044417\]"):
        _compiled("ROOT r = f32[17592186044417] iota(), iota_dimension=0")
    halves = " ".join(
        f"p{n} = f32[] parameter({n}) "
        f"b{n} = f32[8796093022208] broadcast(p{n}), dimensions={{}} "
        f"s{n} = f32[8796093022208] custom-call(b{n}), custom_call_target=\"x\" "
        for n in range(4)
    )  # fmt: skip
    ingot.register_custom_call_target("x", lambda value: value)
    call = 'c = f32[8796093022208] custom-call(s0, s1, s2, s3), custom_call_target="x" '
    with pytest.raises(ResourceError, match="and its buffer"):
        _compiled(halves + call + "ROOT r = f32[1] slice(c), slice={[0:1]}")


def test_fused_values_may_be_larger_than_memory() -> None:
    program = _compiled(
        "p = s64[70368744177664] iota(), iota_dimension=0 "
        "ROOT r = s64[1] slice(p), slice={[70368744177663:70368744177664]}"
    )
    assert program().tolist() == [(1 << 46) - 1]


def test_the_largest_buffer_is_named_when_memory_is_short() -> None:
    size = machine_memory() + (1 << 30)
    assert size < MAX_BUFFER_BYTES
    program = _compiled(f"p = u8[] parameter(0) ROOT r = u8[{size}] broadcast(p), dimensions={{}}")
    with pytest.raises(ResourceError, match=rf"its largest buffer is %.*u8\[{size}\]") as caught:
        program(np.uint8(1))
    assert caught.value.diagnostic.code == "INGOT0401"


def test_more_than_the_memory_limit_is_refused_and_nothing_is_lost() -> None:
    program = _compiled("p = u8[?n] parameter(0) ROOT r = u8[?n] negate(p)")
    runtime = native_runtime()
    gc.collect()  # What earlier tests hold goes now, and not below.
    runtime.trim()  # A block that lies free is given out without asking the system for more.
    before = runtime.allocator_statistics()
    runtime.set_memory_limit(before.bytes_in_use + (1 << 20))
    try:
        with pytest.raises(ResourceError, match="out of memory"):
            program(np.zeros(3 << 20, np.uint8))
        assert program(np.ones(1 << 10, np.uint8))[0] == 255
    finally:
        runtime.set_memory_limit(machine_memory())
    assert runtime.allocator_statistics().bytes_in_use <= before.bytes_in_use


def test_a_size_that_divides_by_zero_is_refused_where_it_is_used() -> None:
    program = _compiled(
        "p = f32[?n] parameter(0) q = f32[?m] parameter(1) "
        "b = f32[?(floordiv(n,m))] iota(), iota_dimension=0 "
        "ROOT r = f32[?(floordiv(n,m))] negate(b)"
    )
    assert program(np.zeros(7, np.float32), np.zeros(2, np.float32)).tolist() == [0, -1, -2]
    with pytest.raises(ExecutionError, match="iota needs 1 <= m"):
        program(np.zeros(7, np.float32), np.zeros(0, np.float32))


def test_a_size_that_is_negative_is_refused() -> None:
    program = _compiled(
        "p = f32[?n] parameter(0) b = f32[?(n-5)] iota(), iota_dimension=0 "
        "ROOT r = f32[?(n-5)] negate(b)"
    )
    assert program(np.zeros(6, np.float32)).shape == (1,)
    with pytest.raises(ExecutionError, match="iota needs 0 <= n-5"):
        program(np.zeros(4, np.float32))


def test_negative_sizes_of_a_branch_that_does_not_run_take_nothing_from_others() -> None:
    text = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
short { p = f32[?n] parameter(0) s = f32[?n] sort(p), dimensions={0}, to_apply=less
  ROOT r = f32[1] slice(s), slice={[0:1]} }
long { p = f32[?n] parameter(0) c = f32[?(n-500)] slice(p), slice={[500:?n]}
  s = f32[?(n-500)] sort(c), dimensions={0}, to_apply=less
  ROOT r = f32[1] slice(s), slice={[0:1]} }
ENTRY e { p = f32[?n] parameter(0) is_long = pred[] parameter(1)
  q = f32[?n] negate(p) s = f32[?n] sort(q), dimensions={0}, to_apply=less
  c = f32[1] conditional(is_long, s, s), true_computation=long, false_computation=short
  d = f32[] reshape(c) b = f32[?n] broadcast(d), dimensions={} ROOT r = f32[?n] add(s, b) }"""
    program = ingot.compile(ingot.parse_hlo(text))
    given = np.arange(100, dtype=np.float32)
    wanted = np.sort(-given) - 99
    np.testing.assert_array_equal(program(given, np.bool_(False)), wanted)
    with pytest.raises(ExecutionError, match="<= n-500"):
        program(given, np.bool_(True))


@pytest.mark.slow
def test_random_programs_compute_sizes_exactly_or_refuse_them() -> None:
    command = [sys.executable, "-m", "tests.support.huge_sizes", "0", "12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert "'limit'" in done.stdout
    assert "'result'" in done.stdout
