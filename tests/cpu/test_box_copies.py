# SPDX-License-Identifier: Apache-2.0
"""Kernels that only copy and fill are library code that goes through a table of boxes."""

import numpy as np
import pytest
from tests.support.against_evaluator import agrees

import ingot
from ingot.llvm.target import TargetSpec

ELEMENTS = ("pred", "s8", "u16", "bf16", "f16", "f32", "s32", "f64", "u64", "c64", "c128")

PROGRAMS = {
    "side by side": "concatenate(x, y), dimensions={2}",
    "behind one another": "concatenate(x, x), dimensions={0}",
    "padded": "pad(x, zero), padding=1_2x0_3x4_5",
    "cut and padded": "pad(x, zero), padding=-1_1x2_0x-3_7",
    "rows backwards": "reverse(x), dimensions={0,1}",
    "part": "slice(x), slice={[0:2], [1:5:2], [3:{width}]}",
}
"""Each on x = [3,5,width], y = [3,5,90] and a constant."""

RESULTS = {
    "side by side": (3, 5, 90),
    "behind one another": (6, 5, 0),
    "padded": (6, 8, 9),
    "cut and padded": (3, 7, 4),
    "rows backwards": (3, 5, 0),
    "part": (2, 2, -3),
}
"""What their results' sizes are, the last one without the width."""

wide = pytest.mark.skipif(TargetSpec.host().vector_bits < 512, reason="runs end in masked vectors")


def module_of(name, element, width):
    *outer, more = RESULTS[name]
    shape = f"{element}[{outer[0]},{outer[1]},{width + more}]"
    zero = {"pred": "true", "c64": "(1, -2)", "c128": "(3, 3)"}.get(element, "7")
    return ingot.parse_hlo(f"""HloModule moves

ENTRY main {{
  x = {element}[3,5,{width}] parameter(0)
  y = {element}[3,5,90] parameter(1)
  zero = {element}[] constant({zero})
  ROOT out = {shape} {PROGRAMS[name].replace("{width}", str(width))}
}}
""")


def inputs_of(module):
    random = np.random.default_rng(0)
    found = []
    for parameter in module.entry.parameters:
        kind = parameter.shape.dtype.numpy
        count = int(np.prod(parameter.shape.dims)) * kind.itemsize
        if kind == np.bool_:
            data = random.integers(0, 2, count).astype(bool)
        else:
            data = random.integers(0, 256, count, np.uint8).view(kind)
        found.append(data.reshape(parameter.shape.dims))
    return found


def is_shared(executable):
    compiled = executable.inspection.compiled.kernels.compiled.values()
    return [part.name for kernel in compiled for part in kernel.shared] == ["copy_boxes"]


def check(module, level=""):
    return agrees(module, inputs_of(module), exact="bits", level=level).executable


@pytest.mark.slow
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_elements(name, element):
    module = module_of(name, element, 785)
    executable = check(module)
    if TargetSpec.host().vector_bits >= 512:
        assert is_shared(executable)


@pytest.mark.slow
@pytest.mark.parametrize("width", [5, 63, 64, 65, 127, 128, 1023, 1024, 1025, 1090])
@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_of_runs(name, width):
    module = module_of(name, "u8", width)
    check(module)


@pytest.mark.parametrize(
    ("operands", "shape", "body"),
    [
        (("f32[300007]", "f32[100001]"), "f32[700015]", "concatenate(a, b, a), dimensions={0}"),
        (("f32[2,150003]", "f32[2,70001]"), "f32[2,220004]", "concatenate(a, b), dimensions={1}"),
        (("u8[4000,131]", "u8[4000,37]"), "u8[4000,168]", "concatenate(a, b), dimensions={1}"),
        (("s64[900,300]", "s64[]"), "s64[1000,305]", "pad(a, b), padding=50_50x2_3"),
        (
            ("f32[40,6,7,90]", "f32[40,6,7,4]"),
            "f32[40,6,7,94]",
            "concatenate(a, b), dimensions={3}",
        ),
        (("f32[0,90]", "f32[3,90]"), "f32[3,90]", "concatenate(a, b), dimensions={0}"),
        (("f32[1,90]", "f32[1,90]"), "f32[2,90]", "concatenate(a, b), dimensions={0}"),
        (("f32[9,1]", "f32[9,1]"), "f32[9,2]", "concatenate(a, b), dimensions={1}"),
    ],
)
def test_sizes(operands, shape, body):
    """Of many rounds and shares, of one, and of nothing."""
    first, second = operands
    module = ingot.parse_hlo(f"""HloModule moves

ENTRY main {{
  a = {first} parameter(0)
  b = {second} parameter(1)
  ROOT out = {shape} {body}
}}
""")
    check(module)


@wide
@pytest.mark.parametrize(
    ("shape", "body", "shared"),
    [
        ("u8[600,70]", "pad(x, zero), padding=0_0x0_70", True),
        ("u8[600,9]", "pad(x, zero), padding=0_0x0_9", False),
        ("u8[6,9]", "pad(x, zero), padding=0_0x0_9", True),
        ("u8[128]", "reverse(x), dimensions={0}", True),
        ("u8[129]", "reverse(x), dimensions={0}", False),
        ("u8[9,7]", "transpose(x), dimensions={1,0}", True),
    ],
)
def test_many_short_runs_have_code_of_their_own(shape, body, shared):
    module = ingot.parse_hlo(f"""HloModule runs

ENTRY main {{
  x = {shape} parameter(0)
  zero = u8[] constant(3)
  ROOT out = {result_of(shape, body)} {body}
}}
""")
    assert is_shared(check(module, "avx512")) == shared


@wide
def test_a_stack_of_turned_rows_is_boxes():
    """Along a part of one element the index is 0, so what is turned in each is known."""
    module = ingot.parse_hlo("""HloModule stack

ENTRY main {
  x = f32[3,70,130] parameter(0)
  first = f32[1,70,130] slice(x), slice={[0:1], [0:70], [0:130]}
  second = f32[1,70,130] slice(x), slice={[1:2], [0:70], [0:130]}
  third = f32[1,70,130] slice(x), slice={[2:3], [0:70], [0:130]}
  one = f32[70,130] reshape(second)
  two = f32[70,130] reshape(third)
  last = f32[1,130] slice(one), slice={[69:70], [0:130]}
  rest = f32[69,130] slice(one), slice={[0:69], [0:130]}
  down = f32[70,130] concatenate(last, rest), dimensions={0}
  left = f32[70,1] slice(two), slice={[0:70], [0:1]}
  right = f32[70,129] slice(two), slice={[0:70], [1:130]}
  across = f32[70,130] concatenate(right, left), dimensions={1}
  b = f32[1,70,130] reshape(down)
  c = f32[1,70,130] reshape(across)
  ROOT out = f32[3,70,130] concatenate(first, b, c), dimensions={0}
}
""")
    assert is_shared(check(module))


def result_of(shape, body):
    rows, *columns = map(int, shape[3:-1].split(","))
    if "transpose" in body:
        return f"u8[{columns[0]},{rows}]"
    return f"u8[{rows},{2 * columns[0]}]" if columns else shape


@wide
def test_constants_of_different_halves_have_code_of_their_own():
    module = ingot.parse_hlo("""HloModule halves

ENTRY main {
  x = c128[90,50] parameter(0)
  one = c128[] constant((1, 2))
  ROOT out = c128[90,70] pad(x, one), padding=0_0x0_20
}
""")
    assert not is_shared(check(module))
