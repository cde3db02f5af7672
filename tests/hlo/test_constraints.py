"""Every family's constraints: a bad op is refused with the label of what it breaks."""

from __future__ import annotations

from typing import Any

import pytest

from ingot.hlo.builder import Builder, scalar_computation, shape_of
from ingot.hlo.computation import Computation
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension
from ingot.support.diagnostics import VerifyError

_ADD = scalar_computation("add", "f32")
_LESS = Builder("less")
_LESS.build(_LESS.compare(_LESS.parameter(0, "f32[]"), _LESS.parameter(1, "f32[]"), direction="LT"))


def _zero(name: str, given: str) -> Computation:
    """Return a computation from an f32 to a zero of another type."""
    b = Builder(name)
    b.parameter(0, "f32[]")
    return b.build(b.constant(0, given))


_TO_F32 = _zero("to_f32", "f32")
_TO_S32 = _zero("to_s32", "s32")
_TO_PRED = _zero("to_pred", "pred")

_ROWS: dict[str, Any] = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}
_INTO: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
    "to_apply": _ADD,
}
_GATHERED = ("f32[4,3]", "s32[5]")
_SCATTERED = ("f32[4,3]", "s32[5]", "f32[5,3]")
_BATCHED = {"operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
            "collapsed_slice_dims": (), "start_index_map": ()}  # fmt: skip
_PAIR = (WindowDimension(2),)
_CONVOLUTION: dict[str, Any] = {"window": _PAIR, "dim_labels": "b0f_0io->b0f"}
_POOL: dict[str, Any] = {"window": _PAIR, "to_apply": _ADD}
_CHOOSE: dict[str, Any] = {"window": _PAIR, "select": _LESS.computation, "scatter": _ADD}
_STATE = Shape.tuple((shape_of("u64[2]"), shape_of("u32[3]")))


def _pair(name: str, first: str, second: str, given: str) -> Computation:
    """Return a sum of two values in the type `given`."""
    b = Builder(name)
    terms = [b.parameter(number, shape) for number, shape in enumerate((first, second))]
    like = shape_of(given)
    return b.build(b.add(*(b.convert_to(term, like.dtype) for term in terms)))


_ADD64, _ADD16, _ADD_S32 = (scalar_computation("add", name) for name in ("f64", "bf16", "s32"))
_MIXED = _pair("mixed", "f32[]", "f64[]", "f32[]")
_GIVES_F64 = _pair("gives_f64", "f32[]", "f32[]", "f64[]")
_OF_ROWS = _pair("of_rows", "f32[1]", "f32[1]", "f32[1]")


def _mixed_rows(region: Computation) -> list[tuple[str, str, tuple[str, ...], dict[str, Any], Any]]:
    """Return every op that combines f32 with a computation, by one that does not take f32."""
    return [
        ("reduce_c6", "reduce", ("f32[3]", "f32[]"),
         {"dimensions": (0,), "to_apply": region}, None),
        ("reduce_window_c13", "reduce-window", ("f32[4]", "f32[]"),
         {**_POOL, "to_apply": region}, None),
        ("select_and_scatter_c10", "select-and-scatter", ("f32[4]", "f32[3]", "f32[]"),
         {**_CHOOSE, "scatter": region}, None),
        ("scatter_c23", "scatter", _SCATTERED, {**_INTO, "to_apply": region}, None),
        ("all_reduce_c5", "all-reduce", ("f32[3]",), {"to_apply": region}, None),
        ("reduce_scatter_c7", "reduce-scatter", ("f32[4]",),
         {"dimensions": (0,), "to_apply": region}, "f32[2]"),
    ]  # fmt: skip


