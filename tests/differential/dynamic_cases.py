# SPDX-License-Identifier: Apache-2.0
"""Programs with dynamic dimensions: each op that takes one, and programs that grow and shrink.

Each makes `d`, of dynamic size, from `x` and the size `n`. The kinds of programs are those of
xla/service/dynamic_padder_test.cc; texts and numbers are our own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

COMPUTATIONS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b)
}
largest { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b)
}
sums { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) e = s32[] parameter(3)
  s = f32[] add(a, c) t = s32[] add(b, e) ROOT r = (f32[], s32[]) tuple(s, t)
}
product { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] multiply(a, b)
}
greater { a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT
}
pairs { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) e = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=GT
}
at_least { a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE
}
negated { x = f32[<=5] parameter(0) ROOT y = f32[<=5] negate(x)
}
doubled { x = f32[<=5] parameter(0) ROOT y = f32[<=5] add(x, x)
}
first_two { t = (f32[<=5], s32[]) parameter(0) x = f32[<=5] get-tuple-element(t), index=0
  k = s32[] constant(2) g = s32[] get-dimension-size(x), dimensions={0} m = s32[] minimum(g, k)
  ROOT y = f32[<=5] set-dimension-size(x, m), dimensions={0}
}
squared { t = (f32[<=5], s32[]) parameter(0) x = f32[<=5] get-tuple-element(t), index=0
  ROOT y = f32[<=5] multiply(x, x)
}
total { p = f32[<=5] parameter(0) z = f32[] constant(0)
  ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add
}
thrice { s = (s32[], f32[<=5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3) ROOT r = pred[] compare(i, k), direction=LT
}
double { s = (s32[], f32[<=5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(1) j = s32[] add(i, o) x = f32[<=5] get-tuple-element(s), index=1
  y = f32[<=5] add(x, x) ROOT r = (s32[], f32[<=5]) tuple(j, y)
}
shrink { s = (s32[], f32[<=5]) parameter(0) i = s32[] get-tuple-element(s), index=0
  o = s32[] constant(1) j = s32[] add(i, o) x = f32[<=5] get-tuple-element(s), index=1
  g = s32[] get-dimension-size(x), dimensions={0} h = s32[] subtract(g, o) z = s32[] constant(0)
  l = s32[] maximum(h, z) y = f32[<=5] set-dimension-size(x, l), dimensions={0}
  ROOT r = (s32[], f32[<=5]) tuple(j, y)
}
push { s = (f32[<=5,2]) parameter(0) x = f32[<=5,2] get-tuple-element(s), index=0
  g = s32[] get-dimension-size(x), dimensions={0} o = s32[] constant(1) z = s32[] constant(0)
  h = s32[] add(g, o) c = f32[] convert(h) row = f32[1,2] broadcast(c), dimensions={}
  wide = f32[<=5,2] set-dimension-size(x, h), dimensions={0}
  y = f32[<=5,2] dynamic-update-slice(wide, row, g, z) ROOT r = (f32[<=5,2]) tuple(y)
}
has_room { s = (f32[<=5,2]) parameter(0) x = f32[<=5,2] get-tuple-element(s), index=0
  g = s32[] get-dimension-size(x), dimensions={0} k = s32[] constant(5)
  ROOT r = pred[] compare(g, k), direction=LT
}
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        name: what it shows.
        dims: dimensions of `x`.
        body: instructions that end in `d`.
        shape: the shape of `d`.
        sizes: values of `n`.
        differs: why real XLA gives something else, or nothing.
        moves: elements of `d` are those of `x`, so that any value may be among them.
        behind: the dimension of `x` that `n` is the size of, if `x` is read with that size only.
    """

    name: str
    dims: tuple[int, ...]
    body: str
    shape: str
    sizes: tuple[int, ...] = (0, 1, 3, 5)
    differs: str = ""
    moves: bool = False
    behind: int | None = None

    def text(self, element: str = "f32") -> str:
        """Return the module for an element type; its result is `d` and its sizes."""
        rank = 0 if self.shape.endswith("[]") else self.shape.count(",") + 1
        sizes = "\n".join(
            f"g{n} = s32[] get-dimension-size(d), dimensions={{{n}}}" for n in range(rank)
        )
        shape = ",".join(map(str, self.dims))
        results = ", ".join(["d", *(f"g{n}" for n in range(rank))])
        entry = (
            f"ENTRY e {{ x = f32[{shape}] parameter(0) n = s32[] parameter(1)\n"
            f"{self.body}\n{sizes}\n"
            f"ROOT r = ({', '.join([self.shape, *['s32[]'] * rank])}) tuple({results}) }}"
        )
        return _with_callees(entry, element)

    def whole_text(self) -> str:
        """Return the module that gives all of `d` at its bounds, what lies behind sizes too."""
        lines, name, element = [self.body], "d", self.shape.split("[")[0]
        dims = self.shape.split("[")[1].removesuffix("]").split(",") if self.is_bounded else []
        for place, text in enumerate(dims):
            if not text.startswith("<="):
                continue
            dims[place] = text.removeprefix("<=")
            lines.append(f"k{place} = s32[] constant({dims[place]})")
            lines.append(
                f"w{place} = {element}[{','.join(dims)}] set-dimension-size({name}, k{place}), "
                f"dimensions={{{place}}}"
            )
            name = f"w{place}"
        shape = ",".join(map(str, self.dims))
        body = "\n".join(lines)
        entry = (
            f"ENTRY e {{ x = f32[{shape}] parameter(0) n = s32[] parameter(1)\n{body}\n"
            f"ROOT r = ({element}[{','.join(dims)}]) tuple({name}) }}"
        )
        return _with_callees(entry, "f32")

    @property
    def is_bounded(self) -> bool:
        """Whether a dimension of `d` is dynamic."""
        return "<=" in self.shape


