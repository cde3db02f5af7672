# SPDX-License-Identifier: Apache-2.0
"""One line of every op over arrays without elements, for `cpu.test_empty_arrays`.

`T` stands for an element type, `0` where a dimension is empty. A row is the parameters' shapes, the
op (its operands are a, b, ...), and the computations that it calls.
"""

from __future__ import annotations

Row = tuple[tuple[str, ...], str, str]

ADD = "%f {\n p = T[] parameter(0)\n q = T[] parameter(1)\n ROOT r = T[] add(p, q)\n}\n"
LATER = "%f {\n p = T[] parameter(0)\n q = T[] parameter(1)\n ROOT r = T[] subtract(q, p)\n}\n"
LESS = (
    "%l {\n p = T[] parameter(0)\n q = T[] parameter(1)\n"
    " ROOT r = pred[] compare(p, q), direction=LT\n}\n"
)
BOTH = (
    "%b {\n p = T[] parameter(0)\n q = s32[] parameter(1)\n s = T[] parameter(2)\n"
    " t = s32[] parameter(3)\n u = T[] add(p, s)\n v = s32[] add(q, t)\n"
    " ROOT r = (T[], s32[]) tuple(u, v)\n}\n"
)
PAIRS = (
    "%l {\n p = T[] parameter(0)\n q = T[] parameter(1)\n s = s32[] parameter(2)\n"
    " t = s32[] parameter(3)\n ROOT r = pred[] compare(p, q), direction=LT\n}\n"
)
ROWS = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,%s}"
)
INTO = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=%f"
)
WINDOWS = (
    "update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, "
    "index_vector_dim=0"
)
SCALARS = "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}"

