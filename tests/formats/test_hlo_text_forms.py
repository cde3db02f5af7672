# SPDX-License-Identifier: Apache-2.0
"""Forms of HLO text that people write and XLA's parser takes, besides those that XLA prints.

Each is held against real XLA: the module that Ingot reads prints as text that XLA reads as the same
program as the text itself.
"""

import re

import numpy as np
import pytest
from tests.support import real_xla

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import ParseError

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
X = "x = f32[2,3] parameter(0)\n"

FORMS = {
    "an instruction as an operand": (
        "ROOT y = f32[2,3] add(x, f32[2,3] broadcast(f32[] constant(1)))"
    ),
    "instructions inside instructions": "ROOT y = f32[2,3] negate(f32[2,3] abs(f32[2,3] sine(x)))",
    "a shape without an operand": "ROOT y = f32[2,3] add(f32[2,3] x, f32[], f32[2,3] x)",
    "an operand without its shape": "ROOT y = f32[2,3] add(abs(x), negate(x))",
    "a broadcast of a scalar": "c = f32[] constant(2)\n ROOT y = f32[2,3] broadcast(c)",
    "blanks before a layout": "ROOT y = f32[2,3] {1, 0} abs(x)",
    "a number for an array": "c = f32[2,3] constant(7)\n ROOT y = f32[2,3] add(x, c)",
    "no commas": "c = s32[2] constant({1 2})\n ROOT y = (s32[2], f32[2,3]) tuple(c, x)",
    "a negative u64": "c = u64[] constant(-1)\n ROOT y = (u64[], f32[2,3]) tuple(c, x)",
    "a map without dimensions": (
        "ROOT y = f32[2,3] map(x), to_apply={ e = f32[] parameter(0) ROOT n = f32[] negate(e) }"
    ),
    "a computation in place of its name": (
        "z = f32[] constant(0)\n ROOT y = f32[2] reduce(x, z), dimensions={1}, to_apply={\n"
        " a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}"
    ),
    "a window of no dimensions": (
        "z = f32[] constant(0)\n o = f32[] constant(1)\n"
        " w = f32[] reduce-window(o, z), to_apply=add\n"
        " ROOT y = (f32[], f32[2,3]) tuple(w, x)"
    ),
}


def text_of(body: str) -> str:
    return f"HloModule m\n{ADD}\nENTRY e {{\n{X} {body}\n}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS.keys())
def test_what_xla_reads_is_read_as_the_same_program(body: str):
    text = text_of(body)
    module = parse(text)
    verify(module)
    values = [np.arange(6, dtype=np.float32).reshape(2, 3)]
    want = real_xla.run_hlo_text(text, values)
    result = evaluate(module, values)
    found = list(result) if isinstance(result, tuple) else [result]
    again = real_xla.run_hlo_text(print_module(module), values)
    for mine, printed, theirs in zip(found, again, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        np.testing.assert_array_equal(printed, theirs)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("ROOT y = f32[1,2] dynamic-slice(x, i), dynamic_slice_sizes={1,2}", [[4, 5]]),
        (
            "u = f32[1,2] constant({{8, 9}})\n ROOT y = f32[2,3] dynamic-update-slice(x, u, i)",
            [[0, 1, 2], [3, 8, 9]],
        ),
    ],
)
def test_one_vector_of_indices_is_taken_apart(body: str, want: list[list[int]]):
    text = text_of(f"i = s32[2] constant({{1, 2}})\n {body}")
    assert real_xla.canonical_text(text)
    module = parse(text)
    verify(module)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.asarray(evaluate(module, [value])).tolist() == want
    assert np.asarray(ingot.compile(module)(value)).tolist() == want
    assert real_xla.canonical_text(print_module(module))
    proto = real_xla.parse(text).as_serialized_hlo_module_proto()
    assert np.asarray(evaluate(ingot.load(proto), [value])).tolist() == want


def test_nested_instructions_take_no_attributes():
    with pytest.raises(ParseError, match="dimensions"):
        parse(text_of("ROOT y = f32[3,2] negate(f32[3,2] transpose(x), dimensions={1,0})"))


