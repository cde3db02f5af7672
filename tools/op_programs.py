# SPDX-License-Identifier: Apache-2.0
"""One small program per opcode, for any element type: what the coverage page is measured with.

`T` stands for the element type, `R` for what holds its real part, `add`, `max` and `less` for
computations on two of it. Elementwise ops need no template: their programs follow from the op
table. A program that does not verify for a type is one that HLO does not have.

Example:
    print(program("reverse", dtype("s4")))
"""

from __future__ import annotations

import re

from ingot.hlo.dtype import C64, C128, F32, F64, PRED, DType
from ingot.hlo.opdef import Trait, find

_REAL = {C64: F32, C128: F64}
_COMPLEX = {F32: C64, F64: C128}

_COMPUTATIONS = """
add {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT r = T[] add(a, b)
}

less {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}

more {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}
"""

_X = "x = T[6,5] parameter(0)\n  "

# Bodies of ENTRY; several for one opcode are all run.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "compare": (
        "x = T[6,5] parameter(0)\n  y = T[6,5] parameter(1)\n  "
        "a = pred[6,5] compare(x, y), direction=LT\n  b = pred[6,5] compare(x, y), direction=EQ\n"
        "  ROOT r = (pred[6,5], pred[6,5]) tuple(a, b)",
    ),
    "select": (
        "p = pred[6,5] parameter(0)\n  x = T[6,5] parameter(1)\n  y = T[6,5] parameter(2)\n  "
        "ROOT r = T[6,5] select(p, x, y)",
    ),
    "clamp": (
        "low = T[] parameter(0)\n  x = T[6,5] parameter(1)\n  high = T[6,5] parameter(2)\n  "
        "ROOT r = T[6,5] clamp(low, x, high)",
    ),
    "complex": (
        "x = T[6,5] parameter(0)\n  y = T[6,5] parameter(1)\n  ROOT r = C[6,5] complex(x, y)",
    ),
    "convert": (
        _X + "a = f32[6,5] convert(x)\n  b = s32[6,5] convert(x)\n  c = pred[6,5] convert(x)\n  "
        "ROOT r = (f32[6,5], s32[6,5], pred[6,5]) tuple(a, b, c)",
        "x = f32[6,5] parameter(0)\n  y = s32[6,5] parameter(1)\n  z = pred[6,5] parameter(2)\n  "
        "a = T[6,5] convert(x)\n  b = T[6,5] convert(y)\n  c = T[6,5] convert(z)\n  "
        "ROOT r = (T[6,5], T[6,5], T[6,5]) tuple(a, b, c)",
    ),
    "stochastic-convert": (
        "x = T[6,5] parameter(0)\n  y = uB[6,5] parameter(1)\n  "
        "ROOT r = s8[6,5] stochastic-convert(x, y)",
    ),
    "reduce-precision": (
        _X + "ROOT r = T[6,5] reduce-precision(x), exponent_bits=4, mantissa_bits=1",
    ),
    "broadcast": ("x = T[5] parameter(0)\n  ROOT r = T[6,5,3] broadcast(x), dimensions={1}",),
    "reshape": (_X + "ROOT r = T[10,3] reshape(x)",),
    "bitcast": (_X + "ROOT r = T[10,3] bitcast(x)",),
    "bitcast-convert": (
        _X + "ROOT r = uB[6,5] bitcast-convert(x)",
        "x = uP[6] parameter(0)\n  ROOT r = T[6D] bitcast-convert(x)",
    ),
    "transpose": (_X + "ROOT r = T[5,6] transpose(x), dimensions={1,0}",),
    "reverse": (_X + "ROOT r = T[6,5] reverse(x), dimensions={0,1}",),
    "slice": (_X + "ROOT r = T[2,5] slice(x), slice={[1:5:2], [0:5]}",),
    "pad": (_X + "z = T[] parameter(1)\n  ROOT r = T[9,15] pad(x, z), padding=1_2x1_1_2",),
    "concatenate": (
        _X + "y = T[6,2] parameter(1)\n  ROOT r = T[6,7] concatenate(x, y), dimensions={1}",
    ),
    "iota": ("ROOT r = T[2,40] iota(), iota_dimension=1",),
    "get-dimension-size": (_X + "ROOT r = s32[] get-dimension-size(x), dimensions={1}",),
    "set-dimension-size": (
        _X + "n = s32[] constant(3)\n  "
        "y = T[6,<=5] set-dimension-size(x, n), dimensions={1}\n  "
        "ROOT r = s32[] get-dimension-size(y), dimensions={1}",
    ),
    "dynamic-reshape": (
        _X + "n = s32[] constant(10)\n  m = s32[] constant(3)\n  "
        "ROOT r = T[10,3] dynamic-reshape(x, n, m)",
    ),
    "dynamic-slice": (
        _X + "i = s32[] parameter(1)\n  "
        "ROOT r = T[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}",
    ),
    "dynamic-update-slice": (
        _X + "u = T[2,3] parameter(1)\n  i = s32[] parameter(2)\n  "
        "ROOT r = T[6,5] dynamic-update-slice(x, u, i, i)",
    ),
    "reduce": (
        _X + "z = T[] constant(0)\n  ROOT r = T[6] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    "map": (
        _X + "y = T[6,5] parameter(1)\n  ROOT r = T[6,5] map(x, y), dimensions={0,1}, to_apply=add",
    ),
    "reduce-window": (
        _X + "z = T[] constant(0)\n  ROOT r = T[6,5] reduce-window(x, z), "
        "window={size=2x3 pad=0_1x1_1}, to_apply=add",
    ),
    "select-and-scatter": (
        _X + "s = T[3,5] parameter(1)\n  z = T[] constant(0)\n  ROOT r = T[6,5] "
        "select-and-scatter(x, s, z), window={size=2x1 stride=2x1}, select=more, scatter=add",
    ),
    "dot": (
        _X + "y = T[5,4] parameter(1)\n  ROOT r = T[6,4] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
        _X + "y = T[5] parameter(1)\n  ROOT r = T[6] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}",
    ),
    "ragged-dot": (
        _X + "y = T[2,5,4] parameter(1)\n  g = s64[2] constant({2, 4})\n  "
        "ROOT r = T[6,4] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
    ),
    "scaled-dot": (
        "x = T[3,32] parameter(0)\n  y = T[32,4] parameter(1)\n  "
        "s = f8e8m0fnu[3,1] parameter(2)\n  t = f8e8m0fnu[1,4] parameter(3)\n  ROOT r = f32[3,4] "
        "scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "convolution": (
        "x = T[2,6,5,3] parameter(0)\n  y = T[2,2,3,4] parameter(1)\n  "
        "ROOT r = T[2,6,5,4] convolution(x, y), window={size=2x2 pad=0_1x1_0}, "
        "dim_labels=b01f_01io->b01f",
    ),
    "gather": (
        _X + "i = s32[4,1] parameter(1)\n  ROOT r = T[4,5] gather(x, i), offset_dims={1}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}",
    ),
    "scatter": (
        _X + "i = s32[4,1] parameter(1)\n  u = T[4,5] parameter(2)\n  ROOT r = T[6,5] "
        "scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    ),
    "sort": (_X + "ROOT r = T[6,5] sort(x), dimensions={1}, is_stable=true, to_apply=less",),
    "topk": (_X + "ROOT r = (T[6,2], s32[6,2]) topk(x), k=2, largest=true",),
    "scan": (
        _X + "z = T[5] parameter(1)\n  ROOT r = (T[6,5], T[5]) scan(x, z), dimensions={0}, "
        "num_carries=1, to_apply=step",
    ),
    "call": (_X + "ROOT r = T[6,5] call(x), to_apply=double",),
    "fusion": (_X + "ROOT r = T[6,5] fusion(x), kind=kLoop, calls=double",),
    "while": (
        "n = s32[] constant(0)\n  x = T[6,5] parameter(0)\n  "
        "t = (s32[], T[6,5]) tuple(n, x)\n  "
        "w = (s32[], T[6,5]) while(t), condition=again, body=step_body\n  "
        "ROOT r = T[6,5] get-tuple-element(w), index=1",
    ),
    "conditional": (
        _X + "p = pred[] parameter(1)\n  ROOT r = T[6,5] conditional(p, x, x), "
        "true_computation=double, false_computation=same",
    ),
    "rng-bit-generator": (
        "s = u64[2] parameter(0)\n  "
        "ROOT r = (u64[2], T[6,5]) rng-bit-generator(s), algorithm=rng_three_fry",
    ),
    "rng": (
        "z = T[] constant(0)\n  o = T[] constant(1)\n  "
        "n = T[6,5] rng(z, o), distribution=rng_uniform\n  "
        "b = T[6,5] broadcast(o), dimensions={}\n  "
        "ROOT r = pred[6,5] compare(n, b), direction=LE",
    ),
    "constant": ("ROOT r = T[3] constant({0, 1, 1})",),
    "parameter": ("ROOT r = T[6,5] parameter(0)",),
    "copy": (_X + "ROOT r = T[6,5] copy(x)",),
    "tuple": (_X + "y = T[] parameter(1)\n  ROOT r = (T[6,5], T[]) tuple(x, y)",),
    "get-tuple-element": (
        _X + "y = T[] parameter(1)\n  t = (T[6,5], T[]) tuple(x, y)\n  "
        "ROOT r = T[] get-tuple-element(t), index=1",
    ),
    "opt-barrier": (_X + "ROOT r = T[6,5] opt-barrier(x)",),
    "add-dependency": (_X + "t = token[] after-all()\n  ROOT r = T[6,5] add-dependency(x, t)",),
    "domain": (
        _X + "ROOT r = T[6,5] domain(x), "
        'domain={kind="sharding", entry={maximal device=0}, exit={}}',
    ),
    "batch-norm-training": (
        "x = T[6,5] parameter(0)\n  s = T[5] parameter(1)\n  o = T[5] parameter(2)\n  ROOT r = "
        "(T[6,5], T[5], T[5]) batch-norm-training(x, s, o), epsilon=0.5, feature_index=1",
    ),
    "batch-norm-inference": (
        "x = T[6,5] parameter(0)\n  s = T[5] parameter(1)\n  o = T[5] parameter(2)\n  "
        "m = T[5] parameter(3)\n  v = T[5] constant({1, 2, 1, 2, 1})\n  "
        "ROOT r = T[6,5] batch-norm-inference(x, s, o, m, v), epsilon=0.5, feature_index=1",
    ),
    "batch-norm-grad": (
        "x = T[6,5] parameter(0)\n  s = T[5] parameter(1)\n  m = T[5] parameter(2)\n  "
        "v = T[5] constant({1, 2, 1, 2, 1})\n  g = T[6,5] parameter(3)\n  ROOT r = (T[6,5], T[5], "
        "T[5]) batch-norm-grad(x, s, m, v, g), epsilon=0.5, feature_index=1",
    ),
    "cholesky": (
        "x = T[3,3] constant({{4,1,0},{1,4,1},{0,1,4}})\n  ROOT r = T[3,3] cholesky(x), lower=true",
    ),
    "triangular-solve": (
        "a = T[3,3] constant({{4,0,0},{1,4,0},{0,1,4}})\n  b = T[3,2] parameter(0)\n  "
        "ROOT r = T[3,2] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE",
    ),
    "fft": (_X + "ROOT r = T[6,5] fft(x), fft_type=FFT, fft_length={5}",),
    "all-reduce": (_X + "ROOT r = T[6,5] all-reduce(x), replica_groups={}, to_apply=add",),
    "all-gather": (_X + "ROOT r = T[6,5] all-gather(x), replica_groups={}, dimensions={0}",),
    "reduce-scatter": (
        _X + "ROOT r = T[6,5] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add",
    ),
    "all-to-all": (_X + "ROOT r = T[6,5] all-to-all(x), replica_groups={{0}}, dimensions={0}",),
    "collective-broadcast": (_X + "ROOT r = T[6,5] collective-broadcast(x), replica_groups={{0}}",),
    "collective-permute": (
        _X + "ROOT r = T[6,5] collective-permute(x), source_target_pairs={{0,0}}",
    ),
    "all-reduce-start": (
        _X + "s = T[6,5] all-reduce-start(x), replica_groups={}, to_apply=add\n  "
        "ROOT r = T[6,5] all-reduce-done(s)",
    ),
    "all-gather-start": (
        _X + "s = (T[6,5], T[6,5]) all-gather-start(x), replica_groups={}, dimensions={0}\n  "
        "ROOT r = T[6,5] all-gather-done(s)",
    ),
    "collective-permute-start": (
        _X + "s = (T[6,5], T[6,5], u32[], u32[]) collective-permute-start(x), "
        "source_target_pairs={{0,0}}\n  ROOT r = T[6,5] collective-permute-done(s)",
    ),
    "async-start": (
        _X + "s = ((T[6,5]), T[6,5], s32[]) async-start(x), calls=double\n  "
        "ROOT r = T[6,5] async-done(s), calls=double",
    ),
    "copy-start": (
        _X + "s = (T[6,5], T[6,5], u32[]) copy-start(x)\n  ROOT r = T[6,5] copy-done(s)",
    ),
}
_OF_REALS = {"fft": (_X + "ROOT r = C[6,3] fft(x), fft_type=RFFT, fft_length={5}",)}
# Shown in the program of another.
SHOWN_BY = {
    "async-update": "async-start",
    "async-done": "async-start",
    "copy-done": "copy-start",
    "all-reduce-done": "all-reduce-start",
    "all-gather-done": "all-gather-start",
    "collective-permute-done": "collective-permute-start",
}
# Ops whose programs need more than one process, or say nothing about element types.
WITHOUT_PROGRAM = {
    "after-all": "takes and gives tokens only",
    "custom-call": "passes any type on; what a target takes is the target's",
    "infeed": "moves bytes of any type from the host's queue",
    "outfeed": "moves bytes of any type to the host's queue",
    "partition-id": "gives u32",
    "ragged-all-to-all": "moves bytes of any type between devices",
    "recv": "moves bytes of any type between devices",
    "recv-done": "moves bytes of any type between devices",
    "replica-id": "gives u32",
    "rng-get-and-update-state": "gives u64[2]",
    "send": "moves bytes of any type between devices",
    "send-done": "moves bytes of any type between devices",
}

