# SPDX-License-Identifier: Apache-2.0
"""Products of bytes are exact in every target's words, at the ends of their range and of rows."""

import numpy as np
import pytest

import ingot
from ingot.client import compile
from ingot.llvm.target import TargetSpec, host_levels
from ingot.support.records import replace

NUMPY = {"s8": np.int8, "u8": np.uint8}
SIGNS = [(a, b) for a in NUMPY for b in NUMPY]
INSTRUCTIONS = {"avx512vnni", "avxvnni"}


def _without_words(target):
    features = target.features.split(",")
    return replace(
        target, features=",".join(name for name in features if name[1:] not in INSTRUCTIONS)
    )


TARGETS = {
    f"{level}{suffix}": change(TargetSpec.host(level))
    for level in host_levels()
    if level != "plain"
    for suffix, change in (("", lambda target: target), ("-without", _without_words))
}
SIZES = [
    # m, n, k, lhs is [k, m], rhs is [n, k]
    (13, 33, 31, False, False),
    (20, 40, 17, True, False),
    (3, 70, 129, False, True),
    (7, 5, 255, False, True),
    (16, 19, 601, False, True),
    (29, 100, 5, True, True),
    (65, 130, 4099, False, True),
    (17, 3, 2, False, False),
    (1, 48, 64, False, False),
    (33, 1, 67, False, True),
    (2, 2, 1, True, False),
    (3, 2, 8, False, False),
    (9, 6, 7, False, False),
    (5, 7, 0, False, False),
    (0, 7, 8, False, True),
]


def _program(signs, sizes, rest="ROOT r = s32[{m},{n}] convert(z)"):
    m, n, k, left, right = sizes
    lhs, rhs = (f"{k},{m}" if left else f"{m},{k}"), (f"{n},{k}" if right else f"{k},{n}")
    return ingot.parse_hlo(f"""\
HloModule product

ENTRY main {{
  x = {signs[0]}[{lhs}] parameter(0)
  y = {signs[1]}[{rhs}] parameter(1)
  z = s32[{m},{n}] dot(x, y), lhs_contracting_dims={{{1 - left}}}, \
rhs_contracting_dims={{{right:d}}}
  {rest.format(m=m, n=n)}
}}
""")


def _bytes(generator, name, shape, fill=None):
    limits = np.iinfo(NUMPY[name])
    if fill is not None:
        return np.full(shape, {"least": limits.min, "most": limits.max}[fill], NUMPY[name])
    found = generator.integers(limits.min, limits.max, shape, NUMPY[name], endpoint=True)
    found.flat[:5] = limits.min
    return found


def _operands(generator, signs, sizes, fills=(None, None)):
    m, n, k, left, right = sizes
    lhs, rhs = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))
    return _bytes(generator, signs[0], lhs, fills[0]), _bytes(generator, signs[1], rhs, fills[1])


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("signs", SIGNS, ids="_".join)
def test_products_are_those_of_the_evaluator(signs, target, generator):
    for sizes in SIZES:
        program = _program(signs, sizes)
        arrays = _operands(generator, signs, sizes)
        found = compile(program, target=target)(*arrays)
        np.testing.assert_array_equal(found, ingot.evaluate(program, *arrays), str(sizes))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("signs", SIGNS, ids="_".join)
def test_sums_wrap_around(signs, target, generator):
    # 140001 products of -128 or 255 with itself are more than an s32 holds.
    for m, right in ((2, True), (12, False), (12, True)):
        sizes = (m, 3, 140_001, False, right)
        executable = compile(_program(signs, sizes), target=target)
        for fills in (("least", "least"), ("most", "most"), ("least", "most")):
            x, y = _operands(generator, signs, sizes, fills)
            expected = np.int64(x.flat[0]) * np.int64(y.flat[0]) * 140_001
            np.testing.assert_array_equal(executable(x, y), expected.astype(np.int32))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_epilogues_take_the_sums(target, generator):
    rest = """f = f32[{m},{n}] convert(z)
  scales = f32[{n}] parameter(2)
  scale = f32[{m},{n}] broadcast(scales), dimensions={{1}}
  scaled = f32[{m},{n}] multiply(f, scale)
  nothing = f32[] constant(0)
  zeros = f32[{m},{n}] broadcast(nothing), dimensions={{}}
  ROOT r = f32[{m},{n}] maximum(scaled, zeros)"""
    for sizes in ((37, 45, 99, False, True), (4, 45, 99, False, True), (11, 64, 5000, True, False)):
        program = _program(("s8", "s8"), sizes, rest)
        scales = generator.uniform(-1, 1, sizes[1]).astype(np.float32)
        arrays = (*_operands(generator, ("s8", "s8"), sizes), scales)
        found = compile(program, target=target)(*arrays)
        np.testing.assert_array_equal(found, ingot.evaluate(program, *arrays), str(sizes))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("right", [False, True])
def test_rows_may_be_symbolic(right, target, generator):
    executable = compile(_program(("s8", "u8"), ("?m", 33, 70, False, right)), target=target)
    for m in (0, 1, 5, 40):
        x, y = _operands(generator, ("s8", "u8"), (m, 33, 70, False, right))
        expected = x.astype(np.int32) @ (y.T if right else y).astype(np.int32)
        np.testing.assert_array_equal(executable(x, y), expected)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_matrices_of_a_batch_are_multiplied_in_turn(target, generator):
    for m, right in ((5, True), (19, False)):
        rhs = "3,21,70" if right else "3,70,21"
        program = ingot.parse_hlo(f"""\
HloModule batch

ENTRY main {{
  x = s8[3,{m},70] parameter(0)
  y = s8[{rhs}] parameter(1)
  ROOT z = s32[3,{m},21] dot(x, y), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, \
rhs_batch_dims={{0}}, rhs_contracting_dims={{{1 + right}}}
}}
""")
        arrays = [
            _bytes(generator, "s8", shape)
            for shape in ((3, m, 70), tuple(map(int, rhs.split(","))))
        ]
        found = compile(program, target=target)(*arrays)
        np.testing.assert_array_equal(found, ingot.evaluate(program, *arrays))


@pytest.mark.parametrize("signs", SIGNS, ids="_".join)
def test_code_multiplies_four_bytes_at_a_time_where_the_target_can(signs):
    for name, target in TARGETS.items():
        for sizes in ((40, 40, 64, False, False), (8, 40, 256, False, True)):
            executable = compile(_program(signs, sizes), target=target)
            shared = [
                part.name
                for kernel in executable.inspection.compiled.kernels.compiled.values()
                for part in kernel.shared
            ]
            has_words = any("words4" in part for part in shared)
            assert has_words == target.has_byte_quads, (name, shared)
