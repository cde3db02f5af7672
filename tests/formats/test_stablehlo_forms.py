# SPDX-License-Identifier: Apache-2.0
"""StableHLO: open sizes, the forms of MLIR, and what is refused."""

from __future__ import annotations

import importlib
import io

import numpy as np
import pytest
from tests.formats.mlir_text import function

from ingot.evaluator import evaluate
from ingot.formats.hlo_text import print_module
from ingot.formats.stablehlo import binding, parse_stablehlo
from ingot.hlo.dim import Dim
from ingot.semantics.entry_layouts import take_entry_layouts
from ingot.semantics.memory_kinds import read_memory_kinds
from ingot.support.diagnostics import ParseError, UnsupportedError

# ---- dynamic sizes


def test_open_sizes_are_symbols() -> None:
    module = function(
        "(%x: tensor<?x3xf32>) -> tensor<?xf32>",
        """
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %m = stablehlo.multiply %n, %three : tensor<i32>
        %s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
        %r = stablehlo.dynamic_reshape %x, %s : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
        return %r : tensor<?xf32>
        """,
    )
    assert module.entry.root.shape.dims == (3 * Dim.symbol("d0_0"),)


def test_operands_of_one_op_have_one_size() -> None:
    module = function(
        "(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32>",
        "%r = stablehlo.add %x, %y : tensor<?xf32> return %r : tensor<?xf32>",
    )
    first, second = module.parameter_shapes
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "body", "dims"),
    [
        (
            "(%x: tensor<?x4x5xf32>, %y: tensor<?x5x6xf32>) -> tensor<?x4x6xf32>",
            """%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0],
                 contracting_dims = [2] x [1]
                 : (tensor<?x4x5xf32>, tensor<?x5x6xf32>) -> tensor<?x4x6xf32>
               return %r : tensor<?x4x6xf32>""",
            [("d0_0", 4, 5), ("d0_0", 5, 6)],
        ),
        (
            "(%x: tensor<?x2xf32>, %y: tensor<?x3xf32>) -> tensor<?x5xf32>",
            """%r = stablehlo.concatenate %x, %y, dim = 1
                 : (tensor<?x2xf32>, tensor<?x3xf32>) -> tensor<?x5xf32>
               return %r : tensor<?x5xf32>""",
            [("d0_0", 2), ("d0_0", 3)],
        ),
        (
            "(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<f32>",
            """%a = stablehlo.concatenate %x, %x, dim = 0
                 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
               %b = stablehlo.concatenate %y, %y, dim = 0
                 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
               %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0]
                 : (tensor<?xf32>, tensor<?xf32>) -> tensor<f32>
               return %r : tensor<f32>""",
            [("d0_0",), ("d0_0",)],
        ),
        (
            "(%x: tensor<?xf32>) -> tensor<5xf32>",
            """%z = stablehlo.constant dense<0.0> : tensor<2xf32>
               %r = stablehlo.concatenate %x, %z, dim = 0
                 : (tensor<?xf32>, tensor<2xf32>) -> tensor<5xf32>
               return %r : tensor<5xf32>""",
            [(3,)],
        ),
    ],
)
def test_sizes_that_an_op_makes_equal_are_one(
    arguments: str, body: str, dims: list[tuple[int | str, ...]]
) -> None:
    found = [shape.dims for shape in function(arguments, body).parameter_shapes]
    names = {size if isinstance(size, int) else size.text for shape in found for size in shape}
    assert len({name for name in names if isinstance(name, str)}) <= 1
    kept = [tuple("d0_0" if isinstance(n, Dim) else n for n in shape) for shape in found]
    assert kept == dims


def test_bitcasts_keep_open_sizes() -> None:
    module = function(
        "(%x: tensor<?x2xf32>) -> tensor<?x2x2xbf16>",
        """%r = stablehlo.bitcast_convert %x : (tensor<?x2xf32>) -> tensor<?x2x2xbf16>
           return %r : tensor<?x2x2xbf16>""",
    )
    assert module.entry.root.shape.dims == (Dim.symbol("d0_0"), 2, 2)


