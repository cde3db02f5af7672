# SPDX-License-Identifier: Apache-2.0
"""What XLA's text says and Ingot only keeps: XLA reads the printed text as the same module.

Buffers, devices as a grid, attributes of TPU and GPU ops, layouts of the entry, and names that the
text leaves out.
"""

import pytest
from tests.support import real_xla

import ingot
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import ParseError, UnsupportedError

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
BUFFERS = """
body {
  s = (s32[], b(f32[2]{0:T(128)})) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  m = b(f32[2]{0:T(128)}) get-tuple-element(s), index=1
  w = b(f32[2]{0:T(128)}) custom-call(m), custom_call_target="Add",
    output_to_operand_aliasing={{}: (0, {})}
  ROOT t = (s32[], b(f32[2]{0:T(128)})) tuple(n, w)
}
condition {
  s = (s32[], b(f32[2]{0:T(128)})) parameter(0)
  ROOT c = pred[] constant(false)
}
ENTRY e {
  x = f32[2]{0:T(128)} parameter(0)
  zero = s32[] constant(0)
  m = b(f32[2]{0:T(128)}) custom-call(x), custom_call_target="Pin",
    output_to_operand_aliasing={{}: (0, {})}
  s = (s32[], b(f32[2]{0:T(128)})) tuple(zero, m)
  t = (s32[], b(f32[2]{0:T(128)})) while(s), condition=condition, body=body
  w = b(f32[2]{0:T(128)}) get-tuple-element(t), index=1
  ROOT y = f32[2]{0:T(128)} custom-call(w), custom_call_target="Unpin",
    output_to_operand_aliasing={{}: (0, {})}
}
"""


def entry(body: str) -> str:
    return f"HloModule m\n{ADD}ENTRY e {{\n x = f32[2,3] parameter(0)\n {body}\n}}\n"


TEXTS = {
    "buffers": f"HloModule m\n{BUFFERS}",
    "a grid of devices": entry(
        "ROOT y = f32[2,3] all-reduce(x), channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0),"
        " use_global_device_ids=true, to_apply=add"
    ),
    "a mesh of devices": entry(
        "ROOT y = f32[8,3] all-gather(x), channel_id=1, replica_groups=mesh['a'=2,'b'=4] {'b'},"
        " dimensions={0}, use_global_device_ids=true"
    ),
    "a literal of a custom call": entry(
        'ROOT y = f32[2] custom-call(x), custom_call_target="f", literal=s32[2]{0} {1, 2}'
    ),
    "literals of a custom call": entry(
        'ROOT y = f32[2] custom-call(x), custom_call_target="f",'
        " literal=( s32[2]{0} {1, 2}, pred[] true )"
    ),
    "a kind of padding": entry(
        'ROOT y = f32[2,3] custom-call(x, x), custom_call_target="DynamicConvolutionForward",'
        " dim_labels=bf_io->bf, padding_type=PADDING_SAME"
    ),
    "a sparse convolution": entry(
        "w = f32[3,2] transpose(x), dimensions={1,0}\n"
        " ROOT y = f32[2,2] convolution(x, w), dim_labels=bf_io->bf,"
        " sparsity_config={rhs={sparsity=3x4 dimension=0 stride=1}}"
    ),
    "layouts of the entry": (
        "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->(f32[3,2]{1,0}, f32[2,3]{0,1})}\n"
        "ENTRY e { x = f32[2,3] parameter(0) t = f32[3,2]{0,1} transpose(x), dimensions={1,0}"
        " ROOT y = (f32[3,2]{0,1}, f32[2,3]) tuple(t, x) }"
    ),
    "all of metadata": (
        'ENTRY main { ROOT x = f32[2] parameter(0), metadata={op_type="a" op_name="b"'
        ' source_file="c.py" source_line=68, source_end_line=70, source_column=4'
        ' profile_type={1} deduplicated_name="d" scheduling_name="e"} }'
    ),
    "memory that an asynchronous call shares": (
        "HloModule m\n f { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }\n"
        "ENTRY e { x = f32[2] parameter(0)\n"
        " s = ((f32[2]), f32[2], s32[]) call-start(x), to_apply=f,"
        " output_to_operand_aliasing={{1}: (0, {})}\n ROOT y = f32[2] call-done(s) }"
    ),
    "no header": "ENTRY main { ROOT x = f32[2] parameter(0) }",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_kept_attributes_are_printed_back(text: str):
    module = parse(text)
    verify(module)
    printed = print_module(module)
    assert real_xla.canonical_text(printed) == real_xla.canonical_text(text)
    assert print_module(parse(printed)) == printed
    assert header(printed) == header(real_xla.parse(text).to_string())


def header(text: str) -> str:
    return text.splitlines()[0]


def test_buffers_go_through_the_proto():
    theirs = real_xla.parse(TEXTS["buffers"]).as_serialized_hlo_module_proto()
    read = parse_hlo_proto(theirs)
    again = parse_hlo_proto(print_hlo_proto(read))
    assert print_module(again) == print_module(read)
    assert print_module(read).count("b(f32[2]{0:T(128)})") > 5


def test_a_kind_of_padding_goes_through_the_proto():
    theirs = real_xla.parse(TEXTS["a kind of padding"]).as_serialized_hlo_module_proto()
    read = parse_hlo_proto(theirs)
    assert "padding_type=PADDING_SAME" in print_module(read)
    assert print_module(parse_hlo_proto(print_hlo_proto(read))) == print_module(read)


def test_a_kept_layout_is_dropped_when_the_entry_becomes_another():
    module = parse(TEXTS["layouts of the entry"])
    assert "f32[2,3]{0,1})->" in header(print_module(module))
    module.entry.set_root(module.entry.parameters[0])
    assert "->f32[2,3]{1,0}}" in header(print_module(module))


def test_a_buffer_is_not_its_array():
    text = "ENTRY e { x = f32[2] parameter(0) ROOT y = b(f32[2]) negate(x) }"
    with pytest.raises(ingot.IngotError, match=r"declared as b\(f32"):
        parse(text)


def test_a_buffer_holds_one_array():
    with pytest.raises(ParseError):
        parse("ENTRY e { x = b(b(f32[2])) parameter(0) }")
    with pytest.raises(UnsupportedError, match="no custom-call target"):
        ingot.compile(parse(TEXTS["buffers"]))