def test_nested_instructions_do_not_take_names_away():
    text = text_of(
        "y = f32[2,3] negate(abs(x))\n abs = f32[2,3] sine(x)\n ROOT r = f32[2,3] add(y, abs)"
    )
    module = parse(text)
    assert sorted(i.opcode for i in module.entry.instructions) == [
        "abs", "add", "negate", "parameter", "sine",
    ]  # fmt: skip
    assert len({i.name for i in module.entry.instructions}) == 5


@pytest.mark.parametrize("opening", ["negate(", "map(x), to_apply={ ROOT y = f32[2,3] "])
def test_nesting_without_end_is_an_error(opening: str):
    with pytest.raises(ParseError):
        parse(text_of("ROOT y = f32[2,3] " + opening * 100_000))


def test_a_header_and_entry_with_comments_and_colons():
    module = parse(
        "HloModule m: ENTRY /*why*/ e (x f32[2]) -> f32[2] { ROOT x = f32[2] parameter(0) }"
    )
    assert module.entry.name == "e"


def test_parameters_in_a_signature_are_not_held_against_the_instructions():
    text = "HloModule m ENTRY e () -> f32[2] { ROOT x = f32[2] parameter(0) }"
    assert real_xla.canonical_text(text)
    assert len(parse(text).entry.parameters) == 1


def test_an_alias_may_join_shapes_of_one_size():
    text = (
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n"
        "ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[6] reshape(x) }"
    )
    result = ingot.compile(parse(text))(np.ones((2, 3), np.float32))
    assert np.asarray(result).tolist() == [1.0] * 6


def test_a_left_out_constant_is_made_up_with_a_warning():
    text = "HloModule m ENTRY e { ROOT c = s32[3] constant({...}) }"
    with pytest.warns(UserWarning, match="INGOT0107"):
        module = parse(text)
    theirs = re.search(r"constant\((.*?)\)", real_xla.canonical_text(text))
    assert theirs is not None
    assert module.entry.root.attributes.literal.value.dtype == np.int32


@pytest.mark.parametrize("element", ["pred", "s4", "bf16", "f64", "c64", "u8"])
def test_any_type_can_be_made_up(element: str):
    with pytest.warns(UserWarning, match="INGOT0107"):
        module = parse(f"HloModule m ENTRY e {{ ROOT c = {element}[5] constant({{...}}) }}")
    assert module.entry.root.attributes.literal.value.shape == (5,)
    verify(module)


def test_a_custom_call_keeps_its_window():
    text = (
        "HloModule m ENTRY e { x = f32[1,5,5,2] parameter(0) k = f32[3,3,2,4] parameter(1)\n"
        ' ROOT y = f32[1,3,3,4] custom-call(x, k), custom_call_target="conv", window={size=3x3}, '
        "dim_labels=b01f_01io->b01f, feature_group_count=1 }"
    )
    printed = print_module(parse(text))
    assert "window={size=3x3}, dim_labels=b01f_01io->b01f" in printed
    assert "window={size=3x3}" in real_xla.canonical_text(printed)
    assert print_module(parse(printed)) == printed


def test_a_custom_call_may_name_what_it_applies():
    text = (
        f"HloModule m\n{ADD}\nENTRY e {{ x = f32[] parameter(0)\n"
        ' ROOT y = f32[] custom-call(x), custom_call_target="f", to_apply=add }'
    )
    (called,) = parse(text).entry.root.called_computations
    assert called.name == "add"


def test_rows_without_elements_are_left_out_if_they_are_many():
    text = "HloModule m ENTRY e { ROOT c = f32[1048576,1048576,0] constant({...}) }"
    module = parse(text)
    assert "f32[1048576,1048576,0]{2,1,0} constant({...})" in print_module(module)
    few = print_module(parse("HloModule m ENTRY e { ROOT c = f32[2,0] constant({ {}, {} }) }"))
    assert "constant({ {}, {} })" in few