def test_dynamic_ops_of_static_types_are_static() -> None:
    module = function(
        """(%x: tensor<2x3xf32>, %i: tensor<1xi32>)
           -> (tensor<6xf32>, tensor<4x2x3xf32>, tensor<5xi32>)""",
        """
        %a = stablehlo.dynamic_reshape %x, %i : (tensor<2x3xf32>, tensor<1xi32>) -> tensor<6xf32>
        %s = stablehlo.constant dense<[4, 2, 3]> : tensor<3xi32>
        %b = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2]
             : (tensor<2x3xf32>, tensor<3xi32>) -> tensor<4x2x3xf32>
        %c = stablehlo.dynamic_iota %i, dim = 0 : (tensor<1xi32>) -> tensor<5xi32>
        return %a, %b, %c : tensor<6xf32>, tensor<4x2x3xf32>, tensor<5xi32>
        """,
    )
    assert {i.opcode for i in module.entry.instructions} >= {"reshape", "broadcast", "iota"}


def test_sizes_computed_from_data_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="computed from data") as caught:
        function(
            "(%x: tensor<6xf32>, %s: tensor<2xi32>) -> tensor<?x?xf32>",
            """
            %r = stablehlo.dynamic_reshape %x, %s
                 : (tensor<6xf32>, tensor<2xi32>) -> tensor<?x?xf32>
            return %r : tensor<?x?xf32>
            """,
        )
    assert caught.value.diagnostic.code == "INGOT0352"


def test_bounded_sizes_stay_bounded() -> None:
    kind = "tensor<?x3xf32, #stablehlo.bounds<8, ?>>"
    module = function(f"(%x: {kind}) -> {kind}", f"return %x : {kind}")
    assert module.entry.root.shape.to_string() == "f32[<=8,3]{1,0}"


# ---- forms and errors

TEXT = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"


