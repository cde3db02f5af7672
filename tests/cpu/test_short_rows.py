# SPDX-License-Identifier: Apache-2.0
"""Short rows are laid end to end: any length, rows left over, what is read near or far apart."""

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.dtype import dtype
from ingot.llvm.target import TargetSpec, host_levels

PROGRAMS = {
    "columns": ("[K,R]", "z = T[R,K] transpose(x), dimensions={1,0}", lambda x, k: x.T),
    "of planes": (
        "[3,K,R]", "z = T[3,R,K] transpose(x), dimensions={0,2,1}",
        lambda x, k: x.transpose(0, 2, 1),
    ),
    "repeated": (
        "[R]", "z = T[R,K] broadcast(x), dimensions={0}",
        lambda x, k: np.repeat(x[:, None], k, 1),
    ),
    "backwards": ("[R,K]", "z = T[R,K] reverse(x), dimensions={1}", lambda x, k: x[:, ::-1]),
    "rows backwards": ("[R,K]", "z = T[R,K] reverse(x), dimensions={0}", lambda x, k: x[::-1]),
    "beside each other": (
        "[R]",
        "a = T[R,1] reshape(x)\n  b = T[R,1] negate(a)\n"
        "  z = T[R,2] concatenate(a, b), dimensions={1}",
        lambda x, k: np.stack([x, -x], 1),
    ),
}  # fmt: skip