def _with_callees(entry: str, element: str) -> str:
    """Return a module of an entry and the computations that it calls."""
    # The last computation's callees stand before it.
    called: list[str] = []
    for computation in reversed(COMPUTATIONS.strip().removesuffix("\n}").split("\n}\n")):
        name = computation.split()[0]
        if re.search(rf"={name}\b", "".join([entry, *called])):
            called.insert(0, computation + "\n}\n")
    return f"HloModule m\n{re.sub('f32(?=.)', element, ''.join([*called, entry]))}"


def _sized(
    dims: tuple[int, ...], place: int, name: str, body: str, shape: str, **more: Any
) -> Program:
    """Return a program that reads `p`, which is `x` with `n` elements along `place`."""
    marked = ",".join(("<=" if n == place else "") + str(size) for n, size in enumerate(dims))
    first = f"p = f32[{marked}] set-dimension-size(x, n), dimensions={{{place}}}\n"
    behind = None if re.search(r"\bx\b", body) else place
    return Program(name, dims, first + body, shape, behind=behind, **more)


def _vector(name: str, body: str, shape: str = "f32[<=5]", **more: Any) -> Program:
    return _sized((5,), 0, name, body, shape, **more)


def _rows(name: str, body: str, shape: str, **more: Any) -> Program:
    return _sized((5, 2), 0, name, body, shape, **more)


def _columns(name: str, body: str, shape: str, **more: Any) -> Program:
    return _sized((2, 5), 1, name, body, shape, **more)


_PAD = "XLA's size of a windowed dimension leaves out the padding"
_SPLIT = "XLA's translator to StableHLO takes a reshape that divides a dimension to be static"
_REFUSED = "XLA refuses"

ELEMENTWISE = (
    _vector("negate", "d = f32[<=5] negate(p)"),
    _vector("copy", "d = f32[<=5] copy(p)", moves=True),
    _vector("add with static", "d = f32[<=5] add(p, x)"),
    _vector("add of two sizes", "k = s32[] constant(3) q = f32[<=5] set-dimension-size(x, k), "
            "dimensions={0} d = f32[<=5] add(p, q)"),
    _vector("add of one and four", "k = s32[] constant(4) q = f32[<=5] set-dimension-size(x, k), "
            "dimensions={0} d = f32[<=5] add(p, q)"),
    _vector("compare and select", "k = s32[] constant(1) q = f32[<=5] negate(p) "
            "c = pred[<=5] compare(p, q), direction=GT d = f32[<=5] select(c, p, q)"),
    _vector("clamp", "q = f32[<=5] negate(p) d = f32[<=5] clamp(q, p, p)"),
    _vector("convert", "d = s32[<=5] convert(p)", "s32[<=5]"),
    _vector("bitcast-convert", "d = s32[<=5] bitcast-convert(p)", "s32[<=5]"),
    _vector("bitcast-convert to halves", "d = s16[<=5,2] bitcast-convert(p)", "s16[<=5,2]",
            differs=_REFUSED),
    _vector("reduce-precision",
            "d = f32[<=5] reduce-precision(p), exponent_bits=5, mantissa_bits=10"),
    _vector("complex", "c = c64[<=5] complex(p, p) d = f32[<=5] imag(c)"),
    _vector("map", "d = f32[<=5] map(p, p), dimensions={0}, to_apply=product"),
    _vector("opt-barrier", "d = f32[<=5] opt-barrier(p)", differs=_REFUSED),
)  # fmt: skip