# label, opcode, operand shapes, attributes, declared shape
_BAD: list[tuple[str, str, tuple[str, ...], dict[str, Any], Any]] = [
    ("add_c1", "add", ("f32[2]", "f32[3]"), {}, None),
    ("add_c1", "add", ("f32[2]", "s32[2]"), {}, None),
    ("and_i1", "and", ("f32[2]", "f32[2]"), {}, None),
    ("erf_i1", "erf", ("s32[2]",), {}, None),
    ("tanh_i1", "tanh", ("pred[2]",), {}, None),
    ("compare_c1", "compare", ("f32[2]", "s32[2]"), {"direction": "EQ"}, None),
    ("compare_i3", "compare", ("f32[2]", "f32[2]"), {"direction": "XX"}, None),
    ("select_i1", "select", ("f32[2]", "f32[2]", "f32[2]"), {}, None),
    ("select_c1", "select", ("pred[3]", "f32[2]", "f32[2]"), {}, None),
    ("select_c2", "select", ("pred[2]", "f32[2]", "s32[2]"), {}, None),
    ("clamp_c1", "clamp", ("f32[3]", "f32[2]", "f32[]"), {}, None),
    ("clamp_c2", "clamp", ("f32[]", "f32[2]", "f32[3]"), {}, None),
    ("clamp_c3", "clamp", ("s32[]", "f32[2]", "f32[]"), {}, None),
    ("complex_c1", "complex", ("f32[2]", "f64[2]"), {}, None),
    ("complex_c2", "complex", ("f16[2]", "f16[2]"), {}, None),
    ("convert_c1", "convert", ("f32[2]",), {}, "s32[3]"),
    ("reduce_precision_c2", "reduce-precision", ("f32[2]",),
     {"exponent_bits": 0, "mantissa_bits": 1}, None),
    ("reduce_precision_c3", "reduce-precision", ("f32[2]",),
     {"exponent_bits": 1, "mantissa_bits": -1}, None),
    ("broadcast_in_dim_c1", "broadcast", ("f32[2]",), {"dimensions": (0,)}, "s32[2]"),
    ("broadcast_in_dim_c2", "broadcast", ("f32[2]",), {"dimensions": ()}, "f32[2,2]"),
    ("broadcast_in_dim_c3", "broadcast", ("f32[2]",), {"dimensions": (2,)}, "f32[2,2]"),
    ("broadcast_in_dim_c4", "broadcast", ("f32[2,2]",), {"dimensions": (0, 0)}, "f32[2,2]"),
    ("broadcast_in_dim_c5", "broadcast", ("f32[2]",), {"dimensions": (0,)}, "f32[3,2]"),
    ("reshape_c1", "reshape", ("f32[2]",), {}, "s32[2]"),
    ("reshape_c2", "reshape", ("f32[6]",), {}, "f32[4]"),
    ("reshape_c2", "reshape", ("f32[?n,4]",), {}, "f32[?n,3]"),
    ("bitcast_c1", "bitcast", ("f32[2]",), {}, "f64[2]"),
    ("bitcast_convert_c1", "bitcast-convert", ("f32[2]",), {}, "u8[2,3]"),
    ("transpose_c2", "transpose", ("f32[2,3]",), {"dimensions": (0, 0)}, None),
    ("reverse_c2", "reverse", ("f32[2,3]",), {"dimensions": (0, 0)}, None),
    ("reverse_c3", "reverse", ("f32[2,3]",), {"dimensions": (2,)}, None),
    ("slice_c2", "slice", ("f32[2,3]",), {"slice": ((0, 1, 1),)}, None),
    ("slice_c3", "slice", ("f32[3]",), {"slice": ((0, 4, 1),)}, None),
    ("slice_c4", "slice", ("f32[3]",), {"slice": ((0, 3, 0),)}, None),
    ("pad_c1", "pad", ("f32[3]", "s32[]"), {"padding": ((0, 0, 0),)}, None),
    ("pad_c2", "pad", ("f32[3]", "f32[]"), {"padding": ()}, None),
    ("pad_c3", "pad", ("f32[3]", "f32[]"), {"padding": ((0, 0, -1),)}, None),
    ("pad_c4", "pad", ("f32[3]", "f32[]"), {"padding": ((-4, 0, 0),)}, None),
    ("concatenate_c2", "concatenate", ("f32[3]", "s32[3]"), {"dimensions": (0,)}, None),
    ("concatenate_c4", "concatenate", ("f32[3]",), {"dimensions": (1,)}, None),
    ("iota_c1", "iota", (), {"iota_dimension": 1}, "f32[3]"),
    ("dynamic_slice_c2", "dynamic-slice", ("f32[3]",), {"dynamic_slice_sizes": (1,)}, None),
    ("dynamic_slice_c3", "dynamic-slice", ("f32[3]", "f32[]"), {"dynamic_slice_sizes": (1,)}, None),
    ("dynamic_slice_c4", "dynamic-slice", ("f32[3]", "s32[]"), {"dynamic_slice_sizes": (4,)}, None),
    ("dynamic_update_slice_c3", "dynamic-update-slice", ("f32[3]", "s32[1]", "s32[]"), {}, None),
    ("dynamic_update_slice_c6", "dynamic-update-slice", ("f32[3]", "f32[4]", "s32[]"), {}, None),
    ("reduce_c1", "reduce", ("f32[3]", "f32[]", "f32[]"),
     {"dimensions": (0,), "to_apply": _ADD}, None),
    ("reduce_c4", "reduce", ("f32[3]", "f32[]"), {"dimensions": (1,), "to_apply": _ADD}, None),
    ("reduce_c5", "reduce", ("f32[3]", "f32[]"), {"dimensions": (0, 0), "to_apply": _ADD}, None),
    ("reduce_c6", "reduce", ("f32[3]", "f32[]"), {"dimensions": (0,), "to_apply": _TO_F32}, None),
    ("map_c1", "map", ("f32[3]", "f32[2]"), {"dimensions": (0,), "to_apply": _ADD}, None),
    ("map_c4", "map", ("f32[3]",), {"dimensions": (0,), "to_apply": _ADD}, None),
    ("dot_general_c1", "dot", ("f32[2,3]", "f32[2,3]"), {"lhs_batch_dims": (0,)}, None),
    ("dot_general_c2", "dot", ("f32[2,3]", "f32[2,3]"), {"lhs_contracting_dims": (0,)}, None),
    ("dot_general_c3", "dot", ("f32[2,3]", "f32[2,3]"),
     {"lhs_contracting_dims": (2,), "rhs_contracting_dims": (0,)}, None),
    ("dot_general_c4", "dot", ("f32[2,3]", "f32[2,3]"),
     {"lhs_contracting_dims": (0,), "rhs_contracting_dims": (2,)}, None),
    ("dot_general_c9", "dot", ("f32[2,3]", "f32[4,3]"),
     {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,)}, None),
    ("dot_general_c10", "dot", ("f32[2,3]", "f32[2,3]"),
     {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}, None),
    ("gather_i2", "gather", ("f32[4,3]", "f32[5]"), _ROWS, None),
    ("gather_c1", "gather", _GATHERED, {**_ROWS, "collapsed_slice_dims": ()}, None),
    ("gather_c2", "gather", _GATHERED, {**_ROWS, "index_vector_dim": 2}, None),
    ("gather_c3", "gather", _GATHERED, {**_ROWS, "start_index_map": (0, 1)}, None),
    ("gather_c4", "gather", ("f32[4,3,2]", "s32[5]"),
     {**_ROWS, "offset_dims": (2, 1), "slice_sizes": (1, 3, 2)}, None),
    ("gather_c5", "gather", _GATHERED, {**_ROWS, "offset_dims": (2,)}, None),
    ("gather_c6", "gather", _GATHERED,
     {**_ROWS, "offset_dims": (), "collapsed_slice_dims": (0,), "slice_sizes": (1, 1),
      "operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}, None),
    ("gather_c7", "gather", ("f32[4,3]", "s32[5]"),
     {**_ROWS, "offset_dims": (), "collapsed_slice_dims": (1, 0), "slice_sizes": (1, 1)}, None),
    ("gather_c8", "gather", _GATHERED, {**_ROWS, "collapsed_slice_dims": (2,)}, None),
    ("gather_c9", "gather", _GATHERED, {**_ROWS, "slice_sizes": (2, 3)}, None),
    ("gather_c11", "gather", ("f32[4,3]", "s32[4,0]"),
     {**_ROWS, **_BATCHED, "operand_batching_dims": (2,)}, None),
    ("gather_c12", "gather", ("f32[4,3]", "s32[4,0]"),
     {**_ROWS, **_BATCHED, "slice_sizes": (2, 3)}, None),
    ("gather_c14", "gather", ("f32[4,3]", "s32[4,0]"),
     {**_ROWS, **_BATCHED, "start_indices_batching_dims": (2,)}, None),
    ("gather_c15", "gather", ("f32[4,3]", "s32[4,0]"),
     {**_ROWS, **_BATCHED, "start_indices_batching_dims": (1,)}, None),
    ("gather_c16", "gather", ("f32[4,3]", "s32[4,0]"),
     {**_ROWS, **_BATCHED, "start_indices_batching_dims": ()}, None),
    ("gather_c17", "gather", ("f32[4,3]", "s32[5,0]"), {**_ROWS, **_BATCHED}, None),
    ("gather_c18", "gather", ("f32[4,3]", "s32[5,2]"), {**_ROWS, "start_index_map": (0, 0)}, None),
    ("gather_c19", "gather", _GATHERED, {**_ROWS, "start_index_map": (2,)}, None),
    ("gather_c20", "gather", _GATHERED, {**_ROWS, "slice_sizes": (1,)}, None),
    ("gather_c21", "gather", _GATHERED, {**_ROWS, "slice_sizes": (1, 4)}, None),
    ("scatter_i2", "scatter", ("f32[4,3]", "f32[5]", "f32[5,3]"), _INTO, None),
    ("scatter_c1", "scatter", ("f32[4,3]", "f32[5,3]", "s32[5]", "f32[5,3]", "f32[5,3]"),
     _INTO, None),
    ("scatter_c2", "scatter", _SCATTERED, {**_INTO, "inserted_window_dims": ()}, None),
    ("scatter_c3", "scatter", ("f32[4,3]", "f32[4,3]", "s32[5]", "f32[5,3]", "f32[5,2]"),
     _INTO, None),
    ("scatter_c4", "scatter", ("f32[4,3]", "s32[5]", "f32[6,3]"), _INTO, None),
    ("scatter_c4", "scatter", ("f32[4,3]", "s32[5]", "f32[5,4]"), _INTO, None),
    ("scatter_c5", "scatter", ("f32[4,3]", "s32[5]", "f32[5,3]", "f32[5,3]"), _INTO, None),
    ("scatter_c6", "scatter", ("f32[4,3]", "s32[5]", "s32[5,3]"), _INTO, None),
    ("scatter_c8", "scatter", _SCATTERED, {**_INTO, "update_window_dims": (2,)}, None),
    ("scatter_c11", "scatter", _SCATTERED, {**_INTO, "inserted_window_dims": (2,)}, None),
    ("scatter_c19", "scatter", _SCATTERED,
     {**_INTO, "scatter_dims_to_operand_dims": (0, 1)}, None),
    ("scatter_c21", "scatter", _SCATTERED,
     {**_INTO, "scatter_dims_to_operand_dims": (2,)}, None),
    ("scatter_c22", "scatter", _SCATTERED, {**_INTO, "index_vector_dim": 2}, None),
    ("scatter_c23", "scatter", _SCATTERED, {**_INTO, "to_apply": _TO_F32}, None),
    ("sort_c3", "sort", ("f32[2]", "f32[3]"),
     {"dimensions": (0,), "to_apply": _LESS.computation}, None),
    ("sort_c4", "sort", ("f32[2]",), {"dimensions": (1,), "to_apply": _LESS.computation}, None),
    ("sort_c5", "sort", ("f32[2]",), {"dimensions": (0,), "to_apply": _ADD}, None),
    ("topk_c1", "topk", ("f32[]",), {"k": 1}, None),
    ("topk_c2", "topk", ("f32[2]",), {"k": 3}, None),
    ("call_c1", "call", ("f32[]",), {"to_apply": _ADD}, None),
    ("while_c1", "while", ("f32[]",), {"condition": _TO_S32, "body": _TO_F32}, None),
    ("while_c1", "while", ("s32[]",), {"condition": _TO_PRED, "body": _TO_F32}, None),
    ("while_c2", "while", ("f32[]",), {"condition": _TO_PRED, "body": _TO_S32}, None),
    ("case_c1", "conditional", ("s32[]", "f32[]"), {"branch_computations": ()}, None),
    ("if_c1", "conditional", ("pred[]", "f32[]"), {"branch_computations": (_TO_F32,)}, None),
    ("case_c2", "conditional", ("s32[]", "s32[]"), {"branch_computations": (_TO_F32,)}, None),
    ("case_c3", "conditional", ("s32[]", "f32[]", "f32[]"),
     {"branch_computations": (_TO_F32, _TO_S32)}, None),
    ("rng_bit_generator_i1", "rng-bit-generator", ("u64[2]",), {"algorithm": "x"}, _STATE),
    ("rng_bit_generator_c1", "rng-bit-generator", ("u64[3]",),
     {"algorithm": "rng_philox"}, _STATE),
    ("rng_bit_generator_c2", "rng-bit-generator", ("u64[4]",), {"algorithm": "rng_philox"},
     Shape.tuple((shape_of("u64[4]"), shape_of("u32[3]")))),
    ("rng_i4", "rng", ("f32[]", "f32[]"), {"distribution": "x"}, "f32[3]"),
    ("rng_c1", "rng", ("f32[]", "s32[]"), {"distribution": "rng_uniform"}, "f32[3]"),
    ("rng_c2", "rng", ("s32[]", "s32[]"), {"distribution": "rng_normal"}, "s32[3]"),
    ("rng_get_and_update_state_c1", "rng-get-and-update-state", (), {"delta": 1}, "u64[3]"),
    ("convolution_c1", "convolution", ("f32[1,4,1]", "f32[2,1]"), _CONVOLUTION, None),
    ("convolution_c10", "convolution", ("f32[3,4,1]", "f32[2,1,2]"),
     {**_CONVOLUTION, "batch_group_count": 2}, None),
    ("convolution_c11", "convolution", ("f32[1,4,3]", "f32[2,1,2]"),
     {**_CONVOLUTION, "feature_group_count": 2}, None),
    ("convolution_c13", "convolution", ("f32[1,4,1]", "f32[2,1,1]"),
     {**_CONVOLUTION, "dim_labels": "b1f_0io->b0f"}, None),
    ("convolution_c14", "convolution", ("f32[1,4,2]", "f32[2,1,1]"), _CONVOLUTION, None),
    ("convolution_c15", "convolution", ("f32[2,4,1]", "f32[2,1,3]"),
     {**_CONVOLUTION, "batch_group_count": 2}, None),
    ("convolution_c16", "convolution", ("f32[1,4,2]", "f32[2,1,3]"),
     {**_CONVOLUTION, "feature_group_count": 2}, None),
    ("convolution_c21", "convolution", ("f32[1,4,1]", "f32[2,1,1]"),
     {**_CONVOLUTION, "feature_group_count": 0}, None),
    ("convolution_c22", "convolution", ("f32[1,4,1]", "f32[2,1,1]"),
     {**_CONVOLUTION, "batch_group_count": 0}, None),
    ("convolution_c23", "convolution", ("f32[2,4,2]", "f32[2,1,2]"),
     {**_CONVOLUTION, "feature_group_count": 2, "batch_group_count": 2}, None),
    ("convolution_c25", "convolution", ("f32[1,4,1]", "f32[3,1,1]"), _CONVOLUTION, None),
    ("reduce_window_c1", "reduce-window", ("f32[4]",), _POOL, None),
    ("reduce_window_c2", "reduce-window", ("f32[4]", "f32[5]", "f32[]", "f32[]"), _POOL, None),
    ("reduce_window_c3", "reduce-window", ("f32[4]", "s32[]"), _POOL, None),
    ("reduce_window_c4", "reduce-window", ("f32[4,4]", "f32[]"), _POOL, None),
    ("reduce_window_c13", "reduce-window", ("f32[4]", "f32[]"),
     {**_POOL, "to_apply": _TO_F32}, None),
    ("select_and_scatter_c2", "select-and-scatter", ("f32[4]", "f32[4]", "f32[]"), _CHOOSE, None),
    ("select_and_scatter_c3", "select-and-scatter", ("f32[4]", "f32[3]", "s32[]"), _CHOOSE, None),
    ("select_and_scatter_c4", "select-and-scatter", ("f32[4,4]", "f32[3]", "f32[]"),
     _CHOOSE, None),
    ("select_and_scatter_c9", "select-and-scatter", ("f32[4]", "f32[3]", "f32[]"),
     {**_CHOOSE, "select": _ADD}, None),
    ("select_and_scatter_c10", "select-and-scatter", ("f32[4]", "f32[3]", "f32[]"),
     {**_CHOOSE, "scatter": _TO_F32}, None),
    *(row for mixed in (_ADD64, _ADD16, _ADD_S32, _MIXED, _GIVES_F64, _OF_ROWS)
      for row in _mixed_rows(mixed)),
    ("reduce_c2", "reduce", ("f64[3]", "f32[]"), {"dimensions": (0,), "to_apply": _ADD64}, None),
    ("reduce_c2", "reduce", ("f32[3]", "f64[]"), {"dimensions": (0,), "to_apply": _ADD}, None),
    ("reduce_c2", "reduce", ("f32[3]", "f32[1]"), {"dimensions": (0,), "to_apply": _ADD}, None),
    ("reduce_window_c3", "reduce-window", ("f64[4]", "f32[]"), _POOL, None),
    ("select_and_scatter_c3", "select-and-scatter", ("f64[4]", "f64[3]", "f32[]"), _CHOOSE, None),
    ("select_and_scatter_c9", "select-and-scatter", ("f64[4]", "f64[3]", "f64[]"),
     {**_CHOOSE, "scatter": _ADD64}, None),
    ("scatter_c6", "scatter", ("f64[4,3]", "s32[5]", "f32[5,3]"), _INTO, None),
    ("scatter_c23", "scatter", ("f64[4,3]", "s32[5]", "f64[5,3]"), _INTO, None),
    ("sort_c5", "sort", ("f64[2]",), {"dimensions": (0,), "to_apply": _LESS.computation}, None),
    ("sort_c5", "sort", ("f32[2]", "s32[2]"),
     {"dimensions": (0,), "to_apply": _LESS.computation}, None),
    ("map_c4", "map", ("f64[3]",), {"dimensions": (0,), "to_apply": _TO_F32}, None),
    ("map_c4", "map", ("f32[3]", "f32[3]"), {"dimensions": (0,), "to_apply": _OF_ROWS}, None),
    ("all_reduce_c5", "all-reduce", ("f32[3]", "s32[3]"), {"to_apply": _ADD}, None),
    ("get_tuple_element_i1", "get-tuple-element", ("f32[]",), {"index": 0}, None),
    ("fusion_c1", "fusion", ("f32[]",), {"kind": "kLoop", "calls": _ADD}, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "opcode", "operands", "attributes", "declared"),
    _BAD,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(_BAD)],
)
def test_refused(
    label: str, opcode: str, operands: tuple[str, ...], attributes: dict[str, Any], declared: Any
) -> None:
    b = Builder("f")
    given = [b.parameter(number, shape) for number, shape in enumerate(operands)]
    with pytest.raises(VerifyError) as caught:
        b.emit(opcode, *given, shape=declared, **attributes)
    assert caught.value.diagnostic.notes == (f"constraint {label}",)
    assert caught.value.diagnostic.code == "INGOT0210"
    assert len(b.computation) == len(given)  # nothing was added