def test_bytecode_and_portable_artifacts_read_as_text_does() -> None:
    library = binding.mlir()
    module = binding.parse_mlir(TEXT)
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    with module.context:
        artifact = library.stablehlo.serialize_portable_artifact(module, "1.0.0")
    expected = print_module(parse_stablehlo(TEXT))
    assert binding.is_portable_artifact(artifact)
    for data in (bytecode.getvalue(), artifact):
        assert print_module(parse_stablehlo(data)) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("this is not MLIR", "INGOT0120"),
        ("module { func.func @main() { stablehlo.nothing } }", "INGOT0120"),
        ("module { func.func @a() { return } func.func @b() { return } }", "INGOT0121"),
        ("module { func.func @main() { func.call @main() : () -> () return } }", "INGOT0112"),
    ],
)
def test_invalid_programs_are_refused(text: str, code: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_stablehlo(text)
    assert caught.value.diagnostic.code == code


def test_element_types_that_are_not_known_are_refused() -> None:
    with pytest.raises((UnsupportedError, ParseError), match="f80"):
        parse_stablehlo("func.func @main(%x: tensor<2xf80>) { return }")


@pytest.mark.parametrize(
    ("signature", "match"),
    [("(%x: f32)", "f32"), ("()", r"my\.op"), ("(%x: tensor<*xf32>)", "rank")],
)
def test_what_hlo_has_not_is_refused_by_name(signature: str, match: str) -> None:
    text = f'func.func @main{signature} {{ %r = "my.op"() : () -> tensor<2xf32> return }}'
    with pytest.raises(UnsupportedError, match=match):
        parse_stablehlo(text)


def test_without_jaxlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(f"No module named '{name}'")

    binding.mlir.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    try:
        with pytest.raises(UnsupportedError, match="pip install") as caught:
            parse_stablehlo(TEXT)
    finally:
        monkeypatch.undo()
        binding.mlir.cache_clear()
    assert caught.value.diagnostic.code == "INGOT0350"


LAYOUTS = """
func.func @main(%x: tensor<2x3xf32> {mhlo.layout_mode = "default"})
    -> (tensor<2x3xf32> {mhlo.layout_mode = "LAYOUT"}) {
  return %x : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        ("default", None),
        ("{1,0}", None),
        ("auto", (((1, 0),), (None,))),
        ("{0,1}", (((1, 0),), ((0, 1),))),
        ("{0,1:E(4)}", (((1, 0),), ((0, 1),))),
    ],
)
def test_layouts_are_kept(layout: str, found: object) -> None:
    module = parse_stablehlo(LAYOUTS.replace("LAYOUT", layout))
    assert str(module.result_shape) == "f32[2,3]{1,0}"
    assert take_entry_layouts(module) == found
    assert take_entry_layouts(module) is None


@pytest.mark.parametrize("layout", ["{1,0:T(2,128)}", "{0}", "{0,0}", "{}", "row"])
def test_invalid_dimension_orders_are_refused(layout: str) -> None:
    with pytest.raises(UnsupportedError, match=r"result 0 is wanted in the layout ") as caught:
        parse_stablehlo(LAYOUTS.replace("LAYOUT", layout))
    assert caught.value.diagnostic.code == "INGOT0354"


def test_memory_kinds_of_results_are_kept() -> None:
    text = """
func.func @main(%x: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32> {mhlo.memory_kind = "pinned_host"}) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
"""
    assert read_memory_kinds(parse_stablehlo(text)) == ("device", "pinned_host")
    assert read_memory_kinds(parse_stablehlo(LAYOUTS.replace("LAYOUT", "auto"))) == ()


# ---- ops that the specification no longer has, and defaults


@pytest.mark.parametrize(
    ("config", "left", "right"),
    [
        ("ab,bc->ac", (2, 3), (3, 4)),
        ("...bc,...cd->d...b", (2, 5, 3), (2, 3, 4)),
        ("ab,bc->c", (2, 5), (5, 4)),
        ("abc,bd->acdb", (2, 3, 4), (3, 5)),
    ],
)
def test_einsum(config: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    values = [generator.normal(size=dims).astype("f") for dims in (left, right)]
    want = np.einsum(config, *values)
    kinds = [f"tensor<{'x'.join(map(str, dims))}xf32>" for dims in (left, right, want.shape)]
    module = function(
        f"(%x: {kinds[0]}, %y: {kinds[1]}) -> {kinds[2]}",
        f"""%r = "stablehlo.einsum"(%x, %y) {{einsum_config = "{config}"}}
              : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}
            return %r : {kinds[2]}""",
    )
    np.testing.assert_allclose(evaluate(module, values), want, rtol=1e-5, atol=1e-6)


def test_unary_einsum_and_labels_that_do_not_fit() -> None:
    text = """%r = "stablehlo.unary_einsum"(%x) {{einsum_config = "{}"}}
                : (tensor<2x3xf32>) -> tensor<3xf32>
              return %r : tensor<3xf32>"""
    signature = "(%x: tensor<2x3xf32>) -> tensor<3xf32>"
    found = evaluate(function(signature, text.format("ab->b")), [np.ones((2, 3), "f")])
    np.testing.assert_array_equal(found, [2, 2, 2])
    for config, why in (("aa->a", "stands twice"), ("ab->c", "in no operand"), ("ab", "not fit")):
        with pytest.raises(UnsupportedError, match=why):
            function(signature, text.format(config))


@pytest.mark.parametrize(
    ("dim", "batch", "indices", "result"),
    [(0, 0, (3,), (3, 5, 3)), (1, 0, (2, 2), (2, 2, 2, 3)), (1, 1, (2, 4), (2, 4, 3)),
     (-1, 1, (2, 4), (2, 5, 4))],
)  # fmt: skip
def test_torch_index_select(
    dim: int, batch: int, indices: tuple[int, ...], result: tuple[int, ...]
) -> None:
    value = np.arange(30, dtype="i4").reshape(2, 5, 3)
    places = np.random.default_rng(1).integers(0, 2, indices).astype("i4")
    rows = zip(value, places, strict=True) if batch else [(value, places)]
    parts = [np.take(row, places, axis=dim - batch if dim > 0 else dim) for row, places in rows]
    want = np.stack(parts) if batch else parts[0]
    kinds = [f"tensor<{'x'.join(map(str, dims))}xi32>" for dims in (indices, result)]
    module = function(
        f"(%x: tensor<2x5x3xi32>, %i: {kinds[0]}) -> {kinds[1]}",
        f"""%r = "stablehlo.torch_index_select"(%x, %i)
               {{dim = {dim} : i64, batch_dims = {batch} : i64}}
               : (tensor<2x5x3xi32>, {kinds[0]}) -> {kinds[1]}
            return %r : {kinds[1]}""",
    )
    np.testing.assert_array_equal(evaluate(module, [value, places]), want)


@pytest.mark.parametrize(("given", "axis"), [("", 1), ("{dimension = -2 : i64}", 0)])
def test_a_sort_that_says_no_dimension_takes_the_last(given: str, axis: int) -> None:
    module = function(
        "(%x: tensor<2x3xi32>) -> tensor<2x3xi32>",
        f"""%r = "stablehlo.sort"(%x) ({{
              ^bb0(%a: tensor<i32>, %b: tensor<i32>):
              %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            }}) {given} : (tensor<2x3xi32>) -> tensor<2x3xi32>
            return %r : tensor<2x3xi32>""",
    )
    assert module.entry.root.attributes.dimensions == (axis,)
