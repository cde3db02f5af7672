# SPDX-License-Identifier: Apache-2.0
"""Attributes of custom calls: MLIR's dictionaries, read with their types."""

from __future__ import annotations

import math

import pytest

from ingot.runtime.foreign.attributes import Attribute, parse_attributes, plain_values
from ingot.support.diagnostics import ParseError


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("76 : ui8", 76, "ui8"),
        ("-1", -1, "i64"),
        ("1.5", 1.5, "f64"),
        ("2.500000e+00 : f32", 2.5, "f32"),
        ("0x7F800000 : f32", math.inf, "f32"),
        ("true", True, "bool"),
        ('"a\\22b\\0Ac"', 'a"b\nc', "string"),
        ("array<i64: 1, -2>", (1, -2), "i64"),
        ("array<i32>", (), "i32"),
        ("array<f32: 1.0, 2.0>", (1.0, 2.0), "f32"),
        ("array<i1: true, false>", (True, False), "i1"),
        ("dense<[1, 2]> : tensor<2xi64>", (1, 2), "i64"),
        ("dense<3> : tensor<2xi32>", (3, 3), "i32"),
        ("dense<0> : tensor<2x3xi64>", (0,) * 6, "i64"),
        ("[1 : i32, 2 : i32]", (1, 2), "i32"),
        ("{}", {}, "dictionary"),
    ],
)
def test_values(text: str, value: object, kind: str) -> None:
    assert parse_attributes("{name = " + text + "}") == {"name": Attribute(value, kind)}


def test_several_and_nested() -> None:
    text = '{a = 1 : i32, "odd name" = {b = "x", c}, flag}'
    found = plain_values(parse_attributes(text))
    assert found == {"a": 1, "odd name": {"b": "x", "c": None}, "flag": None}
    assert parse_attributes("") == {}


@pytest.mark.parametrize("text", ["text", "{a = }", "{a = 1", "{a = 1 b = 2}", "{a = $}", "{a=x}"])
def test_invalid_dictionaries_are_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_attributes(text)
    assert caught.value.diagnostic.code == "INGOT0113"


def test_a_dense_value_has_as_many_elements_as_its_type() -> None:
    with pytest.raises(ParseError, match="3xi64"):
        parse_attributes("{name = dense<[1, 2]> : tensor<3xi64>}")
