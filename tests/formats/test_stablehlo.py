# SPDX-License-Identifier: Apache-2.0
"""StableHLO as MLIR text: what each construct becomes."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from tests.formats.mlir_text import function, only, read

from ingot.evaluator import evaluate
from ingot.formats.stablehlo.table import converters
from ingot.semantics.custom_calls import config_text
from ingot.support.diagnostics import ParseError, UnsupportedError


def test_every_op_has_a_converter() -> None:
    generated = importlib.import_module("jaxlib.mlir.dialects._stablehlo_ops_gen")
    names = {
        item.OPERATION_NAME for item in vars(generated).values() if hasattr(item, "OPERATION_NAME")
    }
    known = set(converters())
    assert names - known == {"stablehlo.return"}


def test_every_chlo_op_has_a_converter() -> None:
    generated = importlib.import_module("jaxlib.mlir.dialects._chlo_ops_gen")
    names = {
        item.OPERATION_NAME for item in vars(generated).values() if hasattr(item, "OPERATION_NAME")
    }
    assert names - set(converters()) == set()


@pytest.mark.parametrize(
    ("element", "name", "values"),
    [
        ("i1", "pred", "[true, false]"),
        ("i2", "s2", "[-2, 1]"),
        ("i4", "s4", "[-8, 7]"),
        ("ui4", "u4", "[15, 0]"),
        ("i8", "s8", "[-128, 127]"),
        ("ui8", "u8", "[255, 0]"),
        ("i16", "s16", "[-5, 5]"),
        ("i32", "s32", "[-5, 5]"),
        ("ui32", "u32", "[4294967295, 5]"),
        ("i64", "s64", "[-5, 9223372036854775807]"),
        ("ui64", "u64", "[18446744073709551615, 5]"),
        ("f16", "f16", "[0.5, 0x7C00]"),
        ("bf16", "bf16", "[0.5, 0xFF80]"),
        ("f32", "f32", "[0.1, 0x7FC00000]"),
        ("f64", "f64", "[0.1, 0x7FF0000000000000]"),
        ("f8E4M3FN", "f8e4m3fn", "[0.5, 0x7F]"),
        ("f8E5M2", "f8e5m2", "[0.5, 0x7C]"),
        ("f8E8M0FNU", "f8e8m0fnu", "[0.5, 2.0]"),
        ("f4E2M1FN", "f4e2m1fn", "[0.5, -6.0]"),
        ("complex<f32>", "c64", "[(1.0, -2.5), (0.0, 0x7F800000)]"),
        ("complex<f64>", "c128", "[(1.0, -2.5), (0.0, 1.0e-300)]"),
    ],
)
def test_constants_of_every_element_type(element: str, name: str, values: str) -> None:
    body = f"%c = stablehlo.constant dense<{values}> : tensor<2x{element}> "
    module = function(f"() -> tensor<2x{element}>", body + f"return %c : tensor<2x{element}>")
    root = module.entry.root
    assert root.opcode == "constant"
    assert root.shape.dtype.name == name
    if name == "c64":
        expected = np.array([1 - 2.5j, complex(0, np.inf)], np.complex64)
        np.testing.assert_array_equal(root.attributes.literal.value, expected)


@pytest.mark.parametrize(
    ("element", "value"),
    [("f32", "2.5"), ("bf16", "-1.0"), ("i1", "true"), ("i4", "3"), ("complex<f32>", "(1.0, 2.0)")],
)
def test_splat_constants_are_broadcasts(element: str, value: str) -> None:
    body = f"%c = stablehlo.constant dense<{value}> : tensor<3x5x{element}> "
    module = function(f"() -> tensor<3x5x{element}>", body + f"return %c : tensor<3x5x{element}>")
    assert module.entry.root.opcode == "broadcast"
    assert module.entry.root.operands[0].shape.is_scalar


def test_large_constants_of_types_without_a_buffer() -> None:
    values = ", ".join(f"{number}.0" for number in range(200))
    body = (
        f"%c = stablehlo.constant dense<[{values}]> : tensor<200xbf16> return %c : tensor<200xbf16>"
    )
    literal = function("() -> tensor<200xbf16>", body).entry.root.attributes.literal
    np.testing.assert_array_equal(literal.value.astype(np.float32), np.arange(200))


def test_a_loop_takes_outer_values_as_state_and_copies_constants() -> None:
    module = function(
        "(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32>",
        """
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %two = stablehlo.constant dense<2.0> : tensor<4xf32>
        %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<4xf32>
        cond {
          %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %one = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %i, %one : tensor<i32>
          %t = stablehlo.multiply %v, %two : tensor<4xf32>
          %s = stablehlo.add %t, %x : tensor<4xf32>
          stablehlo.return %j, %s : tensor<i32>, tensor<4xf32>
        }
        return %r#1 : tensor<4xf32>
        """,
    )
    loop = only(module, "while")
    assert [str(part) for part in loop.shape.elements] == [
        "s32[]",
        "f32[4]{0}",
        "s32[]",
        "f32[4]{0}",
    ]
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(module, [x, np.int32(3)]), x * 15)


def test_nested_regions_pass_outer_values_through_each_other() -> None:
    module = function(
        "(%p: tensor<i1>, %x: tensor<f32>, %n: tensor<i32>) -> tensor<f32>",
        """
        %r = "stablehlo.if"(%p) ({
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %w:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<f32>
          cond {
            %q = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %q : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %s = stablehlo.add %v, %x : tensor<f32>
            stablehlo.return %j, %s : tensor<i32>, tensor<f32>
          }
          stablehlo.return %w#1 : tensor<f32>
        }, {
          stablehlo.return %x : tensor<f32>
        }) : (tensor<i1>) -> tensor<f32>
        return %r : tensor<f32>
        """,
    )
    for flag, expected in ((True, 8.0), (False, 2.0)):
        found = evaluate(module, [np.bool_(flag), np.float32(2), np.int32(3)])
        assert float(np.asarray(found)) == expected


def test_case_with_several_results() -> None:
    module = function(
        "(%i: tensor<i32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>)",
        """
        %r:2 = "stablehlo.case"(%i) ({
          stablehlo.return %x, %i : tensor<2xf32>, tensor<i32>
        }, {
          %y = stablehlo.negate %x : tensor<2xf32>
          %c = stablehlo.constant dense<7> : tensor<i32>
          stablehlo.return %y, %c : tensor<2xf32>, tensor<i32>
        }) : (tensor<i32>) -> (tensor<2xf32>, tensor<i32>)
        return %r#0, %r#1 : tensor<2xf32>, tensor<i32>
        """,
    )
    first, second = evaluate(module, [np.int32(1), np.float32([1, 2])])
    np.testing.assert_array_equal(first, [-1, -2])
    assert int(second) == 7


REDUCE = """
%c = stablehlo.constant dense<0.0> : tensor<f32>
%a = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] :
     (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
%b = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [1] :
     (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
return %a, %b : tensor<3xf32>, tensor<2xf32>
"""


def test_equal_reducers_are_one_computation() -> None:
    module = function("(%x: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<2xf32>)", REDUCE)
    assert len(module.computations) == 2


def test_a_reducer_may_use_an_outer_constant_but_no_other_value() -> None:
    body = """
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %r = "stablehlo.reduce"(%x, %zero) <{{dimensions = array<i64: 0>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        %t = stablehlo.maximum %s, {outer} : tensor<f32>
        stablehlo.return %t : tensor<f32>
    }}) : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    return %r : tensor<f32>
    """
    signature = "(%x: tensor<3xf32>, %y: tensor<f32>) -> tensor<f32>"
    function(signature, body.format(outer="%zero"))
    with pytest.raises(UnsupportedError, match="block around it"):
        function(signature, body.format(outer="%y"))


def test_functions_are_converted_once() -> None:
    module = function(
        "(%x: tensor<f32>) -> tensor<f32>",
        """
        %a = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
        %b = func.call @f(%a) : (tensor<f32>) -> tensor<f32>
        return %b : tensor<f32>
        """,
        "func.func private @f(%x: tensor<f32>) -> tensor<f32> "
        "{ %y = stablehlo.negate %x : tensor<f32> return %y : tensor<f32> }",
    )
    assert set(module.computations) == {"main", "f"}


COMPOSITE = """
%r = stablehlo.composite "{name}" %x {{decomposition = @f}} : (tensor<f32>) -> tensor<f32>
return %r : tensor<f32>
"""
DECOMPOSITION = (
    "func.func private @f(%x: tensor<f32>) -> tensor<f32> "
    "{ %y = stablehlo.abs %x : tensor<f32> return %y : tensor<f32> }"
)


@pytest.mark.parametrize(("name", "opcode"), [("chlo.erf", "erf"), ("my.own", "call")])
def test_composites(name: str, opcode: str) -> None:
    body = COMPOSITE.format(name=name)
    module = function("(%x: tensor<f32>) -> tensor<f32>", body, DECOMPOSITION)
    assert module.entry.root.opcode == opcode


def test_chlo_ops_are_native_or_rewritten_by_mlir() -> None:
    module = function(
        "(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xi32>)",
        """
        %a = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
        %b = chlo.lgamma %x : tensor<4xf32> -> tensor<4xf32>
        %c, %d = chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
        return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xi32>
        """,
    )
    x = np.float32([1.5, 4.0, 2.5, 3.0])
    erf, lgamma, values, places = evaluate(module, [x])
    np.testing.assert_allclose(erf[0], 0.9661051)
    np.testing.assert_allclose(lgamma[1], np.log(6), rtol=1e-6)
    np.testing.assert_array_equal(values, [4, 3])
    np.testing.assert_array_equal(places, [1, 3])


RAGGED = """
    %c = stablehlo.composite "chlo.ragged_dot" %x, %y, %n {{
      decomposition = @f, composite_attributes = {{
        lhs_batch_dims = dense<> : tensor<0xi64>, rhs_batch_dims = dense<> : tensor<0xi64>,
        lhs_contracting_dims = {contracting}, rhs_contracting_dims = dense<1> : tensor<1xi64>,
        lhs_ragged_dims = dense<0> : tensor<1xi64>, rhs_group_dims = dense<0> : tensor<1xi64>
    }}}} : (tensor<6x3xf32>, tensor<2x3x4xf32>, tensor<2xi32>) -> tensor<6x4xf32>
    return %c : tensor<6x4xf32>"""
RAGGED_OP = """
    %c = "chlo.ragged_dot"(%x, %y, %n) {
      ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
        lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
    } : (tensor<6x3xf32>, tensor<2x3x4xf32>, tensor<2xi32>) -> tensor<6x4xf32>
    return %c : tensor<6x4xf32>"""
RAGGED_DECOMPOSITION = """
  func.func private @f(%x: tensor<6x3xf32>, %y: tensor<2x3x4xf32>, %n: tensor<2xi32>)
      -> tensor<6x4xf32> {
    %c = stablehlo.constant dense<0.0> : tensor<6x4xf32>
    return %c : tensor<6x4xf32>
  }"""
RAGGED_TYPES = "(%x: tensor<6x3xf32>, %y: tensor<2x3x4xf32>, %n: tensor<2xi32>) -> tensor<6x4xf32>"


@pytest.mark.parametrize("body", [RAGGED.format(contracting="dense<1> : tensor<1xi64>"), RAGGED_OP])
def test_ragged_dots_are_one_op(body: str) -> None:
    module = function(RAGGED_TYPES, body, RAGGED_DECOMPOSITION)
    assert module.entry.root.opcode == "ragged-dot"
    rng = np.random.default_rng(0)
    x, y = np.float32(rng.normal(size=(6, 3))), np.float32(rng.normal(size=(2, 3, 4)))
    found = evaluate(module, [x, y, np.int32([2, 3])])
    expected = np.concatenate([x[:2] @ y[0], x[2:5] @ y[1], np.zeros((1, 4), np.float32)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_ragged_dot_that_does_not_fit_is_its_decomposition() -> None:
    body = RAGGED.format(contracting="dense<0> : tensor<1xi64>")
    assert function(RAGGED_TYPES, body, RAGGED_DECOMPOSITION).entry.root.opcode == "call"


def test_dimensions_of_a_ragged_dot_are_integers() -> None:
    body = RAGGED.format(contracting='"first"')
    with pytest.raises(ParseError, match=r"'lhs_contracting_dims' is .*, and not integers"):
        function(RAGGED_TYPES, body, RAGGED_DECOMPOSITION)


def test_custom_calls_keep_their_attributes() -> None:
    module = function(
        "(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)",
        """
        %r:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {
          mhlo.backend_config = {uplo = 76 : ui8}, api_version = 4 : i32, has_side_effect = true,
          operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>],
          output_operand_aliases = [#stablehlo.output_operand_alias<
            output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>]
        } : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)
        return %r#0, %r#1 : tensor<2x3xf32>, tensor<i32>
        """,
    )
    call = only(module, "custom-call")
    assert config_text(call) == "{uplo = 76 : ui8}"
    assert call.attributes.api_version == "API_VERSION_TYPED_FFI"
    assert call.attributes.custom_call_has_side_effect
    assert call.attributes.operand_layout_constraints == "{f32[2,3]{0,1}}"
    assert call.attributes.output_to_operand_aliasing == "{{0}: (0, {})}"
    assert str(call.shape) == "(f32[2,3]{0,1}, s32[])"


def test_what_arguments_and_results_say() -> None:
    module = function(
        """(%x: tensor<4xf32> {tf.aliasing_output = 1 : i32},
            %y: tensor<4xf32> {jax.buffer_donor = true},
            %z: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
           -> (tensor<4xf32>, tensor<4xf32> {mhlo.sharding = "{replicated}"})""",
        "return %y, %x : tensor<4xf32>, tensor<4xf32>",
    )
    (alias,) = module.aliases
    assert (alias.output, alias.parameter) == ((1,), 0)
    assert module.extra["buffer_donor"] == "{ (1, {}) }"
    assert module.entry.parameters[2].extra["sharding"] == "{devices=[2]<=[2]}"
    assert module.entry.root.extra["sharding"] == "{{unknown}, {replicated}}"


def test_module_attributes() -> None:
    module = read(
        "module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} "
        "{ func.func @main() { return } }"
    )
    assert module.name == "jit_f"
    assert module.extra == {"num_partitions": "4"}
    assert str(module.result_shape) == "()"


def test_locations_become_metadata() -> None:
    module = read(
        """
        #f = loc("model.py":7:4 to :9)
        #g = loc("main.py":30:1)
        module { func.func @main(%x: tensor<f32>) -> tensor<f32> {
          %y = stablehlo.sine %x : tensor<f32>
               loc("jit(f)/sin"(callsite("f"(#f) at "<module>"(#g))))
          %z = stablehlo.negate %y : tensor<f32> loc(fused["a", "b"])
          return %z : tensor<f32>
        } }
        """
    )
    sine = only(module, "sine").metadata
    assert (sine.op_name, sine.source_file, sine.source_line) == ("jit(f)/sin", "model.py", 7)
    assert only(module, "negate").metadata.op_name == "a;b"


@pytest.mark.parametrize("size", ["2", "?"])
def test_functions_that_call_themselves_are_refused(size: str) -> None:
    kind = f"tensor<{size}xf32>"
    text = f"""module {{
      func.func @main(%x: {kind}) -> {kind} {{
        %0 = func.call @f(%x) : ({kind}) -> {kind}
        return %0 : {kind} }}
      func.func private @f(%x: {kind}) -> {kind} {{
        %0 = func.call @f(%x) : ({kind}) -> {kind}
        return %0 : {kind} }} }}"""
    with pytest.raises(ParseError, match="calls itself"):
        read(text)