SHAPING = (
    _vector("broadcast", "d = f32[2,<=5] broadcast(p), dimensions={1}", "f32[2,<=5]", moves=True),
    _columns("transpose", "d = f32[<=5,2] transpose(p), dimensions={1,0}", "f32[<=5,2]",
             moves=True),
    _vector("reverse", "d = f32[<=5] reverse(p), dimensions={0}", moves=True),
    Program("reverse of two", (3, 5), "m = s32[] constant(2) "
            "q = f32[3,<=5] set-dimension-size(x, n), dimensions={1} "
            "p = f32[<=3,<=5] set-dimension-size(q, m), dimensions={0} "
            "d = f32[<=3,<=5] reverse(p), dimensions={0,1}", "f32[<=3,<=5]", moves=True),
    _vector("concatenate", "d = f32[<=15] concatenate(p, x, p), dimensions={0}", "f32[<=15]"),
    _rows("concatenate along another", "d = f32[<=5,4] concatenate(p, p), dimensions={1}",
          "f32[<=5,4]", moves=True),
    _vector("pad", "k = f32[] constant(7) d = f32[<=8] pad(p, k), padding=1_2", "f32[<=8]"),
    _vector("pad between", "k = f32[] constant(7) d = f32[<=12] pad(p, k), padding=1_2_1",
            "f32[<=12]"),
    _vector("pad less than nothing", "k = f32[] constant(7) d = f32[<=3] pad(p, k), padding=-1_-1",
            "f32[<=3]", sizes=(3, 5)),
    _vector("slice", "d = f32[<=5] slice(p), slice={[0:5]}", moves=True),
    _vector("slice of the first", "d = f32[<=3] slice(p), slice={[0:3]}", "f32[<=3]",
            sizes=(0, 1, 3)),
    _vector("slice behind a size", "d = f32[<=3] slice(p), slice={[0:3]}", "f32[<=3]", sizes=(5,),
            differs="XLA's size of a slice is not cut at its limit"),
    _vector("slice from two", "d = f32[<=3] slice(p), slice={[2:5]}", "f32[<=3]", sizes=(3, 5)),
    _vector("slice by two", "d = f32[<=3] slice(p), slice={[0:5:2]}", "f32[<=3]"),
    _vector("slice of one", "d = f32[1] slice(p), slice={[1:2]}", "f32[1]", sizes=(3, 5)),
    _columns("slice of a row", "d = f32[1,<=5] slice(p), slice={[1:2], [0:5]}", "f32[1,<=5]"),
    _columns("reshape joins", "d = f32[<=10] reshape(p)", "f32[<=10]"),
    _rows("reshape joins rows", "d = f32[<=10] reshape(p)", "f32[<=10]"),
    _rows("reshape adds one", "d = f32[<=5,2,1] reshape(p)", "f32[<=5,2,1]"),
    _rows("reshape divides", "q = f32[<=10] reshape(p) d = f32[<=5,2] reshape(q)", "f32[<=5,2]",
          sizes=(1, 3)),
    _rows("reshape divides columns", "q = f32[<=10] reshape(p) d = f32[2,<=5] reshape(q), "
          "inferred_dimension=1", "f32[2,<=5]", sizes=(1, 3), differs=_SPLIT),
    Program("reshape of none", (1, 2, 5, 1), "p = f32[<=1,2,5,1] set-dimension-size(x, n), "
            "dimensions={0} d = f32[<=10] reshape(p)", "f32[<=10]", sizes=(0, 1)),
    Program("reshape of two", (2, 3, 3), "q = f32[2,<=3,3] set-dimension-size(x, n), dimensions={1}"
            " p = f32[2,<=3,<=3] set-dimension-size(q, n), dimensions={2} "
            "d = f32[<=18] reshape(p)", "f32[<=18]", sizes=(0, 1, 2, 3)),
    Program("reshape divides and joins", (4, 2, 2), "two = s32[] constant(2) "
            "q = f32[<=4,2,2] set-dimension-size(x, two), dimensions={0} "
            "p = f32[<=4,2,<=2] set-dimension-size(q, n), dimensions={2} "
            "d = f32[2,<=2,<=4] reshape(p), inferred_dimension=1", "f32[2,<=2,<=4]",
            sizes=(1, 2), differs=_SPLIT),
    _rows("dynamic-reshape", "two = s32[] constant(2) q = f32[<=10] reshape(p) "
          "d = f32[2,<=5] dynamic-reshape(q, two, n)", "f32[2,<=5]"),
)  # fmt: skip

