# SPDX-License-Identifier: Apache-2.0
"""Programs with complex values through every kind of op that is not elementwise, by name.

Inputs are small random numbers; `c64`, `f32` and friends are replaced for the wide variants.
"""

from __future__ import annotations

ADD = """
add { a = c64[] parameter(0)
 b = c64[] parameter(1)
 ROOT s = c64[] add(a, b) }
"""
MUL = """
mul { a = c64[] parameter(0)
 b = c64[] parameter(1)
 ROOT s = c64[] multiply(a, b) }
"""
PROGRAMS: dict[str, str] = {}
PROGRAMS["while"] = """
cond { s = (s32[], c64[5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(7)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], c64[5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 z = c64[5] get-tuple-element(s), index=1
 one = s32[] constant(1)
 j = s32[] add(i, one)
 w = c64[5] multiply(z, z)
 h = c64[] constant((0.25, -0.125))
 hb = c64[5] broadcast(h), dimensions={}
 v = c64[5] add(w, hb)
 ROOT t = (s32[], c64[5]) tuple(j, v) }
ENTRY e { x = c64[5] parameter(0)
 z = s32[] constant(0)
 t = (s32[], c64[5]) tuple(z, x)
 w = (s32[], c64[5]) while(t), condition=cond, body=body
 ROOT r = c64[5] get-tuple-element(w), index=1 }
"""
PROGRAMS["while-array-state"] = """
cond { z = c64[] parameter(0)
 a = f32[] abs(z)
 n = f32[] constant(9)
 ROOT r = pred[] compare(a, n), direction=LT }
body { z = c64[] parameter(0)
 h = c64[] constant((1.25, -0.5))
 ROOT v = c64[] multiply(z, h) }
ENTRY e { x = c64[5] parameter(0)
 s = c64[1] slice(x), slice={[0:1]}
 z = c64[] reshape(s)
 ROOT w = c64[] while(z), condition=cond, body=body }
"""
PROGRAMS["while-root-tuple"] = (
    PROGRAMS["while"].rsplit("ROOT r", 1)[0].replace(" w = (s32", " ROOT w = (s32") + "}"
)
PROGRAMS["while-dus"] = """
cond { s = (s32[], c64[5], c64[9,5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(9)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], c64[5], c64[9,5]) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 z = c64[5] get-tuple-element(s), index=1
 o = c64[9,5] get-tuple-element(s), index=2
 one = s32[] constant(1)
 zero = s32[] constant(0)
 j = s32[] add(i, one)
 w = c64[5] cosine(z)
 u = c64[1,5] reshape(w)
 p = c64[9,5] dynamic-update-slice(o, u, i, zero)
 ROOT t = (s32[], c64[5], c64[9,5]) tuple(j, w, p) }
ENTRY e { x = c64[5] parameter(0)
 z = s32[] constant(0)
 k = c64[] constant((0, 1))
 o = c64[9,5] broadcast(k), dimensions={}
 t = (s32[], c64[5], c64[9,5]) tuple(z, x, o)
 w = (s32[], c64[5], c64[9,5]) while(t), condition=cond, body=body
 ROOT r = c64[9,5] get-tuple-element(w), index=2 }
"""
PROGRAMS["conditional"] = """
a { x = c64[5] parameter(0)
 ROOT r = c64[5] multiply(x, x) }
b { x = (c64[5], f32[]) parameter(0)
 y = c64[5] get-tuple-element(x), index=0
 ROOT r = c64[5] negate(y) }
ENTRY e { x = c64[5] parameter(0)
 p = pred[] parameter(1)
 f = f32[] constant(0)
 t = (c64[5], f32[]) tuple(x, f)
 ROOT r = c64[5] conditional(p, x, t), true_computation=a, false_computation=b }
"""
PROGRAMS["call"] = """
f { x = c64[5] parameter(0)
 y = c64[5] parameter(1)
 m = c64[5] multiply(x, y)
 ROOT t = (c64[5], c64[5]) tuple(m, x) }
ENTRY e { x = c64[5] parameter(0)
 c = (c64[5], c64[5]) call(x, x), to_apply=f
 a = c64[5] get-tuple-element(c), index=0
 b = c64[5] get-tuple-element(c), index=1
 ROOT r = c64[5] add(a, b) }
"""
PROGRAMS["fusion"] = """
f { x = c64[5] parameter(0)
 ROOT m = c64[5] multiply(x, x) }
ENTRY e { x = c64[5] parameter(0)
 ROOT c = c64[5] fusion(x), kind=kLoop, calls=f }
"""
PROGRAMS["map"] = (
    MUL
    + """
ENTRY e { x = c64[5] parameter(0)
 ROOT c = c64[5] map(x, x), dimensions={0}, to_apply=mul }
"""
)
PROGRAMS["map-to-real"] = """
f { a = c64[] parameter(0)
 b = f32[] parameter(1)
 r = f32[] abs(a)
 ROOT s = f32[] multiply(r, b) }
ENTRY e { x = c64[5] parameter(0)
 y = f32[5] imag(x)
 ROOT c = f32[5] map(x, y), dimensions={0}, to_apply=f }
"""
for name, red, init in (("add", ADD, "(0, 0)"), ("mul", MUL, "(1, 0)")):
    PROGRAMS[f"reduce-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[20,37] parameter(0)
 z = c64[] constant({init})
 ROOT c = c64[20] reduce(x, z), dimensions={{1}}, to_apply={name} }}
