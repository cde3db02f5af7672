# SPDX-License-Identifier: Apache-2.0
"""What a program nests or chains may be as deep as its author likes: no stack ends.

Every construct is parsed, printed, evaluated and compiled; nothing is compared here but that deep
programs still give what the evaluator says.
"""

import numpy as np
import pytest
from tests.support.deep_programs import PROGRAMS

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_text import print_module
from ingot.hlo.shape import MAX_NESTING, Shape, scalar
from ingot.support.diagnostics import IngotError

DEEP = 5000

# Kernels or nothing come of 5,000 of each; loops and branches that stay are the next.
FLAT = (
    "elementwise", "adds", "selects", "tuple_chain", "calls", "returning_calls", "fusions", "maps",
    "combiners", "comparators", "asyncs", "async_chain", "known_ifs", "reverses", "concatenates",
    "pads_and_slices", "transposes", "reshapes", "gathers", "dots", "control_edges",
)  # fmt: skip
NESTS = (
    "calls", "fusions", "maps", "combiners", "reducers", "comparators", "whiles", "counted_loops",
    "ifs", "asyncs",
)  # fmt: skip
RUN = [name for name in PROGRAMS if name != "doubling_calls"]


def _arguments(module):
    return [
        np.zeros(
            [size if isinstance(size, int) else 4 for size in p.shape.dims], p.shape.dtype.numpy
        )
        for p in module.entry.parameters
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NESTS, "elementwise", "pads", "switch", "long_combiner"])
def test_deep_programs_are_read_written_and_evaluated(name):
    module = ingot.parse_hlo(PROGRAMS[name](DEEP))
    assert len(print_module(module)) > DEEP
    evaluate(module, _arguments(module))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elementwise", "calls", "switch"])
def test_deep_programs_go_through_protos(name):
    module = ingot.parse_hlo(PROGRAMS[name](DEEP))
    found = parse_hlo_proto(print_hlo_proto(module))
    assert found.instruction_count == module.instruction_count


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAT)
def test_deep_programs_compile_and_run(name):
    module = ingot.parse_hlo(PROGRAMS[name](DEEP))
    arguments = _arguments(module)
    found = ingot.compile(module, is_final=True)(*arguments)
    want = evaluate(module, arguments)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counted_loops", "ifs", "switch"])
def test_loops_and_branches_inside_of_each_other_compile_and_run(name):
    module = ingot.parse_hlo(PROGRAMS[name](DEEP))
    state = [np.ones(4, np.float32), np.ones((), module.entry.parameters[1].shape.dtype.numpy)]
    found = ingot.compile(module, is_final=True)(*state)
    np.testing.assert_allclose(np.asarray(found), evaluate(module, state), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_nested_programs_give_what_the_evaluator_says(name):
    module = ingot.parse_hlo(PROGRAMS[name](60))
    arguments = _arguments(module)
    want = evaluate(module, arguments)
    found = ingot.compile(module)(*arguments)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4, atol=1e-5)


def test_tuples_inside_of_tuples_have_a_limit():
    shape = scalar("f32")
    for _ in range(MAX_NESTING):
        shape = Shape.tuple((shape,))
    assert len(shape.leaves()) == 1
    with pytest.raises(IngotError, match="INGOT0109"):
        Shape.tuple((shape,))


def test_tuples_that_hold_one_another_twice_have_a_limit():
    shape = scalar("f32")
    for _ in range(20):
        shape = Shape.tuple((shape, shape))
    with pytest.raises(IngotError, match="INGOT0109"):
        Shape.tuple((shape, shape))


def test_sizes_inside_of_sizes_have_a_limit():
    lines = ["v0 = f32[?n] parameter(0)"]
    size = "n"
    for number in range(1, 200):
        size = f"floordiv({size}+1,2)"
        lines.append(f"v{number} = f32[?({size})] slice(v{number - 1}), slice={{[0:1:2]}}")
    with pytest.raises(IngotError, match="INGOT0109"):
        ingot.parse_hlo("HloModule m ENTRY e {\n" + "\n".join(lines) + "\nROOT r = copy(v199) }")


