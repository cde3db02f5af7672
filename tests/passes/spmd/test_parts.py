# SPDX-License-Identifier: Apache-2.0
"""Every device's part of a program, put together, is what the program gives whole.

The partitioned program runs on the evaluator, once per partition, from parts of random arguments.
Where parts are enough, no value may be gathered; where devices must meet, the text says how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.passes.spmd.parts import part_of

from ingot.evaluator import evaluate, evaluate_replicated
from ingot.formats.hlo_text import parse, print_module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition

ROWS = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"
COLUMNS = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
BOTH = "{devices=[2,2]<=[4]}"
TURNED = "{devices=[2,2]3,1,0,2}"
FOUR = "{devices=[4]<=[4]}"
ALL_ROWS = "{devices=[4,1]<=[4]}"
ALL_COLUMNS = "{devices=[1,4]<=[4]}"
LONG = "{devices=[4,1,1]<=[4]}"
CUBE = "{devices=[2,1,2]<=[4]}"
IMAGES = "{devices=[2,1,1,2]<=[4]}"
IMAGE_ROWS = "{devices=[1,4,1,1]<=[4]}"
PERMUTE = ("collective-permute",)
KERNELS = "{devices=[1,1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
COMBINERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
largest {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  before = pred[] compare(a, b), direction=GE
  value = f32[] select(before, a, b)
  place = s32[] select(before, i, j)
  ROOT both = (f32[], s32[]) tuple(value, place)
}
"""


@dataclass(frozen=True)
class Case:
    """A program's lines and which collectives its parts need."""

    name: str
    text: str
    meets: tuple[str, ...] = ()
    computations: str = ""