"""
    )
    PROGRAMS[f"reduce-all-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[20,37] parameter(0)
 z = c64[] constant({init})
 ROOT c = c64[] reduce(x, z), dimensions={{0,1}}, to_apply={name} }}
"""
    )
    PROGRAMS[f"reduce-columns-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[20,37] parameter(0)
 z = c64[] constant({init})
 ROOT c = c64[37] reduce(x, z), dimensions={{0}}, to_apply={name} }}
"""
    )
    PROGRAMS[f"window-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[20,37] parameter(0)
 z = c64[] constant({init})
 ROOT c = c64[10,18] reduce-window(x, z), window={{size=2x2 stride=2x2}}, to_apply={name} }}
"""
    )
    PROGRAMS[f"scan-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[20,37] parameter(0)
 z = c64[] constant({init})
 ROOT c = c64[20,37] reduce-window(x, z), window={{size=1x37 pad=0_0x36_0}}, to_apply={name} }}
"""
    )
    PROGRAMS[f"scatter-{name}"] = (
        red
        + f"""
ENTRY e {{ x = c64[6,3] parameter(0)
 i = s32[4,1] constant({{ {{1}}, {{4}}, {{1}}, {{9}} }})
 u = c64[4,3] parameter(1)
 ROOT c = c64[6,3] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
   scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={name} }}
"""
    )
PROGRAMS["scatter-set"] = PROGRAMS["scatter-add"].replace("add(a, b)", "copy(b)")
PROGRAMS["reduce-argmax"] = """
f { a = c64[] parameter(0)
 i = s32[] parameter(1)
 b = c64[] parameter(2)
 j = s32[] parameter(3)
 x = f32[] abs(a)
 y = f32[] abs(b)
 p = pred[] compare(x, y), direction=GE
 v = c64[] select(p, a, b)
 k = s32[] select(p, i, j)
 ROOT t = (c64[], s32[]) tuple(v, k) }
ENTRY e { x = c64[20,37] parameter(0)
 i = s32[20,37] iota(), iota_dimension=1
 z = c64[] constant((0, 0))
 n = s32[] constant(-1)
 ROOT r = (c64[20], s32[20]) reduce(x, i, z, n), dimensions={1}, to_apply=f }