CASES: dict[str, Row] = {
    "gather rows": (("T[4,3]", "s32[0]"), "T[0,3] gather(a, b), " + ROWS % 3, ""),
    "gather of width 0": (("T[4,0]", "s32[2]"), "T[2,0] gather(a, b), " + ROWS % 0, ""),
    "gather windows of no rows": (
        ("T[0,3]", "s32[2,1]"),
        "T[2,0,3] gather(a, b), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={0,3}", "",
    ),
    "gather from nothing": (
        ("T[0,3]", "s32[2,1]"),
        "T[2,3] gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={0,3}", "",
    ),
    "gather without index": (
        ("T[4,3]", "s32[2,0]"),
        "T[2,4,3] gather(a, b), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={}, "
        "index_vector_dim=1, slice_sizes={4,3}", "",
    ),
    "scatter into nothing": (
        ("T[0,3]", "s32[1]", "T[1,3]"), "T[0,3] scatter(a, b, c), " + INTO, ADD,
    ),
    "scatter many into nothing": (
        ("T[0,3]", "s32[2]", "T[2,3]"), "T[0,3] scatter(a, b, c), " + INTO, ADD,
    ),
    "scatter nothing": (("T[4,3]", "s32[0]", "T[0,3]"), "T[4,3] scatter(a, b, c), " + INTO, ADD),
    "scatter rows of width 0": (
        ("T[4,0]", "s32[1]", "T[1,0]"), "T[4,0] scatter(a, b, c), " + INTO, ADD,
    ),
    "scatter windows of width 0": (
        ("T[4,3]", "s32[1]", "T[1,0]"), "T[4,3] scatter(a, b, c), " + INTO, ADD,
    ),
    "scatter a window": (
        ("T[0,3]", "s32[2]", "T[0,2]"), f"T[0,3] scatter(a, b, c), {WINDOWS}, to_apply=%f", LATER,
    ),
    "scatter an empty window": (
        ("T[4,3]", "s32[2]", "T[0,2]"), f"T[4,3] scatter(a, b, c), {WINDOWS}, to_apply=%f", LATER,
    ),
    "scatter a scalar": (
        ("T[0,3]", "s32[2]", "T[]"),
        f"T[0,3] scatter(a, b, c), {SCALARS}, index_vector_dim=0, to_apply=%f", LATER,
    ),
    "scatter two into nothing": (
        ("T[0,3]", "s32[0,3]", "s32[1]", "T[1,3]", "s32[1,3]"),
        "(T[0,3], s32[0,3]) scatter(a, b, c, d, e), " + INTO.replace("%f", "%b"), BOTH,
    ),
    "dynamic-slice of nothing": (
        ("T[0,3]", "s32[]", "s32[]"),
        "T[0,2] dynamic-slice(a, b, c), dynamic_slice_sizes={0,2}", "",
    ),
    "dynamic-slice to nothing": (
        ("T[4,3]", "s32[]", "s32[]"),
        "T[0,2] dynamic-slice(a, b, c), dynamic_slice_sizes={0,2}", "",
    ),
    "dynamic-update-slice of nothing": (
        ("T[0,3]", "T[0,2]", "s32[]", "s32[]"), "T[0,3] dynamic-update-slice(a, b, c, d)", "",
    ),
    "dynamic-update-slice by nothing": (
        ("T[4,3]", "T[0,2]", "s32[]", "s32[]"), "T[4,3] dynamic-update-slice(a, b, c, d)", "",
    ),
    "sort of nothing": (("T[0]",), "T[0] sort(a), dimensions={0}, to_apply=%l", LESS),
    "sort of empty rows": (("T[4,0]",), "T[4,0] sort(a), dimensions={1}, to_apply=%l", LESS),
    "sort of no rows": (("T[0,4]",), "T[0,4] sort(a), dimensions={1}, to_apply=%l", LESS),
    "sort of pairs": (
        ("T[0,4]", "s32[0,4]"), "(T[0,4], s32[0,4]) sort(a, b), dimensions={1}, to_apply=%l", PAIRS,
    ),
    "topk of no rows": (("T[0,4]",), "(T[0,2], s32[0,2]) topk(a), k=2, largest=true", ""),
    "topk of nothing": (("T[3,0]",), "(T[3,0], s32[3,0]) topk(a), k=0, largest=true", ""),
    "topk of none": (("T[3,5]",), "(T[3,0], s32[3,0]) topk(a), k=0, largest=true", ""),
    "reduce nothing": (("T[0]", "T[]"), "T[] reduce(a, b), dimensions={0}, to_apply=%f", ADD),
    "reduce empty rows": (("T[4,0]", "T[]"), "T[4] reduce(a, b), dimensions={1}, to_apply=%f", ADD),
    "reduce empty columns": (
        ("T[0,4]", "T[]"), "T[4] reduce(a, b), dimensions={0}, to_apply=%f", ADD,
    ),
    "reduce no rows": (("T[0,4]", "T[]"), "T[0] reduce(a, b), dimensions={1}, to_apply=%f", ADD),
    "reduce all of nothing": (
        ("T[3,0,4]", "T[]"), "T[] reduce(a, b), dimensions={0,1,2}, to_apply=%f", ADD,
    ),
    "reduce pairs of nothing": (
        ("T[4,0]", "s32[4,0]", "T[]", "s32[]"),
        "(T[4], s32[4]) reduce(a, b, c, d), dimensions={1}, to_apply=%b", BOTH,
    ),
    "reduce no pairs": (
        ("T[0,4]", "s32[0,4]", "T[]", "s32[]"),
        "(T[0], s32[0]) reduce(a, b, c, d), dimensions={1}, to_apply=%b", BOTH,
    ),
    "reduce-window of nothing": (
        ("T[0,4]", "T[]"), "T[0,3] reduce-window(a, b), window={size=1x2}, to_apply=%f", ADD,
    ),
    "reduce-window over padding": (
        ("T[0]", "T[]"), "T[3] reduce-window(a, b), window={size=2 pad=2_2}, to_apply=%f", ADD,
    ),
    "reduce-window longer than all": (
        ("T[2]", "T[]"), "T[0] reduce-window(a, b), window={size=3}, to_apply=%f", ADD,
    ),
    "select-and-scatter of nothing": (
        ("T[0,4]", "T[0,3]", "T[]"),
        "T[0,4] select-and-scatter(a, b, c), window={size=1x2}, select=%l, scatter=%f", LESS + ADD,
    ),
    "select-and-scatter by nothing": (
        ("T[2]", "T[0]", "T[]"),
        "T[2] select-and-scatter(a, b, c), window={size=3}, select=%l, scatter=%f", LESS + ADD,
    ),
    "dot of no rows": (
        ("T[0,3]", "T[3,4]"),
        "T[0,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "",
    ),
    "dot over nothing": (
        ("T[2,0]", "T[0,4]"),
        "T[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "",
    ),
    "dot of no batches": (
        ("T[0,2,3]", "T[0,3,4]"),
        "T[0,2,4] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}", "",
    ),
    "dot of vectors of nothing": (
        ("T[0]", "T[0]"), "T[] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "",
    ),
    "convolution of no images": (
        ("T[0,5,2]", "T[3,2,4]"),
        "T[0,3,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f", "",
    ),
    "convolution of no features": (
        ("T[1,5,0]", "T[3,0,4]"),
        "T[1,3,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f", "",
    ),
    "convolution to no features": (
        ("T[1,5,2]", "T[3,2,0]"),
        "T[1,3,0] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f", "",
    ),
    "convolution over padding": (
        ("T[1,0,2]", "T[3,2,4]"),
        "T[1,2,4] convolution(a, b), window={size=3 pad=2_2}, dim_labels=b0f_0io->b0f", "",
    ),
    "pad nothing": (("T[0,3]", "T[]"), "T[2,4] pad(a, b), padding=1_1_0x0_1_0", ""),
    "pad nothing inside": (("T[0,3]", "T[]"), "T[0,5] pad(a, b), padding=0_0_1x0_0_1", ""),
    "pad away": (("T[2,3]", "T[]"), "T[0,3] pad(a, b), padding=-1_-1_0x0_0_0", ""),
    "concatenate nothing": (
        ("T[0,3]", "T[2,3]", "T[0,3]"), "T[2,3] concatenate(a, b, c), dimensions={0}", "",
    ),
    "concatenate only nothing": (
        ("T[0,3]", "T[0,3]"), "T[0,3] concatenate(a, b), dimensions={0}", "",
    ),
    "slice to nothing": (("T[4,3]",), "T[0,3] slice(a), slice={[2:2],[0:3]}", ""),
    "reverse nothing": (("T[0,3]",), "T[0,3] reverse(a), dimensions={0,1}", ""),
    "transpose nothing": (("T[0,3]",), "T[3,0] transpose(a), dimensions={1,0}", ""),
    "reshape nothing": (("T[0,3]",), "T[7,0,2] reshape(a)", ""),
    "broadcast to nothing": (("T[3]",), "T[0,3] broadcast(a), dimensions={1}", ""),
    "iota of nothing": ((), "T[0,3] iota(), iota_dimension=1", ""),
    "map of nothing": (("T[0]", "T[0]"), "T[0] map(a, b), dimensions={0}, to_apply=%f", ADD),
    "clamp of nothing": (("T[]", "T[0]", "T[]"), "T[0] clamp(a, b, c)", ""),
    "select of nothing": (("pred[0]", "T[0]", "T[0]"), "T[0] select(a, b, c)", ""),
    "convert nothing": (("T[0]",), "s8[0] convert(a)", ""),
    "call": (("T[0]", "T[0]"), "T[0] call(a, b), to_apply=%g",
             "%g {\n p = T[0] parameter(0)\n q = T[0] parameter(1)\n ROOT r = T[0] add(p, q)\n}\n"),
}  # fmt: skip
COUNTED = """%more {
 s = (s32[], T[0], T[2]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT
}
%step {
 s = (s32[], T[0], T[2]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 x = T[0] get-tuple-element(s), index=1
 y = T[2] get-tuple-element(s), index=2
 n = s32[] constant(1)
 j = s32[] add(i, n)
 v = T[0] add(x, x)
 w = T[2] add(y, y)
 ROOT r = (s32[], T[0], T[2]) tuple(j, v, w)
}
%loop {
 p = T[0] parameter(0)
 q = T[2] parameter(1)
 z = s32[] constant(0)
 t = (s32[], T[0], T[2]) tuple(z, p, q)
 ROOT o = (s32[], T[0], T[2]) while(t), condition=%more, body=%step
}
"""
SMALL = """%more {
 s = T[0] parameter(0)
 ROOT r = pred[] constant(false)
}
%step {
 s = T[0] parameter(0)
 ROOT r = T[0] add(s, s)
}
"""
BRANCHES = """%yes {
 s = T[0] parameter(0)
 ROOT r = T[0] add(s, s)
}
%no {
 s = T[0] parameter(0)
 ROOT r = T[0] copy(s)
}
"""
CASES |= {
    "while over some": (
        ("T[0]", "T[2]"), "(s32[], T[0], T[2]) call(a, b), to_apply=%loop", COUNTED,
    ),
    "while over nothing": (("T[0]",), "T[0] while(a), condition=%more, body=%step", SMALL),
    "conditional over nothing": (
        ("pred[]", "T[0]"),
        "T[0] conditional(a, b, b), true_computation=%yes, false_computation=%no", BRANCHES,
    ),
}  # fmt: skip
FLOATS: dict[str, Row] = {
    "exponential": (("T[0,3]",), "T[0,3] exponential(a)", ""),
    "batch norm": (
        ("T[0,3]", "T[3]", "T[3]", "T[3]", "T[3]"),
        "T[0,3] batch-norm-inference(a, b, c, d, e), epsilon=0.1, feature_index=1", "",
    ),
    "cholesky of no matrices": (("T[0,3,3]",), "T[0,3,3] cholesky(a), lower=true", ""),
    "cholesky of empty matrices": (("T[2,0,0]",), "T[2,0,0] cholesky(a), lower=true", ""),
    "triangular-solve of no matrices": (
        ("T[0,3,3]", "T[0,3,2]"),
        "T[0,3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
    ),
    "triangular-solve of empty matrices": (
        ("T[2,0,0]", "T[2,0,2]"),
        "T[2,0,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
    ),
    "triangular-solve of nothing": (
        ("T[3,3]", "T[3,0]"),
        "T[3,0] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE", "",
    ),
    "fft of no rows": (("T[0,4]",), "C[0,3] fft(a), fft_type=RFFT, fft_length={4}", ""),
    "fft of nothing": (("C[2,0]",), "C[2,0] fft(a), fft_type=FFT, fft_length={0}", ""),
}  # fmt: skip
