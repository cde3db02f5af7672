# SPDX-License-Identifier: Apache-2.0
"""Short rows in nests of loops: heads, patches, shuffled and repeated pixels of any small size."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.llvm.target import TargetSpec, host_levels

LENGTHS = [1, 2, 3, 5, 7, 11, 12, 13, 17, 23, 31, 33]
DTYPES = ["f32", "f64", "bf16", "s8", "pred", "c64"]

HEADS = """x = T[2,5,9,K] parameter(0)
  y = T[5*K] parameter(1)
  t = T[2,9,5,K] transpose(x), dimensions={0,2,1,3}
  flat = T[18,5*K] reshape(t)
  rows = T[18,5*K] broadcast(y), dimensions={1}
  ROOT r = T[18,5*K] OP(flat, rows)"""
PATCHES = """x = T[2,4,3,5,K] parameter(0)
  y = T[3*K] parameter(1)
  t = T[2,5,4,3,K] transpose(x), dimensions={0,3,1,2,4}
  flat = T[40,3*K] reshape(t)
  rows = T[40,3*K] broadcast(y), dimensions={1}
  ROOT r = T[40,3*K] OP(flat, rows)"""
REPEATED = """x = T[3,17,K] parameter(0)
  y = T[3,2,17,2,K] parameter(1)
  b = T[3,2,17,2,K] broadcast(x), dimensions={0,2,4}
  ROOT r = T[3,2,17,2,K] OP(b, y)"""
SHUFFLED = """x = T[3,4,3,3,K] parameter(0)
  y = T[K] parameter(1)
  t = T[3,3,4,3,K] transpose(x), dimensions={0,2,1,3,4}
  rows = T[3,3,4,3,K] broadcast(y), dimensions={4}
  s = T[3,3,4,3,K] OP(t, rows)
  ROOT r = T[108,K] reshape(s)"""
PADDED = """x = T[3,9,K] parameter(0)
  y = T[3,20,K] parameter(1)
  zero = T[] parameter(2)
  p = T[3,20,K] pad(x, zero), padding=0_0x1_2_1x0_0
  ROOT r = T[3,20,K] OP(p, y)"""
PROGRAMS = {
    "padded": PADDED,
    "heads": HEADS,
    "patches": PATCHES,
    "repeated": REPEATED,
    "shuffled": SHUFFLED,
}


def module(program: str, element: str, length: int) -> ingot.Module:
    body = program.replace("5*K", str(5 * length)).replace("3*K", str(3 * length))
    body = body.replace("K", str(length)).replace("T[", f"{element}[")
    op = "and" if element == "pred" else "add"
    return ingot.parse_hlo(f"HloModule m\nENTRY e {{\n  {body.replace('OP', op)}\n}}")


def arrays_of(made: ingot.Module) -> list[np.ndarray]:
    """Return arguments with every special number, denormals and negative zeros among them."""
    generator = np.random.default_rng(0)
    special = [np.nan, np.inf, -np.inf, -0.0, 1e-40, 0.0]
    found = []
    for each in made.entry.parameters:
        element = each.shape.dtype.numpy
        values = generator.integers(0, 100, each.shape.dims)
        if element.kind in "fc":
            values = np.where(
                values < len(special), np.take(special, values % len(special)), values
            )
        found.append((values % 2 if element.kind == "b" else values).astype(element))
    return found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_of_any_length(program: str, length: int) -> None:
    made = module(PROGRAMS[program], "f32", length)
    arrays = arrays_of(made)
    for level in host_levels():
        found = ingot.compile(made, target=TargetSpec.at_level(level))(*arrays)
        np.testing.assert_array_equal(found, evaluate(made, arrays), level)


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_rows_of_any_type(program: str, element: str) -> None:
    made = module(PROGRAMS[program], element, 7)
    arrays = arrays_of(made)
    with np.errstate(all="ignore"):
        wanted = evaluate(made, arrays)
    np.testing.assert_array_equal(ingot.compile(made)(*arrays), wanted)


def test_odd_heads_and_patches_are_nests_of_rows() -> None:
    for program in (HEADS, PATCHES, REPEATED):
        executable = ingot.compile(module(program, "f32", 17), target=TargetSpec.at_level("avx2"))
        assert [kernel.strategy for kernel in executable.kernels] == ["row nest"]
        assert "gather" not in executable.as_text("llvm")


def test_result_in_the_memory_of_an_operand_is_computed_once() -> None:
    """Parts overlap only where nothing is read that was written."""
    made = ingot.parse_hlo("""HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
ENTRY e {
  x = f32[40,3,13] parameter(0)
  y = f32[40,13] parameter(1)
  rows = f32[40,3,13] broadcast(y), dimensions={0,2}
  ROOT r = f32[40,3,13] add(x, rows)
}""")
    x = np.arange(40 * 3 * 13, dtype=np.float32).reshape(40, 3, 13)
    y = np.ones((40, 13), np.float32)
    np.testing.assert_array_equal(ingot.compile(made)(x.copy(), y), x + 1)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_stacks_that_others_follow_are_read_without_gathers(count: int) -> None:
    made = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = f32[64,3] parameter(0)
  y = f32[{count}] parameter(1)
  a = f32[64,1] slice(x), slice={{[0:64],[0:1]}}
  b = f32[64,1] slice(x), slice={{[0:64],[1:2]}}
  c = f32[64,1] slice(x), slice={{[0:64],[2:3]}}
  ab = f32[64,1] multiply(a, b)
  bc = f32[64,1] subtract(b, c)
  ca = f32[64,1] add(c, a)
  s = f32[64,3] concatenate(ab, bc, ca), dimensions={{1}}
  flat = f32[192] reshape(s)
  ROOT r = f32[{192 + count}] concatenate(flat, y), dimensions={{0}}
}}""")
    arrays = arrays_of(made)
    executable = ingot.compile(made, target=TargetSpec.at_level("avx2"))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(executable(*arrays), evaluate(made, arrays))
    assert "gather" not in executable.as_text("llvm")