FOLDS = (
    _columns("reduce keeps", "z = f32[] constant(0) "
             "d = f32[<=5] reduce(p, z), dimensions={0}, to_apply=add", "f32[<=5]"),
    _columns("reduce folds", "z = f32[] constant(0) "
             "d = f32[2] reduce(p, z), dimensions={1}, to_apply=add", "f32[2]"),
    _columns("reduce to the largest", "z = f32[] constant(-inf) "
             "d = f32[2] reduce(p, z), dimensions={1}, to_apply=largest", "f32[2]"),
    _columns("reduce to a product", "z = f32[] constant(1) "
             "d = f32[2] reduce(p, z), dimensions={1}, to_apply=product", "f32[2]"),
    _columns("reduce of two", "z = f32[] constant(0) k = s32[] constant(0) "
             "i = s32[2,<=5] convert(p) t = (f32[2], s32[2]) reduce(p, i, z, k), dimensions={1}, "
             "to_apply=sums d = s32[2] get-tuple-element(t), index=1", "s32[2]"),
    _columns("reduce of two keeps", "z = f32[] constant(0) k = s32[] constant(0) "
             "i = s32[2,<=5] convert(p) t = (f32[<=5], s32[<=5]) reduce(p, i, z, k), "
             "dimensions={0}, to_apply=sums d = f32[<=5] get-tuple-element(t), index=0",
             "f32[<=5]"),
    _rows("dot keeps left", "c = f32[2,3] constant({{1,2,3},{4,5,6}}) "
          "d = f32[<=5,3] dot(p, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
          "f32[<=5,3]"),
    _rows("dot keeps right", "c = f32[2,3] constant({{1,2,3},{4,5,6}}) "
          "d = f32[3,<=5] dot(c, p), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
          "f32[3,<=5]"),
    _rows("dot folds", "d = f32[2,2] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
          "f32[2,2]"),
    _rows("dot in batches", "d = f32[<=5] dot(p, p), lhs_batch_dims={0}, rhs_batch_dims={0}, "
          "lhs_contracting_dims={1}, rhs_contracting_dims={1}", "f32[<=5]"),
    _vector("dot with static", "c = f32[5] constant({1,2,3,4,5}) "
            "d = f32[] dot(p, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[]"),
    Program("convolution of a batch", (5, 4, 1), "k = f32[2,1,1] constant({{{1}},{{2}}}) "
            "p = f32[<=5,4,1] set-dimension-size(x, n), dimensions={0} d = f32[<=5,3,1] "
            "convolution(p, k), window={size=2}, dim_labels=b0f_0io->b0f", "f32[<=5,3,1]"),
    Program("convolution of features", (1, 4, 5), "k = f32[2,5,1] constant({{{1},{2},{3},{4},{5}},"
            "{{1},{2},{3},{4},{5}}}) p = f32[1,4,<=5] set-dimension-size(x, n), dimensions={2} "
            "d = f32[1,3,1] convolution(p, k), window={size=2}, dim_labels=b0f_0io->b0f",
            "f32[1,3,1]"),
    Program("convolution of space", (1, 5, 1), "k = f32[2,1,1] constant({{{1}},{{2}}}) "
            "p = f32[1,<=5,1] set-dimension-size(x, n), dimensions={1} d = f32[1,<=5,1] "
            "convolution(p, k), window={size=2 pad=1_0}, dim_labels=b0f_0io->b0f", "f32[1,<=5,1]",
            differs=_REFUSED),
    _vector("reduce-window", "z = f32[] constant(0) d = f32[<=4] reduce-window(p, z), "
            "window={size=2}, to_apply=add", "f32[<=4]", sizes=(1, 3, 5)),
    _vector("reduce-window by two", "z = f32[] constant(0) d = f32[<=2] reduce-window(p, z), "
            "window={size=2 stride=2}, to_apply=add", "f32[<=2]"),
    _columns("reduce-window of others", "z = f32[] constant(0) d = f32[1,<=5] "
             "reduce-window(p, z), window={size=2x1}, to_apply=add", "f32[1,<=5]"),
    _columns("reduce-window of two", "z = f32[] constant(0) k = s32[] constant(0) "
             "i = s32[2,<=5] convert(p) t = (f32[1,<=5], s32[1,<=5]) reduce-window(p, i, z, k), "
             "window={size=2x1}, to_apply=sums d = s32[1,<=5] get-tuple-element(t), index=1",
             "s32[1,<=5]"),
    _vector("reduce-window with padding", "z = f32[] constant(0) d = f32[<=5] "
            "reduce-window(p, z), window={size=3 pad=1_1}, to_apply=add", differs=_PAD),
    _vector("cumulative sum", "z = f32[] constant(0) d = f32[<=5] reduce-window(p, z), "
            "window={size=5 pad=4_0}, to_apply=add", differs=_PAD),
    Program("select-and-scatter", (6,), "z = f32[] constant(0) s = f32[3] constant({10,20,30}) "
            "p = f32[<=6] set-dimension-size(x, n), dimensions={0} d = f32[<=6] "
            "select-and-scatter(p, s, z), window={size=2 stride=2}, select=at_least, scatter=add",
            "f32[<=6]", sizes=(0, 1, 3, 6)),
    Program("select-and-scatter of both", (6,), "z = f32[] constant(0) two = s32[] constant(2) "
            "h = s32[] divide(n, two) c = f32[3] constant({10,20,30}) "
            "s = f32[<=3] set-dimension-size(c, h), dimensions={0} "
            "p = f32[<=6] set-dimension-size(x, n), dimensions={0} d = f32[<=6] "
            "select-and-scatter(p, s, z), window={size=2 stride=2}, select=at_least, scatter=add",
            "f32[<=6]", sizes=(0, 1, 3, 6)),
    _rows("batch-norm-inference", "s = f32[2] constant({1,2}) d = f32[<=5,2] "
          "batch-norm-inference(p, s, s, s, s), epsilon=0.001, feature_index=1", "f32[<=5,2]"),
    _rows("batch-norm-training", "s = f32[2] constant({1,2}) t = (f32[<=5,2], f32[2], f32[2]) "
          "batch-norm-training(p, s, s), epsilon=0.001, feature_index=1 "
          "d = f32[<=5,2] get-tuple-element(t), index=0", "f32[<=5,2]", sizes=(1, 3, 5)),
)  # fmt: skip