"""
PROGRAMS["sort"] = """
f { a = c64[] parameter(0)
 b = c64[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 ar = f32[] real(a)
 br = f32[] real(b)
 ai = f32[] imag(a)
 bi = f32[] imag(b)
 l = pred[] compare(ar, br), direction=LT
 e = pred[] compare(ar, br), direction=EQ
 m = pred[] compare(ai, bi), direction=LT
 em = pred[] and(e, m)
 ROOT r = pred[] or(l, em) }
ENTRY e { x = c64[33,17] parameter(0)
 i = s32[33,17] iota(), iota_dimension=1
 ROOT r = (c64[33,17], s32[33,17]) sort(x, i), dimensions={1}, is_stable=true, to_apply=f }
"""
PROGRAMS["sort-one"] = """
f { a = c64[] parameter(0)
 b = c64[] parameter(1)
 ar = f32[] abs(a)
 br = f32[] abs(b)
 ROOT l = pred[] compare(ar, br), direction=GT }
ENTRY e { x = c64[33] parameter(0)
 ROOT r = c64[33] sort(x), dimensions={0}, is_stable=true, to_apply=f }
"""
PROGRAMS["dot"] = """
ENTRY e { x = c64[13,37] parameter(0)
 y = c64[37,11] parameter(1)
 ROOT c = c64[13,11] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
"""
PROGRAMS["dot-batch"] = """
ENTRY e { x = c64[3,13,37] parameter(0)
 y = c64[3,11,37] parameter(1)
 ROOT c = c64[3,13,11] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
   lhs_contracting_dims={2}, rhs_contracting_dims={2} }
"""
PROGRAMS["dot-vector"] = """
ENTRY e { x = c64[37] parameter(0)
 y = c64[37] parameter(1)
 ROOT c = c64[] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0} }
"""
PROGRAMS["convolution"] = """
ENTRY e { x = c64[2,9,9,3] parameter(0)
 y = c64[3,3,3,4] parameter(1)
 ROOT c = c64[2,9,9,4] convolution(x, y), window={size=3x3 pad=1_1x1_1},
   dim_labels=b01f_01io->b01f }
"""
PROGRAMS["moves"] = """
ENTRY e { x = c64[6,5] parameter(0)
 a = c64[5,6] transpose(x), dimensions={1,0}
 b = c64[5,6] reverse(a), dimensions={0}
 p = c64[] constant((7, 8))
 c = c64[7,8] pad(b, p), padding=1_1x2_0
 d = c64[7,4] slice(c), slice={[0:7], [0:8:2]}
 i = s32[] constant(2)
 e = c64[3,4] dynamic-slice(d, i, i), dynamic_slice_sizes={3,4}
 f = c64[6,4] concatenate(e, e), dimensions={0}
 g = c64[24] reshape(f)
 k = s32[3,1] constant({{0}, {5}, {23}})
 ROOT h = c64[3] gather(g, k), offset_dims={}, collapsed_slice_dims={0},
   start_index_map={0}, index_vector_dim=1, slice_sizes={1} }
"""
PROGRAMS["moves-of-sums"] = (
    PROGRAMS["moves"]
    .replace("transpose(x)", "transpose(xx)")
    .replace("a = c64", "xx = c64[6,5] add(x, x)\n a = c64", 1)
)
PROGRAMS["moves-then-sums"] = (
    PROGRAMS["moves"]
    .replace("ROOT h", "h")
    .replace("slice_sizes={1} }", "slice_sizes={1}\n ROOT q = c64[3] multiply(h, h) }")
)
PROGRAMS["barrier"] = """
ENTRY e { x = c64[6] parameter(0)
 y = c64[6] multiply(x, x)
 f = f32[6] real(y)
 t = (c64[6], f32[6]) tuple(y, f)
 o = (c64[6], f32[6]) opt-barrier(t)
 z = c64[6] get-tuple-element(o), index=0
 ROOT r = c64[6] add(z, x) }
"""
PROGRAMS["casts"] = """
ENTRY e { x = c64[6] parameter(0)
 a = c128[6] convert(x)
 b = c128[6] multiply(a, a)
 c = f32[6] convert(b)
 d = c64[6] convert(c)
 i = c64[6] iota(), iota_dimension=0
 s = c64[6] add(d, i)
 n = s32[6] convert(s)
 o = c64[6] convert(n)
 ROOT r = (c64[6], c128[6], c64[6]) tuple(s, b, o) }
"""
PROGRAMS["compare"] = """
ENTRY e { x = c64[6] parameter(0)
 y = c64[6] parameter(1)
 a = pred[6] compare(x, y), direction=EQ
 b = pred[6] compare(x, x), direction=NE
 c = c64[6] select(a, x, y)
 d = c64[6] multiply(c, c)
 ROOT r = (pred[6], pred[6], c64[6]) tuple(a, b, d) }
"""
PROGRAMS["constants"] = """
ENTRY e { x = c64[3] parameter(0)
 k = c64[3] constant({(1, 2), (nan, -0), (inf, 3)})
 y = c64[3] add(x, k)
 ROOT r = (c64[3], c64[3]) tuple(y, k) }
"""
PROGRAMS["select-and-scatter"] = (
    ADD
    + """
sel { a = c64[] parameter(0)
 b = c64[] parameter(1)
 x = f32[] real(a)
 y = f32[] real(b)
 ROOT r = pred[] compare(x, y), direction=GE }
ENTRY e { x = c64[8,6] parameter(0)
 s = c64[6,4] parameter(1)
 z = c64[] constant((0, 0))
 ROOT r = c64[8,6] select-and-scatter(x, s, z), window={size=3x3}, select=sel, scatter=add }
"""
)
PROGRAMS["while-nested"] = """
cond { s = (s32[], (c64[3], s32[])) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 n = s32[] constant(3)
 ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], (c64[3], s32[])) parameter(0)
 i = s32[] get-tuple-element(s), index=0
 t = (c64[3], s32[]) get-tuple-element(s), index=1
 x = c64[3] get-tuple-element(t), index=0
 k = s32[] get-tuple-element(t), index=1
 o = s32[] constant(1)
 j = s32[] add(i, o)
 y = c64[3] multiply(x, x)
 u = (c64[3], s32[]) tuple(y, k)
 ROOT r = (s32[], (c64[3], s32[])) tuple(j, u) }