_OWN = {
    "double": "double {\n  a = T[6,5] parameter(0)\n  ROOT r = T[6,5] add(a, a)\n}\n",
    "same": "same {\n  ROOT a = T[6,5] parameter(0)\n}\n",
    "again": (
        "again {\n  t = (s32[], T[6,5]) parameter(0)\n  n = s32[] get-tuple-element(t), index=0\n"
        "  three = s32[] constant(3)\n  ROOT r = pred[] compare(n, three), direction=LT\n}\n"
    ),
    "step_body": (
        "step_body {\n  t = (s32[], T[6,5]) parameter(0)\n"
        "  n = s32[] get-tuple-element(t), index=0\n  one = s32[] constant(1)\n"
        "  m = s32[] add(n, one)\n  x = T[6,5] get-tuple-element(t), index=1\n"
        "  y = T[6,5] reverse(x), dimensions={0}\n"
        "  ROOT r = (s32[], T[6,5]) tuple(m, y)\n}\n"
    ),
    "step": (
        "step {\n  a = T[5] parameter(0)\n  b = T[5] parameter(1)\n  c = T[5] add(a, b)\n"
        "  ROOT r = (T[5], T[5]) tuple(c, c)\n}\n"
    ),
}
_CALLED = re.compile(r"(?:to_apply|calls|condition|body|select|scatter|\w+_computation)=(\w+)")


