"""Windowed reductions over all prefixes or suffixes become scans by doubling."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.expand.scans import ScanExpander


def scan(padding: str, *, op: str = "add", start: str = "0", size: int = 13) -> ingot.Module:
    window = f"size=1x{size} pad=0_0x{padding}"
    return ingot.parse_hlo(f"""HloModule m
f {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] {op}(a, b)
}}
ENTRY main {{
  x = f32[3,{size}] parameter(0)
  start = f32[] constant({start})
  ROOT y = f32[3,{size}] reduce-window(x, start), window={{{window}}}, to_apply=f
}}
""")


@pytest.mark.parametrize(
    ("padding", "op", "start"),
    [
        ("12_0", "add", "0"),
        ("0_12", "add", "0"),
        ("12_0", "maximum", "-inf"),
        ("0_12", "multiply", "1"),
    ],
)
def test_scans_take_few_steps_and_keep_their_meaning(padding: str, op: str, start: str):
    module = scan(padding, op=op, start=start)
    x = np.random.default_rng(0).standard_normal((3, 13)).astype(np.float32)
    (expected,) = np.atleast_1d([evaluate(module, [x])])
    assert ScanExpander().run(module, PassContext())
    opcodes = [instruction.opcode for instruction in module.entry.post_order()]
    assert opcodes.count(op) == 4
    assert "reduce-window" not in opcodes
    np.testing.assert_allclose(np.asarray(evaluate(module, [x])), expected, 1e-5)
    np.testing.assert_allclose(ingot.compile(module)(x), expected, 1e-5)


@pytest.mark.parametrize(
    ("padding", "start", "size"),
    [("6_6", "0", 13), ("12_0", "1", 13), ("3_0", "0", 4)],
    ids=["centred", "start is no identity", "short"],
)
def test_other_windows_stay(padding: str, start: str, size: int):
    assert not ScanExpander().run(scan(padding, start=start, size=size), PassContext())


def test_long_scans_are_no_kernel_of_exponential_size():
    executable = ingot.compile(scan("511_0", size=512))
    assert 2 <= len(executable.kernels) <= 9
    assert max(len(kernel.opcodes) for kernel in executable.kernels) < 40
    x = np.random.default_rng(0).random((3, 512), np.float32)
    np.testing.assert_allclose(executable(x), np.cumsum(x, axis=1), 1e-4)
