# SPDX-License-Identifier: Apache-2.0
"""Texts that a reader must refuse with a place, not fail on later."""

from __future__ import annotations

import pytest

from ingot.formats.hlo_proto import print_hlo_proto
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.hlo.module import Module
from ingot.support.diagnostics import IngotError

LONG = "1" * 5000


def instruction(text: str, header: str = "HloModule m") -> str:
    """Return a module whose root is `text`, of a parameter x."""
    return f"{header}\nENTRY e {{ x = f32[4] parameter(0)\n ROOT r = {text} }}\n"


def reduced(groups: str) -> str:
    """Return a module with an all-reduce in these groups."""
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    return f"{add}\n" + instruction(f"f32[4] all-reduce(x), replica_groups={groups}, to_apply=add")


CALL = 'f32[4] custom-call(x), custom_call_target="f"'
REFUSED = {
    "a layout that orders nothing": instruction(
        "f32[4] abs(x)", "HloModule m, entry_computation_layout={(f32[4]{7})->f32[4]{0}}"
    ),
    "no signature": instruction("f32[4] abs(x)", "HloModule m, entry_computation_layout={}"),
    "no replica": instruction("f32[4] abs(x)", "HloModule m, replica_count=0"),
    "replicas that are no number": instruction("f32[4] abs(x)", "HloModule m, replica_count=a"),
    "too many partitions": instruction("f32[4] abs(x)", f"HloModule m, num_partitions={1 << 40}"),
    "a long number of a donor": instruction(
        "f32[4] abs(x)", f"HloModule m, buffer_donor={{ ({LONG}, {{}}) }}"
    ),
    "a long number in groups": reduced(f"[{LONG},1]<=[{LONG}]"),
    "two numbers with no comma": reduced("[1 1,1]<=[1]"),
    "groups of no device": reduced("[0,5]<=[0]"),
    "a mesh with an empty axis": reduced("mesh['x'=0]{'x'}"),
    "a mesh with an axis twice": reduced("mesh['x'=2]{'x','x'}"),
    "a mesh with a long axis": reduced(f"mesh['x'={LONG}]{{'x'}}"),
    "an operand layout that is no shape": instruction(
        f"{CALL}, operand_layout_constraints={{abc}}"
    ),
    "an aliasing without numbers": instruction(f"{CALL}, output_to_operand_aliasing={{a}}"),
    "a schedule that there is not": instruction(f"{CALL}, schedule=TOMORROW"),
    "a padding type that there is not": instruction(f"{CALL}, padding_type=PADDING"),
    "an accuracy without numbers": instruction(
        "f32[4] tanh(x), result_accuracy={tolerance={ulps=a}}"
    ),
    "a large constant of one number": instruction("f32[9999999999,9999999999] constant(1)"),
    "a large constant that is left out": instruction("f32[99999999999] constant({...})"),
    "metadata with a bracket too many": instruction("f32[4] tanh(x), metadata={a_{{b=2}}}"),
    "an instruction that waits for itself": instruction("f32[4] abs(x), control-predecessors={r}"),
    "instructions that wait for each other": instruction("f32[4] abs(y)").replace(
        "ROOT", "y = f32[4] tanh(x), control-predecessors={r} ROOT"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_a_position(what: str) -> None:
    with pytest.raises(IngotError) as caught:
        parse_hlo(REFUSED[what])
    assert caught.value.diagnostic.span is not None


@pytest.mark.parametrize(
    "attribute",
    [
        "metadata={op_name=\"a\" scheduling_name=\"b\\\"\" profile_type={1} x={{y}}}",
        "metadata={preserve_layout=true, op_type=\"t\"}",
        "metadata={source_file=\"f\" source_line=2147483647}",
        "operand_layout_constraints={f32[4]{0}}",
        "output_to_operand_aliasing={{}: (0, {})}",
        "schedule=SCHEDULE_EARLIEST",
        "padding_type=PADDING_SAME",
        "parameter_replication={true,false}",
    ],
)  # fmt: skip
def test_what_xla_writes_is_read_and_printed(attribute: str) -> None:
    module = parse_hlo(instruction(f"{CALL}, {attribute}"))
    printed = print_module(module)
    assert print_module(parse_hlo(printed)) == printed
    words = attribute.partition("=")[2].strip("{}").split(",")[0].split()
    assert all(word in printed for word in words)
    print_hlo_proto(module)


@pytest.mark.parametrize("name", ["a b", "line\nbreak", "x, is_scheduled=true", "é", ""])
def test_a_module_of_any_name_is_printed_so_that_it_is_read(name: str) -> None:
    module = parse_hlo(instruction("f32[4] abs(x)"))
    module.name = name
    again: Module = parse_hlo(print_module(module))
    assert not again.schedule
    assert again.name.isascii()