def _ifs_inside_of_ifs(depth: int) -> str:
    other = "{ stablehlo.return %x : tensor<4xf32> }"
    begin = "".join(f'%a{n} = "stablehlo.if"(%p) ({{ ' for n in range(depth))
    innermost = "%s = stablehlo.negate %x : tensor<4xf32> stablehlo.return %s : tensor<4xf32>"
    ends: list[str] = []
    for n in reversed(range(depth)):
        end = "stablehlo.return" if n else "return"
        ends.append(f" }}, {other}) : (tensor<i1>) -> tensor<4xf32> {end} %a{n} : tensor<4xf32>")
    arguments = "%p: tensor<i1>, %x: tensor<4xf32>"
    body = begin + innermost + "".join(ends)
    return f"func.func @main({arguments}) -> tensor<4xf32> {{ {body} }}"


def _functions_that_call(depth: int) -> str:
    kind = "(%x: tensor<4xf32>) -> tensor<4xf32>"
    call = "(tensor<4xf32>) -> tensor<4xf32>"
    lines = [
        f"func.func @{'main' if not n else f'f{n}'}{kind} {{ "
        f"%y = func.call @f{n + 1}(%x) : {call} return %y : tensor<4xf32> }}"
        for n in range(depth)
    ]
    last = f"func.func @f{depth}{kind} {{ return %x : tensor<4xf32> }}"
    return "\n".join([*lines, last])


_NEGATED = np.array([0, -1, -2, -3], np.float32)


@pytest.mark.slow
def test_regions_of_stablehlo_inside_of_regions():
    module = ingot.parse_stablehlo(_ifs_inside_of_ifs(DEEP))
    assert len(module.computations) > 2 * DEEP
    np.testing.assert_array_equal(evaluate(module, [np.True_, -_NEGATED]), _NEGATED)


@pytest.mark.slow
def test_functions_of_stablehlo_that_call_functions():
    module = ingot.parse_stablehlo(_functions_that_call(DEEP))
    assert len(module.computations) > DEEP
    np.testing.assert_array_equal(evaluate(module, [_NEGATED]), _NEGATED)


@pytest.mark.parametrize("text", [_ifs_inside_of_ifs(10_500), _functions_that_call(10_500)])
def test_regions_of_stablehlo_inside_of_regions_have_a_limit(text):
    with pytest.raises(IngotError, match="INGOT0109"):
        ingot.parse_stablehlo(text)


@pytest.mark.parametrize(
    "level",
    [
        ("tuple<", ">"),
        ("[", "]"),
        ('("])>", ', ")"),
        ("{ // }\n", "}"),
        ("<() -> ", ">"),
    ],
)
def test_text_that_is_too_deep_for_mlir_is_refused_however_it_nests(level):
    opening, closing = level
    text = opening * 20_001 + "x" + closing * 20_001
    with pytest.raises(IngotError, match="INGOT0109"):
        ingot.parse_stablehlo(text)


@pytest.mark.parametrize("depth", [900, 6000])
def test_deep_types_are_read_or_refused_by_mlir_itself(depth):
    shape = "tuple<" * depth + "tensor<f32>" + ">" * depth
    text = f"func.func @main(%x: {shape}) -> tensor<f32> {{ return %x : {shape} }}"
    with pytest.raises(IngotError, match="INGOT0120"):
        ingot.parse_stablehlo(text)


def _sizes_of_sizes(depth: int, op: str) -> str:
    """Return a program that broadcasts to a size which a chain of integer operations gives."""
    one, size = "tensor<i32>", "tensor<1xi32>"
    lines = [
        f'%s0 = "stablehlo.get_dimension_size"(%x) {{dimension = 0 : i64}} : '
        f"(tensor<?xf32>) -> {one}",
        f"%zero = stablehlo.constant dense<0> : {one}",
    ]
    lines += [f"%s{n} = {op.replace('@', f'%s{n - 1}')} : {one}" for n in range(1, depth + 1)]
    lines += [
        f"%v = stablehlo.reshape %s{depth} : ({one}) -> {size}",
        "%r = stablehlo.dynamic_broadcast_in_dim %x, %v, dims = [0] : "
        f"(tensor<?xf32>, {size}) -> tensor<?xf32>",
        "return %r : tensor<?xf32>",
    ]
    body = "\n".join(lines)
    return f"func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{\n{body}\n}}"


@pytest.mark.parametrize("op", ["stablehlo.add @, %zero", "stablehlo.maximum @, @"])
def test_sizes_that_come_from_long_chains(op):
    module = ingot.parse_stablehlo(_sizes_of_sizes(DEEP, op))
    assert module.result_shape == module.parameter_shapes[0]