INDEXING = (
    _vector("sort", "d = f32[<=5] sort(p), dimensions={0}, to_apply=greater"),
    _vector("sort of two", "i = s32[<=5] convert(p) t = (f32[<=5], s32[<=5]) sort(p, i), "
            "dimensions={0}, to_apply=pairs, is_stable=true "
            "d = s32[<=5] get-tuple-element(t), index=1", "s32[<=5]"),
    _columns("sort of others", "d = f32[2,<=5] sort(p), dimensions={0}, to_apply=greater",
             "f32[2,<=5]"),
    _rows("topk of rows", "t = (f32[<=5,1], s32[<=5,1]) topk(p), k=1, largest=true "
          "d = f32[<=5,1] get-tuple-element(t), index=0", "f32[<=5,1]"),
    _rows("dynamic-slice", "z = s32[] constant(0) o = s32[] constant(1) "
          "d = f32[<=5,1] dynamic-slice(p, z, o), dynamic_slice_sizes={5,1}", "f32[<=5,1]",
          moves=True),
    _vector("dynamic-slice of one", "o = s32[] constant(1) "
            "d = f32[1] dynamic-slice(p, o), dynamic_slice_sizes={1}", "f32[1]", sizes=(3, 5)),
    _rows("dynamic-update-slice", "z = s32[] constant(0) o = s32[] constant(1) "
          "u = f32[1,2] constant({{-1,-2}}) d = f32[<=5,2] dynamic-update-slice(p, u, o, z)",
          "f32[<=5,2]"),
    _vector("dynamic-update-slice of all", "z = s32[] constant(0) "
            "d = f32[<=5] dynamic-update-slice(x, p, z)", moves=True),
    _vector("dynamic-update-slice of part", "o = s32[] constant(1) "
            "b = f32[8] constant({-1,-2,-3,-4,-5,-6,-7,-8}) d = f32[8] "
            "dynamic-update-slice(b, p, o)", "f32[8]", differs=_REFUSED),
    _columns("gather of rows", "i = s32[3] constant({1,0,1}) d = f32[3,<=5] gather(p, i), "
             "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
             "slice_sizes={1,5}", "f32[3,<=5]", moves=True),
    Program("gather by dynamic indices", (5,), "e = s32[5] constant({4,0,2,1,3}) "
            "i = s32[<=5] set-dimension-size(e, n), dimensions={0} d = f32[<=5] gather(x, i), "
            "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1}", "f32[<=5]"),
    _vector("gather of elements", "i = s32[2] constant({2,0}) d = f32[2] gather(p, i), "
            "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            "slice_sizes={1}", "f32[2]", sizes=(3, 5)),
    _vector("scatter by dynamic indices", "e = s32[5] constant({1,3,1,0,2}) "
            "b = f32[4] constant({10,20,30,40}) "
            "i = s32[<=5] set-dimension-size(e, n), dimensions={0} d = f32[4] scatter(b, i, p), "
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1, to_apply=add", "f32[4]"),
    _vector("scatter by dynamic narrow indices", "e = u8[5] constant({1,3,1,0,2}) "
            "c = f32[] constant(3) b = f32[300] broadcast(c), dimensions={} "
            "i = u8[<=5] set-dimension-size(e, n), dimensions={0} d = f32[300] scatter(b, i, p), "
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
            "index_vector_dim=1, to_apply=add", "f32[300]", sizes=(5,)),
    _vector("scatter into dynamic", "i = s32[2] constant({1,3}) u = f32[2] constant({10,20}) "
            "d = f32[<=5] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
    _columns("scatter of rows", "i = s32[3] constant({1,0,1}) c = f32[] constant(2) "
             "w = f32[3,5] broadcast(c), dimensions={} "
             "u = f32[3,<=5] set-dimension-size(w, n), dimensions={1} d = f32[2,<=5] "
             "scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
             "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", "f32[2,<=5]"),
)  # fmt: skip

CONTROL = (
    _vector("set twice", "two = s32[] constant(2) d = f32[<=5] set-dimension-size(p, two), "
            "dimensions={0}", sizes=(3, 5)),
    _vector("call", "d = f32[<=5] call(p), to_apply=negated"),
    _vector("calls of two sizes", "k = s32[] constant(4) "
            "q = f32[<=5] set-dimension-size(x, k), dimensions={0} a = f32[] call(p), "
            "to_apply=total b = f32[] call(q), to_apply=total d = f32[] add(a, b)", "f32[]",
            sizes=(4, 5)),
    _vector("conditional", "k = s32[] constant(2) c = pred[] compare(n, k), direction=LT "
            "d = f32[<=5] conditional(c, p, p), true_computation=negated, "
            "false_computation=doubled"),
    _vector("conditional of another size", "k = s32[] constant(2) t = (f32[<=5], s32[]) "
            "tuple(p, n) c = pred[] compare(n, k), direction=GT d = f32[<=5] conditional(c, t, t), "
            "true_computation=first_two, false_computation=squared"),
    _vector("while", "z = s32[] constant(0) t = (s32[], f32[<=5]) tuple(z, p) "
            "w = (s32[], f32[<=5]) while(t), condition=thrice, body=double "
            "d = f32[<=5] get-tuple-element(w), index=1"),
    _vector("while it shrinks", "z = s32[] constant(0) t = (s32[], f32[<=5]) tuple(z, p) "
            "w = (s32[], f32[<=5]) while(t), condition=thrice, body=shrink "
            "d = f32[<=5] get-tuple-element(w), index=1", moves=True),
    _rows("while it grows", "t = (f32[<=5,2]) tuple(p) "
          "w = (f32[<=5,2]) while(t), condition=has_room, body=push "
          "d = f32[<=5,2] get-tuple-element(w), index=0", "f32[<=5,2]", differs="XLA crashes"),
    _vector("tuples", "t = (f32[<=5], s32[]) tuple(p, n) u = ((f32[<=5], s32[]), s32[]) "
            "tuple(t, n) v = (f32[<=5], s32[]) get-tuple-element(u), index=0 "
            "d = f32[<=5] get-tuple-element(v), index=0", moves=True),
)  # fmt: skip

PROGRAMS = (*ELEMENTWISE, *SHAPING, *FOLDS, *INDEXING, *CONTROL)
