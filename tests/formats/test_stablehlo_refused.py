# SPDX-License-Identifier: Apache-2.0
"""What MLIR does not check of a module, such as free attributes, is refused by name."""

from __future__ import annotations

import pytest
from tests.formats.mlir_text import read

from ingot.formats.hlo_text import print_module
from ingot.formats.stablehlo import parse_stablehlo
from ingot.support.diagnostics import ParseError

pytest.importorskip("jaxlib.mlir.ir")


def program(parameter: str = "", module: str = "", body: str = "", result: str = "") -> str:
    """Return a module with these attributes."""
    return f"""module @m attributes {{{module}}} {{
  func.func public @main(%x: tensor<2xf32> {{{parameter}}}) -> (tensor<2xf32> {{{result}}}) {{
    {body}
    return %x : tensor<2xf32>
  }}
}}"""


REFUSED = {
    "mhlo.num_replicas' is 0": program(module="mhlo.num_replicas = 0 : i32"),
    "mhlo.num_partitions' is 2147483647": program(module="mhlo.num_partitions = 2147483647 : i32"),
    "mhlo.num_replicas' is .*not an integer": program(module='mhlo.num_replicas = "two"'),
    "tf.aliasing_output' is .*not an integer": program('tf.aliasing_output = "a"'),
    "mhlo.layout_mode' is .*not a string": program("mhlo.layout_mode = 3 : i32"),
    "mhlo.memory_kind' is .*not a string": program(result="mhlo.memory_kind = [1]"),
    "not a value of HLO text": program('mhlo.sharding = "{a"'),
    r"\"b}\" is not a value": program('mhlo.sharding = "b}"'),
    "error_message' is .*not a string": program(
        body="""%c = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.custom_call @shape_assertion(%c) {error_message = 3 : i32, has_side_effect = true}
            : (tensor<i1>) -> ()"""
    ),
    "must set `has_side_effect = true`": program(
        body="""%c = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.custom_call @shape_assertion(%c) {error_message = "a"} : (tensor<i1>) -> ()"""
    ),
    "expects assert_what .* constant of type tensor<i1>": program(
        body="""stablehlo.custom_call @shape_assertion(%x) {has_side_effect = true}
            : (tensor<2xf32>) -> ()"""
    ),
    "Found specifier {0}": program(
        body="""%c = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.custom_call @shape_assertion(%c) {error_message = "{0}", has_side_effect = true}
            : (tensor<i1>) -> ()"""
    ),
    "'k' is missing": program(
        body="""%v:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {}}
            : (tensor<2xf32>) -> (tensor<1xf32>, tensor<1xi32>)"""
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_refused(words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse_stablehlo(REFUSED[words])


def test_frontend_attributes_of_any_text_read_back() -> None:
    text = program('mhlo.frontend_attributes = {a = "}{\\22\\0A", b = "c"}')
    module = read(text)
    assert 'frontend_attributes={a="}{\\"\\n",b="c"}' in print_module(module)


def test_an_empty_list_of_a_window_is_the_default() -> None:
    text = """func.func @main(
        %x: tensor<1x3x3x1xf32>, %k: tensor<2x2x1x1xf32>) -> tensor<1x2x2x1xf32> {
      %y = stablehlo.convolution(%x, %k)
        dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [], reverse = []}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x3x3x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x1xf32>
      return %y : tensor<1x2x2x1xf32>
    }"""
    assert "window={size=2x2}" in print_module(read(text))


def test_line_numbers_out_of_range_are_left_out() -> None:
    text = program().replace("return %x : tensor<2xf32>", "return %y : tensor<2xf32>")
    body = '%y = stablehlo.sine %x : tensor<2xf32> loc("a.py":4294967295:0)\n return'
    module = read(text.replace("return", body))
    assert 'metadata={source_file="a.py"}' in print_module(module)
