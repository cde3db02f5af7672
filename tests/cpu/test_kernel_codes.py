# SPDX-License-Identifier: Apache-2.0
"""Kernels of a program that differ in sizes alone share a function, with the same bits."""

import numpy as np
import pytest

import ingot
from ingot.client import clear_caches
from ingot.cpu import kernels
from ingot.llvm.target import TargetSpec, host_levels

HEAD = """\
HloModule layers

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

"""

MAP = """
  c{0} = f32[] constant({3})
  m{0} = f32[{1},{2}] broadcast(c{0}), dimensions={{}}
  y{0} = f32[{1},{2}] multiply(x{0}, m{0})
  z{0} = f32[{1},{2}] exponential(y{0})
"""
ROWS = """
  zero{0} = f32[] constant(0)
  y{0} = f32[{1},{2}] cosine(x{0})
  z{0} = f32[{1}] reduce(y{0}, zero{0}), dimensions={{1}}, to_apply=add
"""
COLUMNS = ROWS.replace("z{0} = f32[{1}]", "z{0} = f32[{2}]").replace("={{1}}", "={{0}}")
EVERYTHING = ROWS.replace("z{0} = f32[{1}]", "z{0} = f32[]").replace("={{1}}", "={{0,1}}")
TURNED = """
  t{0} = f32[{2},{1}] transpose(x{0}), dimensions={{1,0}}
  z{0} = f32[{2},{1}] negate(t{0})
"""
STEPS = """
  y{0} = f32[{4},{2}] slice(x{0}), slice={{[0:{1}:2], [0:{2}]}}
  z{0} = f32[{4},{2}] negate(y{0})
"""

RESULTS = {
    "map": (MAP, "f32[{1},{2}]"),
    "rows": (ROWS, "f32[{1}]"),
    "columns": (COLUMNS, "f32[{2}]"),
    "everything": (EVERYTHING, "f32[]"),
    "turned": (TURNED, "f32[{2},{1}]"),
    "steps": (STEPS, "f32[{4},{2}]"),
}

WHOLE = [(64, 256), (128, 512), (320, 768)]
RAGGED = [(70, 259), (131, 515), (90, 771)]


def program(kind, shapes):
    """Return a module that does the same to an array of each shape."""
    body, result = RESULTS[kind]
    lines, types = [], []
    for place, (rows, columns) in enumerate(shapes):
        words = (place, rows, columns, 0.3 + place, -(-rows // 2))
        lines.append(f"  x{place} = f32[{rows},{columns}] parameter({place})")
        lines.append(body.format(*words))
        types.append(result.format(*words))
    names = ", ".join(f"z{place}" for place in range(len(shapes)))
    root = f"  ROOT out = ({', '.join(types)}) tuple({names})"
    return ingot.parse_hlo(HEAD + "ENTRY main {\n" + "\n".join(lines) + "\n" + root + "\n}\n")


def symbols(executable):
    """Return the distinct functions that kernels of the program's own run."""
    compiled = executable.inspection.compiled.kernels.compiled.values()
    return {phase.symbol for kernel in compiled for phase in kernel.emitted.phases}


@pytest.mark.parametrize("shapes", [WHOLE, RAGGED], ids=["whole", "ragged"])
@pytest.mark.parametrize("kind", RESULTS)
def test_one_function_with_the_same_bits(kind, shapes, monkeypatch, generator):
    inputs = [generator.standard_normal(shape, np.float32) for shape in shapes]
    clear_caches()
    shared = ingot.compile(program(kind, shapes))
    found = shared(*inputs)
    monkeypatch.setattr(
        kernels, "kernel_codes", lambda own: [kernels._own(*i) for i in own.items()]
    )
    clear_caches()
    alone = ingot.compile(program(kind, shapes))
    assert len(symbols(shared)) < len(symbols(alone))
    for one, other in zip(found, alone(*inputs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("level", host_levels())
def test_large_sums_share_both_phases(level, generator):
    shapes = [(512, 4096), (1024, 4096)]
    clear_caches()
    shared = ingot.compile(program("everything", shapes), target=TargetSpec.host(level))
    assert len(symbols(shared)) == 2
    inputs = [generator.standard_normal(shape, np.float32) for shape in shapes]
    for found, x in zip(shared(*inputs), inputs, strict=True):
        np.testing.assert_allclose(found, np.sum(np.cos(x.astype(np.float64))), rtol=1e-5)


def test_a_rest_is_other_code():
    clear_caches()
    assert len(symbols(ingot.compile(program("map", [(64, 256), (63, 251)])))) == 2
