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

# Each compiles 5,000 in a few seconds; of the others every level is a kernel or a loop of its own.
QUICK = (
    "elementwise", "adds", "selects", "tuple_chain", "calls", "fusions", "maps", "combiners",
    "async_chain", "reverses",
)  # fmt: skip
NESTS = ("calls", "fusions", "maps", "combiners", "whiles", "counted_loops", "ifs", "asyncs")
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
@pytest.mark.parametrize("name", QUICK)
def test_deep_programs_compile(name):
    ingot.compile(ingot.parse_hlo(PROGRAMS[name](DEEP)))


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
    end = "stablehlo.return %x : tensor<4xf32>"
    inner = end
    for number in range(depth):
        inner = (
            f'%a{number} = "stablehlo.if"(%p) ({{ {inner} }}, {{ {end} }}) : '
            f"(tensor<i1>) -> tensor<4xf32> stablehlo.return %a{number} : tensor<4xf32>"
        )
    inner = inner.rpartition("stablehlo.return")[0] + f"return %a{depth - 1} : tensor<4xf32>"
    arguments = "%p: tensor<i1>, %x: tensor<4xf32>"
    return f"func.func @main({arguments}) -> tensor<4xf32> {{ {inner} }}"


def test_regions_of_stablehlo_inside_of_regions():
    module = ingot.parse_stablehlo(_ifs_inside_of_ifs(240))
    assert len(module.computations) > 480


@pytest.mark.parametrize("depth", [600, 3000])
def test_regions_of_stablehlo_inside_of_regions_have_a_limit(depth):
    with pytest.raises(IngotError, match="INGOT0109"):
        ingot.parse_stablehlo(_ifs_inside_of_ifs(depth))
