# SPDX-License-Identifier: Apache-2.0
"""Rows that are folded together give what each gives alone: any length and fold, rows left over."""

import numpy as np
import pytest

import ingot
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec, host_levels

FOLDS = {
    "add": ("0", np.sum), "maximum": ("-inf", np.max), "minimum": ("inf", np.min),
    "multiply": ("1", np.prod),
}  # fmt: skip


def program(rows, length, opcode, element):
    return ingot.parse_hlo(f"""\
HloModule rows

fold {{
  a = {element}[] parameter(0)
  b = {element}[] parameter(1)
  ROOT r = {element}[] {opcode}(a, b)
}}

ENTRY main {{
  x = {element}[{rows},{length}] parameter(0)
  w = {element}[{rows}] parameter(1)
  y = {element}[{rows},{length}] abs(x)
  start = {element}[] constant({FOLDS[opcode][0]})
  folded = {element}[{rows}] reduce(y, start), dimensions={{1}}, to_apply=fold
  ROOT scaled = {element}[{rows}] multiply(folded, w)
}}
""")


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("opcode", FOLDS)
@pytest.mark.parametrize(("rows", "length"), [(7001, 7), (2003, 33), (512, 64), (401, 300)])
def test_folds_of_rows(rows, length, opcode, level, generator):
    x = generator.uniform(0.9, 1.1, (rows, length)).astype(np.float32)
    w = generator.random(rows, np.float32)
    module = program(rows, length, opcode, "f32")
    found = ingot.compile(module, target=TargetSpec.host(level))(x, w)
    np.testing.assert_allclose(found, FOLDS[opcode][1](np.abs(x), axis=1) * w, rtol=1e-5)


@pytest.mark.parametrize("name", ["f64", "bf16", "f16"])
def test_extremes_of_other_floats(name, generator):
    for opcode, worst in (("maximum", np.nan), ("minimum", -np.nan)):
        x = generator.uniform(0.5, 2, (3001, 21))
        x[::7, 3] = worst
        x[5::11, 20] = np.inf
        executable = ingot.compile(program(3001, 21, opcode, name))
        inputs = [np.asarray(v).astype(dtype(name).numpy) for v in (x, np.ones(3001))]
        found = np.asarray(executable(*inputs)).astype(np.float64)
        wanted = FOLDS[opcode][1](inputs[0].astype(np.float64), axis=1)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize(
    ("rows", "length"), [(65, 17), (740, 28), (131, 300), (3001, 8), (4099, 5)]
)
def test_expensive_ends_of_few_rows(rows, length, level, generator):
    """Ends of rows run in lanes however few elements are folded, NaN and infinities too."""
    x = generator.normal(0, 1, (rows, length)).astype(np.float32)
    x[1, 0], x[2, 1], x[3, :2] = np.nan, np.inf, (np.inf, -np.inf)
    module = ingot.parse_hlo(f"""\
HloModule ends

fold {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}

ENTRY main {{
  x = f32[{rows},{length}] parameter(0)
  start = f32[] constant(0)
  folded = f32[{rows}] reduce(x, start), dimensions={{1}}, to_apply=fold
  ROOT end = f32[{rows}] exponential(folded)
}}
""")
    executable = ingot.compile(module, target=TargetSpec.host(level))
    (kernel,) = executable.kernels
    assert kernel.strategy in ("joined rows", "transposed rows")
    with np.errstate(all="ignore"):
        wanted = np.exp(x.astype(np.float64).sum(1)).astype(np.float32)
    np.testing.assert_allclose(executable(x), wanted, rtol=2e-5)
