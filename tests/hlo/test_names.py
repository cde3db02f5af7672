# SPDX-License-Identifier: Apache-2.0
"""Names of other alphabets, with quotes, blanks and line ends: what is printed can be read."""

from __future__ import annotations

import pytest

import ingot
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.names import sanitized, unique_name

NAMES = [
    'a "b"',
    "a\nb",
    "été",
    "a b",
    "x/y:0",
    "",
    "\ud800",
    "a=b",
    "%x",
    "}",
    "a,b",
    "\0",
    "f(x)",
]


def _module(name: str) -> Module:
    inner = Builder(name)
    inner.build(inner.emit("negate", inner.parameter(0, "f32[2]", name), name=name))
    b = Builder(name)
    x = b.parameter(0, "f32[2]", name)
    called = b.emit("call", x, name=name, to_apply=inner.computation)
    return Module.of(name, b.build(b.emit("add", called, x, name=name)))


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_printed_names_read_back(name: str):
    module = _module(name)
    text = print_module(module)
    again = parse(text)
    assert print_module(again) == text
    assert again.name == module.name
    assert list(again.computations) == list(module.computations)
    proto = parse_hlo_proto(print_hlo_proto(module))
    assert print_module(proto) == text


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_such_programs_run(name: str):
    assert ingot.compile(_module(name))([1, 2]).tolist() == [0, 0]


def test_names_are_xla_s():
    assert sanitized('a "b"\n') == "a__b__"
    assert sanitized("é") == "a_"  # one for each byte, and no name begins with two
    assert sanitized("a.b-c_1") == "a.b-c_1"
    assert sanitized("") == "_"


def test_different_names_stay_different():
    names: dict[str, int] = {}
    assert [unique_name(names, name) for name in ("a b", "a_b", "a/b", "a b")] == [
        "a_b", "a_b.1", "a_b.2", "a_b.3",
    ]  # fmt: skip


def test_xla_reads_printed_names():
    xla = pytest.importorskip("tests.support.real_xla")
    for name in NAMES:
        module = _module(name)
        read = xla.parse(print_module(module))
        assert read.name == module.name