def check(name, element, length, rows, level):
    shape, body, meaning = PROGRAMS[name]
    dims = [{"K": length, "R": rows, "3": 3}[word] for word in shape[1:-1].split(",")]
    text = f"HloModule m\nENTRY e {{\n  x = T{shape} parameter(0)\n  {body}\n"
    text += "  ROOT y = T[SAME] negate(z)\n}"
    wanted_of = np.arange(np.prod(dims)).reshape(dims) % 100
    x = wanted_of.astype(dtype(element).numpy)
    wanted = -meaning(x, length)
    text = text.replace("SAME", ",".join(map(str, wanted.shape)))
    for word, number in (("K", length), ("R", rows)):
        text = text.replace(f"[{word}", f"[{number}").replace(f",{word}", f",{number}")
    module = ingot.parse_hlo(text.replace("T[", f"{element}["))
    found = ingot.compile(module, target=TargetSpec.host(level))(x)
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "s8"])
@pytest.mark.parametrize("length", [2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_end_to_end(name, length, element, level):
    check(name, element, length, 211, level)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_three(name):
    check(name, "f32", 3, 1000, host_levels()[0])


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("rows", [1, 15, 16, 37, 211])
@pytest.mark.parametrize("length", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("element", ["f32", "u8", "bf16", "c64"])
def test_stacked_rows(element, length, rows, level):
    """`stack(axis=-1)` of arrays, each changed before; where a sum has rows, too."""
    names = [f"p{number}" for number in range(length)]
    lines = [f"{name} = T[R] parameter({number})" for number, name in enumerate(names)]
    lines += [f"n{name} = T[R] add({name}, {names[0]})" for name in names]
    lines += [f"r{name} = T[R,1] reshape(n{name})" for name in names]
    joined = ", ".join(f"r{name}" for name in names)
    lines += [f"s = T[R,K] concatenate({joined}), dimensions={{1}}"]
    lines += [f"b = T[R,K] parameter({length})", "ROOT y = T[R,K] add(s, b)"]
    body = "\n  ".join(lines).replace("T[", f"{element}[").replace("R", str(rows))
    body = body.replace(f"{rows}OOT", "ROOT").replace("K", str(length))
    random = np.random.default_rng(0)
    kind = dtype(element).numpy
    arrays = [random.integers(0, 9, rows).astype(kind) for _ in names]
    more = random.integers(0, 9, (rows, length)).astype(kind)
    found = ingot.compile(f"HloModule m\nENTRY e {{\n  {body}\n}}", target=TargetSpec.host(level))
    wanted = np.stack([array + arrays[0] for array in arrays], -1) + more
    np.testing.assert_array_equal(np.asarray(found(*arrays, more)), wanted)


@pytest.mark.parametrize("padding", ["0_0_1x0_0_1", "2_1_2x1_0_1", "0_0_2x0_0_3", "0_0_0x-1_0_1"])
@pytest.mark.parametrize("element", ["f32", "f64", "u8", "bf16"])
def test_padding_between_elements(element, padding):
    x = np.arange(1, 1 + 40 * 70).reshape(40, 70).astype(dtype(element).numpy)
    sizes, places = [], []
    for size, one in zip(x.shape, padding.split("x"), strict=True):
        low, high, inside = map(int, one.split("_"))
        sizes.append(low + high + size + (size - 1) * inside)
        places.append(low + np.arange(size) * (inside + 1))
    wanted = np.zeros(sizes, x.dtype)
    kept = [(at >= 0) & (at < limit) for at, limit in zip(places, sizes, strict=True)]
    wanted[np.ix_(places[0][kept[0]], places[1][kept[1]])] = x[np.ix_(*kept)]
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  x = {element}[40,70] parameter(0)
  zero = {element}[] constant(0)
  ROOT y = {element}[{sizes[0]},{sizes[1]}] pad(x, zero), padding={padding}
}}""")
    np.testing.assert_array_equal(np.asarray(ingot.compile(module)(x)), wanted)


FUNCTIONS = {
    "exponential": "f = T[R,K] exponential(z)",
    "atan2": "f = T[R,K] atan2(z, x)",
    "power": "f = T[R,K] power(z, x)",
    "remainder": "f = T[R,K] remainder(z, x)",
    "sine and cosine": "s = T[R,K] sine(z)\n  c = T[R,K] cosine(z)\n  f = T[R,K] divide(s, c)",
}


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("length", [3, 5, 6, 7])
def test_functions_of_rows_backwards(length, function, level):
    """A row of an odd length makes lanes that are no power of two: calls take them in parts."""
    for element, tolerance in (("f32", 1e-5), ("f64", 1e-13), ("bf16", 2e-2), ("f16", 2e-3)):
        text = f"""HloModule m
ENTRY e {{
  x = T[R,K] parameter(0)
  z = T[R,K] reverse(x), dimensions={{1}}
  {FUNCTIONS[function]}
  ROOT y = T[R,K] negate(f)
}}""".replace("T[R,K]", f"{element}[67,{length}]")
        module = ingot.parse_hlo(text)
        draw = np.random.default_rng(length).uniform(0.5, 2, (67, length))
        x = draw.astype(dtype(element).numpy)
        wanted = np.asarray(evaluate(ingot.parse_hlo(text), [x])).astype(np.float64)
        found = np.asarray(ingot.compile(module, target=TargetSpec.host(level))(x))
        np.testing.assert_allclose(
            found.astype(np.float64).reshape(wanted.shape), wanted, rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("length", [2, 3, 5, 8])
def test_rows_that_meet_one_at_a_run_time_index(length, element, level):
    sizes = f"dynamic_slice_sizes={{1,{length}}}"
    module = ingot.parse_hlo(f"""HloModule m
ENTRY e {{
  amounts = {element}[211] parameter(0)
  colours = {element}[7,{length}] parameter(1)
  number = s32[] parameter(2)
  zero = s32[] constant(0)
  colour = {element}[1,{length}] dynamic-slice(colours, number, zero), {sizes}
  flat = {element}[{length}] reshape(colour)
  wide = {element}[211,{length}] broadcast(flat), dimensions={{1}}
  each = {element}[211,{length}] broadcast(amounts), dimensions={{0}}
  ROOT r = {element}[211,{length}] multiply(each, wide)
}}""")
    amounts = np.arange(211).astype(dtype(element).numpy)
    colours = (np.arange(7 * length).reshape(7, length) - 9).astype(dtype(element).numpy)
    compiled = ingot.compile(module, target=TargetSpec.host(level))
    for number in (-5, 0, 3, 6, 100):
        row = colours[min(max(number, 0), 6)]
        found = compiled(amounts, colours, np.int32(number))
        np.testing.assert_array_equal(np.asarray(found), amounts[:, None] * row)


@pytest.mark.parametrize("level", host_levels())
@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("rows", [1, 17, 611])
def test_functions_of_rows_that_are_gathered(rows, length, element, level):
    """Indices beyond the rows are clamped; infinities and NaN stay where they are."""
    text = f"""HloModule m
ENTRY e {{
  x = T[{rows},{length}] parameter(0)
  table = T[29,{length}] parameter(1)
  of = s32[{rows},1] parameter(2)
  taken = T[{rows},{length}] gather(table, of), offset_dims={{1}}, collapsed_slice_dims={{0}}, \
start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{length}}}
  less = T[{rows},{length}] subtract(x, taken)
  ROOT y = T[{rows},{length}] exponential(less)
}}""".replace("T[", f"{element}[")
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, length)).astype(dtype(element).numpy)
    table = random.standard_normal((29, length)).astype(x.dtype)
    table[3, 0], table[5, 1], table[28] = np.inf, -np.inf, np.nan
    of = random.integers(-5, 35, (rows, 1)).astype(np.int32)
    module = ingot.parse_hlo(text)
    found = np.asarray(ingot.compile(module, target=TargetSpec.host(level))(x, table, of))
    wanted = np.exp((x - table[np.clip(of[:, 0], 0, 28)]).astype(np.float64))
    tolerance = {"f32": 1e-6, "f64": 1e-14, "bf16": 2e-2}[element]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance)