MEETINGS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
X = "x = f32[8,4] parameter(0), sharding="
CASES = [
    Case("elementwise", f"{X}{BOTH} ROOT r = f32[8,4] multiply(x, x)"),
    Case(
        "other way", f"{X}{BOTH} y = f32[8,4] parameter(1), sharding={TURNED} "
        "ROOT r = f32[8,4] add(x, y)", ("collective-permute",),
    ),
    Case("transpose", f"{X}{BOTH} ROOT r = f32[4,8] transpose(x), dimensions={{1,0}}"),
    Case("reshape", f"{X}{BOTH} ROOT r = f32[2,4,4] reshape(x)"),
    Case("merged", f"{X}{ROWS} ROOT r = f32[32] reshape(x)"),
    Case("unfit reshape", f"{X}{COLUMNS} ROOT r = f32[4,8] reshape(x)", ("all-gather",)),
    Case(
        "broadcast", "v = f32[4] parameter(0), sharding={devices=[4]<=[4]} "
        "ROOT r = f32[8,4] broadcast(v), dimensions={1}",
    ),
    Case(
        "sum of all", f"{X}{BOTH} z = f32[] constant(0) "
        "ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add", ("all-reduce",),
    ),
    Case(
        "sum along parts", f"{X}{ROWS} z = f32[] constant(0) "
        "ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    Case(
        "sum from one", f"{X}{ROWS} z = f32[] constant(1) "
        "ROOT r = f32[4] reduce(x, z), dimensions={0}, to_apply=add", ("all-gather",),
    ),
    Case(
        "greatest", f"{X}{TURNED} z = f32[] constant(-inf) "
        "ROOT r = f32[4] reduce(x, z), dimensions={0}, to_apply=max", ("all-reduce",),
    ),
    Case(
        "place of the greatest", f"{X}{ROWS} i = s32[8,4] iota(), iota_dimension=1 "
        "z = f32[] constant(-inf) n = s32[] constant(0) "
        "ROOT r = (f32[8], s32[8]) reduce(x, i, z, n), dimensions={1}, to_apply=largest",
    ),
    Case(
        "product", f"{X}{ROWS} y = f32[4,6] parameter(1), "
        f"sharding={COLUMNS} ROOT r = f32[8,6] dot(x, y), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    Case(
        "contracted product", f"{X}{COLUMNS} y = f32[4,6] parameter(1), "
        "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate} "
        "ROOT r = f32[8,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ("all-reduce",),
    ),
    Case(
        "weights on the same devices", f"{X}{ROWS} y = f32[4,6] parameter(1), sharding={ROWS} "
        "ROOT r = f32[8,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ("all-gather",),
    ),
    Case(
        "batched product", f"x = f32[4,3,2] parameter(0), sharding={CUBE} "
        f"y = f32[4,2,6] parameter(1), sharding={CUBE} ROOT r = f32[4,3,6] dot(x, y), "
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_batch_dims={0}, rhs_contracting_dims={1}", ("all-gather",),
    ),
    Case("slice", f"{X}{ROWS} ROOT r = f32[8,2] slice(x), slice={{[0:8], [1:3]}}"),
    Case("cut rows", f"{X}{ROWS} ROOT r = f32[4,4] slice(x), slice={{[1:8:2], [0:4]}}"),
    Case(
        "dynamic slice", f"{X}{ROWS} i = s32[] constant(0) j = s32[] constant(2) "
        "ROOT r = f32[8,2] dynamic-slice(x, i, j), dynamic_slice_sizes={8,2}",
    ),
    Case(
        "update", f"{X}{ROWS} y = f32[8,1] parameter(1) i = s32[] constant(0) "
        "j = s32[] constant(2) ROOT r = f32[8,4] dynamic-update-slice(x, y, i, j)",
    ),
    Case("pad", f"{X}{ROWS} z = f32[] constant(1) ROOT r = f32[8,7] pad(x, z), padding=0_0x1_2"),
    Case("reverse", f"{X}{ROWS} ROOT r = f32[8,4] reverse(x), dimensions={{1}}"),
    Case("join", f"{X}{ROWS} ROOT r = f32[8,8] concatenate(x, x), dimensions={{1}}"),
    Case("sort", f"{X}{ROWS} ROOT r = f32[8,4] sort(x), dimensions={{1}}, to_apply=less"),
    Case("sort of parts", f"{X}{ROWS} ROOT r = f32[8,4] sort(x), dimensions={{0}}, to_apply=less",
         ("all-gather",)),
    Case(
        "take", "t = f32[8,4] parameter(0) i = s32[6] parameter(1), "
        "sharding={devices=[2,2]<=[4] last_tile_dim_replicate} "
        "ROOT r = f32[6,4] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    ),
    Case(
        "scatter",
        "z = f32[] constant(0) t = f32[5,4] broadcast(z), dimensions={} "
        "i = s32[8] parameter(0), sharding={devices=[2,2]<=[4] last_tile_dim_replicate} "
        f"u = f32[8,4] parameter(1), sharding={ROWS} ROOT r = f32[5,4] scatter(t, i, u), "
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add",
        ("all-reduce",),
    ),
    Case(
        "convolution", f"x = f32[2,6,6,4] parameter(0), sharding={IMAGES} "
        f"k = f32[3,3,4,2] parameter(1), sharding={KERNELS} ROOT r = f32[2,4,4,2] "
        "convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f", ("all-reduce",),
    ),
    Case("fft", f"{X}{ALL_ROWS} ROOT r = c64[8,3] fft(x), fft_type=RFFT, fft_length={{4}}"),
    Case(
        "constraint", f"{X}{BOTH} d = f32[8,4] add(x, x) "
        f"c = f32[8,4] custom-call(d), custom_call_target=\"Sharding\", sharding={TURNED} "
        "ROOT r = f32[8,4] negate(c)", ("collective-permute",),
    ),
    Case(
        "uneven constraint", "x = f32[7,4] parameter(0) "
        f"c = f32[7,4] custom-call(x), custom_call_target=\"Sharding\", sharding={ROWS} "
        "ROOT r = f32[7,4] negate(c)",
    ),
    Case(
        "wanted result", f"{X}{BOTH} ROOT r = f32[8,4] copy(x), sharding={TURNED}",
        ("collective-permute",),
    ),
    Case(
        "columns for rows", f"{X}{ALL_ROWS} ROOT r = f32[8,4] copy(x), sharding={ALL_COLUMNS}",
        ("all-to-all",),
    ),
    Case(
        "rows for columns", f"{X}{ALL_COLUMNS} ROOT r = f32[8,4] copy(x), sharding={ALL_ROWS}",
        ("all-to-all",),
    ),
    Case(
        "half of the rows for columns", f"x = f32[8,4,2] parameter(0), sharding={LONG} "
        f"ROOT r = f32[8,4,2] copy(x), sharding={CUBE}", ("all-to-all",),
    ),
    Case(
        "sum by rows", f"{X}{COLUMNS} y = f32[4,6] parameter(1), "
        "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate} "
        "d = f32[8,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} "
        "ROOT r = f32[8,6] copy(d), "
        "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        ("reduce-scatter",),
    ),
    Case(
        "counted", f"{X}{BOTH} i = s32[8,4] iota(), iota_dimension=0, sharding={BOTH} "
        "c = f32[8,4] convert(i) ROOT r = f32[8,4] add(x, c)",
    ),
    Case(
        "counted in numbers that wrap or round", "x = f32[520] parameter(0), sharding={FOUR} "
        "i = bf16[520] iota(), iota_dimension=0, sharding={FOUR} "
        "j = u8[520] iota(), iota_dimension=0, sharding={FOUR} "
        "c = f32[520] convert(i) d = f32[520] convert(j) a = f32[520] add(x, c) "
        "ROOT r = f32[520] add(a, d)".replace("{FOUR}", FOUR),
    ),
    Case(
        "said of an op", f"{X}{{replicated}} a = f32[8,4] add(x, x), sharding={ROWS} "
        "ROOT r = f32[8,4] negate(a)",
    ),
    Case(
        "said of elements", f"{X}{{replicated}} "
        f"t = (f32[8,2], s32[8,2]) topk(x), k=2, largest=true, sharding={{{ROWS}, {ROWS}}} "
        "v = f32[8,2] get-tuple-element(t), index=0 i = s32[8,2] get-tuple-element(t), index=1 "
        "c = f32[8,2] convert(i) ROOT r = f32[8,2] add(v, c)",
    ),
    Case(
        "windows", f"{X}{ROWS} z = f32[] constant(0) "
        "ROOT r = f32[8,4] reduce-window(x, z), window={size=1x2 pad=0_0x1_0}, to_apply=add",
    ),
    Case(
        "bits", f"{X}{BOTH} b = u32[8,4] bitcast-convert(x) s = u16[8,4,2] bitcast-convert(b) "
        "w = u32[8,4] bitcast-convert(s) ROOT r = f32[8,4] bitcast-convert(w)",
    ),
    Case(
        "barrier", f"{X}{ROWS} y = f32[4] parameter(1) "
        "t = (f32[8,4], f32[4]) tuple(x, y) b = (f32[8,4], f32[4]) opt-barrier(t) "
        "u = f32[8,4] get-tuple-element(b), index=0 v = f32[4] get-tuple-element(b), index=1 "
        "w = f32[8,4] broadcast(v), dimensions={1} ROOT r = f32[8,4] add(u, w)",
    ),
    Case(
        "batched take", f"{X}{ALL_ROWS} i = s32[8,3] parameter(1), sharding={ALL_ROWS} "
        "ROOT r = f32[8,3] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, "
        "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
        "index_vector_dim=2, slice_sizes={1,1}",
    ),
    Case(
        "take of divided rows", f"{X}{COLUMNS} i = s32[6] parameter(1) "
        "ROOT r = f32[6,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    ),
    Case(
        "batched scatter", f"{X}{ALL_ROWS} i = s32[8,3] parameter(1), sharding={ALL_ROWS} "
        f"u = f32[8,3] parameter(2), sharding={ALL_ROWS} ROOT r = f32[8,4] scatter(x, i, u), "
        "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
        "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, "
        "to_apply=add",
    ),
    Case(
        "scatter into divided rows", f"{X}{COLUMNS} i = s32[6] parameter(1) "
        f"u = f32[6,4] parameter(2), sharding={COLUMNS} ROOT r = f32[8,4] scatter(x, i, u), "
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add",
    ),
    *(
        Case(name, f"x = f32[{rows},4] parameter(0), sharding={divided} {indices} ROOT r = "
             f"f32[{count},4] gather(x, j), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
             "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}", meets)
        for name, rows, count, divided, indices, meets in (
            ("take along parts", 16, 3, ALL_ROWS, "j = s32[3] parameter(1)", ("all-reduce",)),
            ("take outside", 4, 2, ALL_ROWS, "j = s32[2] parameter(1)", ("all-reduce",)),
            ("take by bytes", 16, 3, ALL_ROWS, "i = s32[3] parameter(1) j = u8[3] convert(i)",
             ("all-reduce",)),
            ("take by unsigned", 4, 2, ALL_ROWS, "i = s32[2] parameter(1) c = s32[] constant(5) "
             "b = s32[2] broadcast(c), dimensions={} k = s32[2] subtract(i, b) "
             "j = u32[2] convert(k)", ("all-reduce",)),
            ("take before", 4, 2, ALL_ROWS, "i = s32[2] parameter(1) c = s32[] constant(5) "
             "b = s32[2] broadcast(c), dimensions={} j = s32[2] subtract(i, b)", ("all-reduce",)),
            ("take by parts of indices", 8, 4, ROWS, "j = s32[4] parameter(1), "
             "sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", ("all-reduce",)),
            ("take by indices of the same parts", 16, 4, ALL_ROWS,
             f"j = s32[4] parameter(1), sharding={FOUR}", ("all-gather",)),
            ("take parts of rows", 8, 3, BOTH, "j = s32[3] parameter(1)", ("all-reduce",)),
            ("take most rows", 8, 6, ALL_ROWS, "j = s32[6] parameter(1)", ("all-gather",)),
        )
    ),
    Case(
        "take along divided columns", "x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]} "
        "i = s32[8,2,1] parameter(1) ROOT r = f32[8,2] gather(x, i), offset_dims={}, "
        "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}", ("all-reduce",),
    ),
    *(
        Case(name, f"x = f32[{rows},4] parameter(0), sharding={divided} {updates} "
             f"ROOT r = f32[{rows},4] scatter({operand}, i, u), update_window_dims={{1}}, "
             "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
             f"to_apply={fold}, sharding={divided}", meets)
        for name, rows, divided, operand, updates, fold, meets in (
            ("scatter into parts", 16, ALL_ROWS, "x",
             "i = s32[5] parameter(1) u = f32[5,4] parameter(2)", "add", ()),
            ("scatter outside of parts", 4, ALL_ROWS, "x",
             "i = s32[5] parameter(1) u = f32[5,4] parameter(2)", "max", ()),
            ("scatter by bytes", 4, ALL_ROWS, "x", "n = s32[5] parameter(1) "
             "i = s8[5] convert(n) u = f32[5,4] parameter(2)", "add", ()),
            ("scatter into parts of both", 8, BOTH, "x",
             "i = s32[5] parameter(1) u = f32[5,4] parameter(2)", "add", ()),
            ("scatter parts into parts", 8, ROWS, "w", "z = f32[] constant(0) "
             f"w = f32[8,4] broadcast(z), dimensions={{}}, sharding={ROWS} i = s32[4] parameter(1),"
             " sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate} "
             "u = f32[4,4] parameter(2)", "add", ("all-reduce",)),
            ("scatter parts into the same parts", 16, ALL_ROWS, "x",
             f"i = s32[4] parameter(1), sharding={FOUR} u = f32[4,4] parameter(2)", "add",
             ("all-gather",)),
        )
    ),
    *(
        Case(name, f"x = f32[2,{rows},5,4] parameter(0), sharding={divided} "
             f"w = f32[{window.split('x')[0]},3,4,6] parameter(1) ROOT r = f32[2,{count},5,6] "
             f"convolution(x, w), window={{size={window}}}, dim_labels=b01f_01io->b01f", meets)
        for name, rows, count, divided, window, meets in (
            ("convolution along parts", 16, 16, IMAGE_ROWS, "3x3 pad=1_1x1_1", PERMUTE),
            ("causal convolution", 16, 16, IMAGE_ROWS, "4x3 pad=3_0x1_1", PERMUTE),
            ("convolution of what comes", 16, 16, IMAGE_ROWS, "3x3 pad=0_2x1_1", PERMUTE),
            ("dilated window", 16, 16, IMAGE_ROWS, "3x3 pad=2_2x1_1 rhs_dilate=2x1", PERMUTE),
            ("convolution by steps", 16, 8, IMAGE_ROWS, "3x3 stride=2x1 pad=1_1x1_1", PERMUTE),
            ("convolution by long steps", 16, 4, IMAGE_ROWS, "2x3 stride=4x1 pad=0_0x1_1", ()),
            ("convolution far over parts", 16, 16, IMAGE_ROWS, "11x3 pad=5_5x1_1",
             ("all-gather",)),
            ("convolution of uneven rows", 16, 14, IMAGE_ROWS, "3x3 pad=0_0x1_1",
             ("all-gather",)),
            ("convolution of parts both ways", 8, 8, "{devices=[1,2,1,2]<=[4]}",
             "3x3 pad=1_1x1_1", ("all-reduce", "collective-permute")),
            ("convolution of turned parts", 8, 8, "{devices=[2,2,1,1]3,1,0,2}", "3x3 pad=1_1x1_1",
             PERMUTE),
        )
    ),
    *(
        Case(name, f"x = f32[2,16,5,4] parameter(0), sharding={IMAGE_ROWS} "
             f"g = f32[2,{rows},5,6] parameter(1), sharding={divided} "
             f"ROOT r = f32[{count},3,4,6] convolution(x, g), window={{size={window}}}, "
             "dim_labels=f01b_i01o->01bf", meets)
        for name, rows, divided, count, window, meets in (
            ("gradient of a filter", 16, IMAGE_ROWS, 3, "16x5 pad=1_1x1_1",
             ("all-reduce", "collective-permute")),
            ("gradient of a causal filter", 16, IMAGE_ROWS, 4, "16x5 pad=3_0x1_1",
             ("all-reduce", "collective-permute")),
            ("gradient of a filter of steps", 8, IMAGE_ROWS, 3, "8x5 pad=1_0x1_1 rhs_dilate=2x1",
             ("all-reduce", "collective-permute")),
            ("gradient of a filter of one", 16, IMAGE_ROWS, 1, "16x5 pad=0_0x1_1",
             ("all-reduce",)),
            ("gradient over a whole image", 16, "{replicated}", 3, "16x5 pad=1_1x1_1",
             ("all-gather",)),
        )
    ),
    *(
        Case(name, f"x = f32[{rows},4] parameter(0), sharding={ALL_ROWS} "
             f"z = f32[] constant({start}) ROOT r = f32[{count},4] reduce-window(x, z), "
             f"window={{size={window}}}, to_apply={fold}", meets)
        for name, rows, count, window, start, fold, meets in (
            ("maxima along parts", 16, 16, "3x1 pad=1_1x0_0", "-inf", "max", PERMUTE),
            ("maxima by steps", 16, 8, "3x1 stride=2x1 pad=0_1x0_0", "-inf", "max", PERMUTE),
            ("sums before", 16, 16, "4x1 pad=3_0x0_0", "0", "add", PERMUTE),
            ("sums from a start", 16, 16, "4x1 pad=3_0x0_0", "2", "add", ("all-gather",)),
            ("sums of steps", 16, 4, "3x1 stride=4x1 pad=0_0x0_0", "0", "add", ()),
            ("sums of all before", 16, 16, "16x1 pad=15_0x0_0", "0", "add", ("all-gather",)),
        )
    ),
    *(
        Case(name, f"x = f32[16,4] parameter(0), sharding={divided} "
             f"a = f32[{rows},4] slice(x), slice={{[{16 - rows}:16], [0:4]}} "
             f"b = f32[{16 - rows},4] slice(x), slice={{[0:{end}], [0:4]}} "
             f"ROOT r = f32[16,4] concatenate(a, b), dimensions={{0}}, sharding={divided}", meets)
        for name, rows, end, divided, meets in (
            ("roll by one", 1, 15, ALL_ROWS, PERMUTE),
            ("roll back by one", 15, 1, ALL_ROWS, PERMUTE),
            ("roll by three", 3, 13, ALL_ROWS, PERMUTE),
            ("roll by a part", 4, 12, ALL_ROWS, PERMUTE),
            ("roll of both", 1, 15, BOTH, PERMUTE),
            ("roll of rows on two devices each", 2, 14, ROWS, PERMUTE),
            ("roll back of turned parts", 13, 3, "{devices=[4,1]2,0,3,1}", PERMUTE),
        )
    ),
    Case(
        "loop", f"{X}{ROWS} n = s32[] constant(3) z = f32[] constant(0) "
        "w = f32[8,4] broadcast(z), dimensions={} "
        "s = (s32[], f32[8,4], f32[8,4]) tuple(n, x, w) "
        "l = (s32[], f32[8,4], f32[8,4]) while(s), condition=more, body=step "
        "ROOT r = f32[8,4] get-tuple-element(l), index=2",
        (),
        """
more { s = (s32[], f32[8,4], f32[8,4]) parameter(0) n = s32[] get-tuple-element(s), index=0
  z = s32[] constant(0) ROOT c = pred[] compare(n, z), direction=GT }
step { s = (s32[], f32[8,4], f32[8,4]) parameter(0) n = s32[] get-tuple-element(s), index=0
  x = f32[8,4] get-tuple-element(s), index=1 w = f32[8,4] get-tuple-element(s), index=2
  one = s32[] constant(1) m = s32[] subtract(n, one) v = f32[8,4] add(w, x)
  ROOT t = (s32[], f32[8,4], f32[8,4]) tuple(m, x, v) }
""",
    ),
    Case(
        "branches", f"{X}{BOTH} p = pred[] constant(true) "
        "ROOT r = f32[8,4] conditional(p, x, x), branch_computations={yes, no}",
        (),
        """
yes { x = f32[8,4] parameter(0) ROOT r = f32[8,4] negate(x) }
no { x = f32[8,4] parameter(0) z = f32[] constant(2)
  ROOT r = f32[8,4] broadcast(z), dimensions={} }
""",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_parts_are_parts_of_the_whole(case: Case):
    header = "HloModule m, num_partitions=4\n"
    text = header + COMBINERS + case.computations + "ENTRY main { " + case.text + " }"
    whole, module = parse(text), parse(text)
    rng = np.random.default_rng(0)
    arguments = [
        rng.integers(0, 8, p.shape.static_dims).astype(np.int32)
        if p.shape.dtype.is_integer
        else rng.standard_normal(p.shape.static_dims).astype(np.float32)
        for p in whole.entry.parameters
    ]
    division = partition(module, 4)
    verify(module)
    printed = print_module(module)
    met = tuple(op for op in MEETINGS if f" {op}(" in printed)
    assert met == case.meets
    assert "sharding=" not in printed

    for instruction in whole.entry.instructions:
        instruction.extra.pop("sharding", None)
    for instruction in [i for i in whole.entry.instructions if i.opcode == "custom-call"]:
        whole.entry.replace(instruction, instruction.operands[0])
    expected = evaluate(whole, arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    given = [
        [part_of(*pair, device) for pair in zip(arguments, division.parameters, strict=True)]
        for device in range(4)
    ]
    for device, found in enumerate(evaluate_replicated(module, given, 1, 4)):
        found = found if isinstance(found, tuple) else (found,)
        for got, want, sharding in zip(found, expected, division.results, strict=True):
            part = part_of(np.asarray(want), sharding, device)
            np.testing.assert_allclose(np.asarray(got), part, rtol=1e-5, atol=1e-5)


TURN = {"<=[4]": "<=[2,2]T(1,0)", "3,1,0,2": "3,0,1,2"}
"""The devices of a mesh with its two axes in the other order."""
LANES = ["[2,2]<=[4]", "[2,2]3,1,0,2"]


@pytest.mark.parametrize("mesh", LANES)
def test_manual_subgroups_meet_only_among_themselves(mesh: str):
    """Rows are divided by hand, columns by the compiler: each subgroup sorts its own."""
    _, _, order = mesh.partition("]")
    inside = f"{{devices=[1,2,2]{TURN[order]} last_tile_dims={{manual}}}}"
    text = f"""HloModule m, num_partitions=4
    {COMBINERS}
    ENTRY main {{
      x = f32[8,4] parameter(0), sharding={{devices={mesh}}}
      given = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={{devices={mesh}}}
      in = f32[4,4] custom-call(given), custom_call_target="SPMDFullToShardShape", sharding={inside}
      sorted = f32[4,4] sort(in), dimensions={{1}}, to_apply=less
      zero = f32[] constant(0)
      sums = f32[4] reduce(in, zero), dimensions={{1}}, to_apply=add
      wide = f32[4,4] broadcast(sums), dimensions={{0}}
      both = f32[4,4] subtract(sorted, wide)
      part = f32[4,4] custom-call(both), custom_call_target="Sharding", sharding={inside}
      ROOT r = f32[8,4] custom-call(part), custom_call_target="SPMDShardToFullShape",
        sharding={{devices={mesh}}}
    }}"""
    module = parse(text)
    division = partition(module, 4)
    verify(module)
    assert " all-gather(" in print_module(module)
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    wanted = np.sort(x, 1) - x.sum(1, keepdims=True)
    given = [[part_of(x, division.parameters[0], device)] for device in range(4)]
    for device, found in enumerate(evaluate_replicated(module, given, 1, 4)):
        part = part_of(wanted, division.results[0], device)
        np.testing.assert_allclose(np.asarray(found), part, rtol=1e-5, atol=1e-5)


CALLBACK = """HloModule m, num_partitions=4
ENTRY main {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  y = f32[8] custom-call(x), custom_call_target="callback", sharding={maximal device=2}
  ROOT r = f32[8] add(x, y)
}
"""


def test_a_call_on_one_device_is_made_there_and_its_result_handed_on():
    module = parse(CALLBACK)
    partition(module, 4)
    verify(module)
    text = print_module(module)
    assert " conditional(" in text
    assert "collective-broadcast(" in text
    assert "{{2,0,1,3}}" in text
    assert text.count('custom_call_target="callback"') == 1


SUMMANDS = "{devices=[1,1,2,2]<=[4] last_tile_dims={unreduced, replicated}}"
TO_BE_SUMMED = [
    f"{X}{{replicated}} ROOT r = f32[8,4] copy(x), sharding={SUMMANDS}",
    f"{X}{ROWS} ROOT r = f32[8,4] copy(x), sharding={SUMMANDS}",
    f"{X}{BOTH} y = f32[4,8] transpose(x), dimensions={{1,0}} ROOT r = f32[8,8] dot(x, y), "
    f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={SUMMANDS}",
]


@pytest.mark.parametrize("text", TO_BE_SUMMED)
def test_summands_are_summed_to_the_whole(text: str):
    text = "HloModule m, num_partitions=4\nENTRY main { " + text + " }"
    whole, module = parse(text), parse(text)
    value = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    division = partition(module, 4)
    verify(module)
    assert division.results[0].summands == (0, 0, 1, 1)
    (parameter,) = division.parameters
    given = [[part_of(value, parameter, device)] for device in range(4)]
    parts = evaluate_replicated(module, given, 1, 4)
    found = np.asarray(parts[0]) + np.asarray(parts[2])
    np.testing.assert_allclose(found, np.asarray(evaluate(whole, [value])), rtol=1e-5, atol=1e-5)


def test_a_parameter_of_summands_is_summed_when_it_is_used():
    text = (
        f"HloModule m, num_partitions=4\nENTRY main {{ {X}{SUMMANDS} y = f32[8,4] add(x, x) "
        "ROOT r = f32[8,4] tanh(y) }"
    )
    module = parse(text)
    value = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    partition(module, 4)
    verify(module)
    assert print_module(module).count(" all-reduce(") == 1
    for found in evaluate_replicated(module, [[value], [value], [value * 2], [value * 2]], 1, 4):
        np.testing.assert_allclose(np.asarray(found), np.tanh(value * 6), rtol=1e-5)


LINEAR_IN_SUMMANDS = {
    "dynamic-update-slice": "one = s32[] constant(1) u = f32[2,4] slice(x), slice={[0:2], [0:4]} "
    "y = f32[8,4] dynamic-update-slice(x, u, one, one)",
    "dynamic-slice": "one = s32[] constant(1) y = f32[3,2] dynamic-slice(x, one, one), "
    "dynamic_slice_sizes={3,2}",
    "multiply": "two = f32[] constant(2) b = f32[8,4] broadcast(two), dimensions={} "
    "y = f32[8,4] multiply(b, x)",
    "divide": "two = f32[] constant(2) b = f32[8,4] broadcast(two), dimensions={} "
    "y = f32[8,4] divide(x, b)",
    "select": "p = pred[] constant(true) b = pred[8,4] broadcast(p), dimensions={} "
    "n = f32[8,4] negate(x) y = f32[8,4] select(b, n, x)",
    "convert": "y = f64[8,4] convert(x)",
}


@pytest.mark.parametrize("opcode", LINEAR_IN_SUMMANDS)
def test_linear_ops_take_unsummed_parts(opcode: str):
    body = LINEAR_IN_SUMMANDS[opcode]
    shape = {"dynamic-slice": "f32[3,2]", "convert": "f64[8,4]"}.get(opcode, "f32[8,4]")
    text = (
        f"HloModule m, num_partitions=4\nENTRY main {{ {X}{SUMMANDS} {body} "
        f"ROOT r = {shape} copy(y), sharding={SUMMANDS} }}"
    )
    whole, module = parse(text), parse(text)
    value = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    partition(module, 4)
    verify(module)
    assert "all-reduce(" not in print_module(module)
    parts = evaluate_replicated(module, [[value], [value], [value * 2], [value * 2]], 1, 4)
    found = np.asarray(parts[0]) + np.asarray(parts[2])
    np.testing.assert_allclose(found, np.asarray(evaluate(whole, [value * 3])), rtol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "y = f32[8,4] multiply(x, x)",
        "y = f32[8,4] maximum(x, x)",
        "one = f32[] constant(1) b = f32[8,4] broadcast(one), dimensions={} "
        "y = f32[8,4] divide(b, x)",
    ],
)
def test_nonlinear_ops_take_summed_parts(body: str):
    text = (
        f"HloModule m, num_partitions=4\nENTRY main {{ {X}{SUMMANDS} {body} "
        "ROOT r = f32[8,4] copy(y) }"
    )
    whole, module = parse(text), parse(text)
    value = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    partition(module, 4)
    assert print_module(module).count(" all-reduce(") == 1
    for found in evaluate_replicated(module, [[value], [value], [value * 2], [value * 2]], 1, 4):
        np.testing.assert_allclose(
            np.asarray(found), np.asarray(evaluate(whole, [value * 3])), rtol=1e-5
        )