def programs(opcode: str, element: DType) -> tuple[str, ...]:
    """Return the programs that show `opcode` on `element`, none where there is no template."""
    bodies = TEMPLATES.get(SHOWN_BY.get(opcode, opcode))
    if not element.is_complex:
        bodies = _OF_REALS.get(opcode, bodies)
    if bodies is None:
        definition = find(opcode)
        if not definition.has(Trait.ELEMENTWISE) or definition.arity[1] is None:
            return ()
        bodies = (_elementwise(opcode, definition.arity[1], element),)
    return tuple(_module(opcode, body, element) for body in bodies)


def _elementwise(opcode: str, count: int, element: DType) -> str:
    names = [f"x{number}" for number in range(count)]
    lines = [f"{name} = T[6,5] parameter({number})" for number, name in enumerate(names)]
    real = opcode in ("abs", "real", "imag") and element.is_complex
    result = "pred" if opcode == "is-finite" else "R" if real else "T"
    return "\n  ".join([*lines, f"ROOT r = {result}[6,5] {opcode}({', '.join(names)})"])


def _module(opcode: str, body: str, element: DType) -> str:
    names = sorted(set(_CALLED.findall(body)))
    shared = re.split(r"\n(?=\w+ \{)", _COMPUTATIONS)
    used = [part for part in shared if part.split(" ")[0].strip() in names]
    used += [_OWN[name] for name in names if name in _OWN]
    text = f"HloModule {opcode.replace('-', '_')}\n\n" + "\n".join(used)
    text += "\nENTRY main {\n  " + body + "\n}\n"
    return _with_types(text, element)