ENTRY e { x = c64[3] parameter(0)
 z = s32[] constant(0)
 t = (c64[3], s32[]) tuple(x, z)
 s = (s32[], (c64[3], s32[])) tuple(z, t)
 w = (s32[], (c64[3], s32[])) while(s), condition=cond, body=body
 u = (c64[3], s32[]) get-tuple-element(w), index=1
 ROOT r = c64[3] get-tuple-element(u), index=0 }
"""
PROGRAMS["bitcast"] = """
ENTRY e { x = c64[4] parameter(0)
 y = c64[4] bitcast-convert(x)
 z = c64[2,2] reshape(y)
 ROOT r = c64[2,2] multiply(z, z) }
"""
PROGRAMS["clamp"] = """
ENTRY e { x = c64[4] parameter(0)
 l = c64[] constant((-0.5, 0))
 h = c64[] constant((0.5, 0))
 ROOT r = c64[4] clamp(l, x, h) }
"""
PROGRAMS["twice"] = """
ENTRY e { x = c64[4] parameter(0)
 y = c64[4] negate(x)
 ROOT r = (c64[4], c64[4], c64[4], c64[4]) tuple(x, x, y, y) }
"""
PROGRAMS["update"] = """
ENTRY e { x = c64[5,4] parameter(0)
 u = c64[1,4] parameter(1)
 i = s32[] constant(2)
 ROOT r = c64[5,4] dynamic-update-slice(x, u, i, i) }
"""
PROGRAMS["update-of-product"] = """
ENTRY e { x = c64[5,4] parameter(0)
 u = c64[1,4] parameter(1)
 v = c64[1,4] multiply(u, u)
 i = s32[] constant(2)
 ROOT r = c64[5,4] dynamic-update-slice(x, v, i, i) }
"""