def _with_types(text: str, element: DType) -> str:
    bits = 8 if element is PRED else element.bits
    parts = f",{8 // bits}" if bits < 8 else ""
    real, whole = _REAL.get(element, element), _COMPLEX.get(element, element)
    text = re.sub(r"\bT\[6D\]", f"{element.name}[6{parts}]", text)
    text = re.sub(r"\buP\[", f"u{max(8, bits)}[", text)
    text = re.sub(r"\buB\[", f"u{bits}[", text)
    for letter, name in (("T", element), ("R", real), ("C", whole)):
        text = re.sub(rf"\b{letter}\[", f"{name.name}[", text)
    return _literals(text, element)


def _literals(text: str, element: DType) -> str:
    """Write the numbers of constants as the type writes them, and only those that it has."""

    def scalar(number: str) -> str:
        if element is PRED:
            return "false" if number == "0" else "true"
        if element.name == "s1":
            return "-1" if number == "1" else number
        if element.name == "f8e8m0fnu":
            return "1" if number == "0" else number
        return f"({number}, 0)" if element.is_complex else number

    def constant(found: re.Match[str]) -> str:
        inner = re.sub(r"\d+", lambda digit: scalar(digit.group()), found.group(2))
        return found.group(1) + inner + ")"

    name = re.escape(element.name)
    return re.sub(rf"(= {name}\[[\d,]*\] constant\()([^)]*)\)", constant, text)
