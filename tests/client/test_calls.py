# SPDX-License-Identifier: Apache-2.0
"""Calls that stay: programs that would unfold to too many instructions call functions instead.

Each program is executed and held against the evaluator, which calls too. `_doubling` makes chains
of computations that each run the next one twice; what they do to it differs from test to test.
Most tests lower the limit (`low`), so that few calls are over it. Numbers are integers: equal.
"""

import re

import numpy as np
import pytest
from tests.support.against_evaluator import agrees
from tests.support.deep_programs import PROGRAMS

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.host import program as host
from ingot.passes import unfolding

VECTOR = np.array([3, 141, 59265, 358979323], np.uint32)


def _work(element="u32[4]"):
    """Return the lines of a computation of `p` of 19 instructions."""
    kinds = ("multiply", "xor", "add")
    before = ["p", *(f"s{n}" for n in range(17))]
    lines = [f"s{n} = {element} {kinds[n % 3]}({before[n]}, q)" for n in range(17)]
    three = "3" if element.endswith("[]") else None
    q = f"q = {element} constant({three})" if three else f"q = {element} constant({{3, 5, 7, 9}})"
    return (q, *lines, f"ROOT w = {element} subtract(s16, p)")


@pytest.fixture
def low(monkeypatch):
    """Let 2^7 of these be over the limit; with the true one it takes 2^14."""
    monkeypatch.setattr(unfolding, "MAX_UNFOLDED", 2000)


def _computation(name, *lines):
    return f"{name} {{\n  " + "\n  ".join(("p = u32[4] parameter(0)", *lines)) + "\n}\n"


def _doubling(depth, twice):
    """Return a module whose `c0` works and whose `c1`, ... each run the one before twice.

    `twice(inner)` gives the lines of a computation of `p` that does.
    """
    made = ["HloModule calls", _computation("c0", *_work())]
    made += [_computation(f"c{n}", *twice(f"c{n - 1}")) for n in range(1, depth + 1)]
    entry = ["x = u32[4] parameter(0)", f"ROOT r = u32[4] call(x), to_apply=c{depth}"]
    return "\n".join(made) + "\nENTRY e {\n  " + "\n  ".join(entry) + "\n}\n"


def _calls(inner):
    return (
        f"a = u32[4] call(p), to_apply={inner}",
        f"b = u32[4] call(a), to_apply={inner}",
        "ROOT r = u32[4] add(b, p)",
    )


def _fusions(inner):
    return (
        f"a = u32[4] fusion(p), kind=kLoop, calls={inner}",
        f"b = u32[4] fusion(a), kind=kLoop, calls={inner}",
        "ROOT r = u32[4] subtract(b, p)",
    )


def _branches(inner):
    return (
        "t = u32[4] not(p)",
        "f = u32[1] slice(t), slice={[1:2]}",
        "s = u32[] reshape(f)",
        "z = u32[] constant(2000000000)",
        "k = pred[] compare(s, z), direction=GT",
        f"a = u32[4] conditional(k, p, t), true_computation={inner}, false_computation={inner}",
        "i = s32[] convert(k)",
        f"b = u32[4] conditional(i, a, p), branch_computations={{{inner}, {inner}}}",
        "ROOT r = u32[4] add(b, p)",
    )


def _compiled(text):
    module = ingot.parse_hlo(text)
    executable = ingot.compile(module, context=PassContext(debug=1))
    assert " call(" in executable.as_text("hlo")
    return module, executable


def _check(text, *arguments):
    module, executable = _compiled(text)
    return agrees(module, arguments or (VECTOR,), executable=executable).executable


@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_computations_that_run_the_next_one_twice(twice, low):
    _check(_doubling(7, twice))


@pytest.mark.slow
@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_2_to_14_calls_give_what_the_evaluator_says(twice):
    _check(_doubling(14, twice))


@pytest.mark.slow
@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_2_to_30_calls_compile_to_code_as_long_as_the_program(twice):
    short, long = (_compiled(_doubling(depth, twice))[1] for depth in (15, 30))
    for stage in ("hlo", "llvm"):
        assert len(long.as_text(stage)) < 2.5 * len(short.as_text(stage))


def test_few_functions_do_for_small_computations():
    text = ingot.compile(ingot.parse_hlo(PROGRAMS["doubling_calls"](30))).as_text("hlo")
    assert 2 <= len(set(re.findall(r"call\(.*to_apply=(%\S+)", text))) < 15


def test_programs_within_the_limit_have_no_calls():
    executable = ingot.compile(ingot.parse_hlo(_doubling(5, _calls)))
    assert " call(" not in executable.as_text("hlo")


def test_a_call_that_the_program_asks_to_keep_stays():
    text = """HloModule m
      f { p = u32[4] parameter(0) ROOT r = u32[4] multiply(p, p) }
      ENTRY e { x = u32[4] parameter(0) y = u32[4] add(x, x)
        c = u32[4] call(y), to_apply=f, frontend_attributes={inlineable="false"}
        d = u32[4] call(c), to_apply=f
        ROOT r = u32[4] xor(d, x) }"""
    executable = ingot.compile(ingot.parse_hlo(text))
    assert executable.as_text("hlo").count('inlineable="false"') == 1
    agrees(ingot.parse_hlo(text), [VECTOR])


def test_loops_that_run_others_twice(monkeypatch):
    monkeypatch.setattr(unfolding, "MAX_UNFOLDED", 500)
    state = "(s32[], u32[4])"
    parts = f"s = {state} parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
    parts += " v0 = u32[4] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
    parts += " j = s32[] add(i, one)\n zero = s32[] constant(0)\n"
    text = "HloModule loops\n" + _computation("c0", *_work())
    text += f"more {{ {parts} two = s32[] constant(2)\n ROOT r = pred[] compare(i, two), "
    text += "direction=LT }\n"
    text += f"b0 {{ {parts} w = u32[4] call(v0), to_apply=c0\n ROOT r = {state} tuple(j, w) }}\n"
    for level in range(1, 5):
        text += f"b{level} {{ {parts}"
        for n in range(2):
            text += f" t{n} = {state} tuple(zero, v{n})\n l{n} = {state} while(t{n}), "
            text += f"condition=more, body=b{level - 1}\n"
            text += f" v{n + 1} = u32[4] get-tuple-element(l{n}), index=1\n"
        text += f" r = u32[4] add(v0, v2)\n ROOT t = {state} tuple(j, r) }}\n"
    text += "ENTRY e { x = u32[4] parameter(0)\n zero = s32[] constant(0)\n"
    text += f" t = {state} tuple(zero, x)\n"
    text += f" ROOT l = {state} while(t), condition=more, body=b4 }}"
    _check(text, VECTOR)


def _async(inner):
    return (
        f"s = ((u32[4]), u32[4], u32[]) async-start(p), calls={inner}",
        f"a = u32[4] async-done(s), calls={inner}",
        f"t = ((u32[4]), u32[4], u32[]) async-start(a), calls={inner}",
        f"b = u32[4] async-done(t), calls={inner}",
        "ROOT r = u32[4] xor(a, b)",
    )


def test_asynchronous_pairs_are_calls(low):
    _check(_doubling(7, _async))


def _with_sizes(inner):
    return (
        f"a = u32[4] call(p), to_apply={inner}",
        "h = u32[4] reverse(a), dimensions={0}",
        f"b = u32[4] call(h), to_apply={inner}",
        "f = u32[3] slice(b), slice={[0:3]}",
        "zero = u32[] constant(0)",
        "g = u32[] reduce(f, zero), dimensions={0}, to_apply=add",
        "w = u32[4] broadcast(g), dimensions={}",
        "ROOT r = u32[4] add(w, a)",
    )


_ADD = "add { a = u32[] parameter(0)  b = u32[] parameter(1)  ROOT c = u32[] add(a, b) }\n"


def test_symbolic_sizes_are_checked_where_they_are_demanded(low):
    text = _doubling(7, _with_sizes).replace("HloModule calls", "HloModule calls\n" + _ADD)
    text = text.replace("constant({3, 5, 7, 9})", "broadcast(three), dimensions={}")
    text = text.replace("u32[4]", "u32[?n]").replace("q = u", "three = u32[] constant(3)\nq = u")
    executable = _check(text, np.arange(1000, dtype=np.uint32))
    _check(text, VECTOR)
    with pytest.raises(ingot.IngotError, match="slice needs 3 <= n"):
        executable(VECTOR[:2])


def test_a_donated_argument_is_overwritten_only_by_the_result(low):
    text = _doubling(7, _calls).replace(
        "HloModule calls", "HloModule calls, input_output_alias={ {}: (0, {}, may-alias) }"
    )
    module, executable = _compiled(text)
    want = evaluate(module, [VECTOR])
    np.testing.assert_array_equal(np.asarray(executable(VECTOR.copy(), donate=(0,))), want)


def _pairs(inner):
    return (
        f"a = (u32[4], (u32[4])) call(p), to_apply={inner}",
        f"b = (u32[4], (u32[4])) call(a), to_apply={inner}",
        "b0 = u32[4] get-tuple-element(b), index=0",
        "a1 = (u32[4]) get-tuple-element(a), index=1",
        "ROOT r = (u32[4], (u32[4])) tuple(b0, a1)",
    )


def test_tuples_parameters_that_are_results_and_constants_that_are(low):
    pair = "(u32[4], (u32[4]))"
    first = [line.replace("ROOT ", "").replace(", p)", ", p0)") for line in _work()]
    first = [line.replace("(p,", "(p0,") for line in first]
    parts = [
        "p0 = u32[4] get-tuple-element(p), index=0",
        "p1 = (u32[4]) get-tuple-element(p), index=1",
        "p2 = u32[4] get-tuple-element(p1), index=0",
        *first,
        "m = u32[4] add(w, p2)",
        "k = (u32[4]) tuple(p0)",
        f"ROOT r = {pair} tuple(m, k)",
    ]
    made = ["HloModule pairs", _computation("c0", *parts)]
    made += [_computation(f"c{n}", *_pairs(f"c{n - 1}")) for n in range(1, 8)]
    text = "\n".join(made).replace("p = u32[4] parameter", f"p = {pair} parameter")
    text += "last { x = u32[4] parameter(0)\n k = u32[4] constant({1, 2, 3, 4})\n"
    text += f" t = (u32[4]) tuple(k)\n a = {pair} tuple(x, t)\n"
    text += f" b = {pair} call(a), to_apply=c7\n ROOT r = ({pair}, (u32[4])) tuple(b, t) }}\n"
    text += f"ENTRY e {{ x = u32[4] parameter(0)\n a = ({pair}, (u32[4])) call(x), to_apply=last\n"
    text += f" y = u32[4] not(x)\n b = ({pair}, (u32[4])) call(y), to_apply=last\n"
    text += f" ROOT r = (({pair}, (u32[4])), ({pair}, (u32[4]))) tuple(a, b) }}"
    _check(text)


def test_an_assertion_inside_ends_the_program(low):
    lines = [*_work()[:-1], "w = u32[4] subtract(s16, p)"]
    lines += [
        "limit = u32[4] constant({4000000000, 4000000000, 4000000000, 4000000000})",
        "ok = pred[4] compare(p, limit), direction=LT",
        "t = pred[] constant(true)",
        "all = pred[] reduce(ok, t), dimensions={0}, to_apply=both",
        'check = () custom-call(all), custom_call_target="ingot.assert", '
        'custom_call_has_side_effect=true, backend_config="too large"',
        "ROOT r = u32[4] add(w, w)",
    ]
    both = "both { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT c = pred[] and(a, b) }\n"
    text = "HloModule calls\n" + both + _computation("c0", *lines)
    text += "".join(_computation(f"c{n}", *_calls(f"c{n - 1}")) for n in range(1, 8))
    text += "ENTRY e {\n  x = u32[4] parameter(0)\n  ROOT r = u32[4] call(x), to_apply=c7\n}\n"
    module, executable = _compiled(text)
    for function in (executable, lambda x: evaluate(module, [x])):
        with pytest.raises(ingot.IngotError, match="too large"):
            function(VECTOR)


def _scalar_chain(depth):
    made = ["HloModule scalars", _computation("c0", *_work("u32[]"))]
    made += [_computation(f"c{n}", *_calls(f"c{n - 1}")) for n in range(1, depth + 1)]
    return "\n".join(made).replace("u32[4]", "u32[]")


def test_what_kernels_apply_may_be_called_too(low):
    entry = """
ENTRY e {
  x = u32[4] parameter(0)
  m = u32[4] map(x), dimensions={0}, to_apply=c4
  f = u32[1] slice(m), slice={[2:3]}
  s = u32[] reshape(f)
  c = u32[] call(s), to_apply=c9
  d = u32[] call(c), to_apply=c4
  ROOT r = (u32[4], u32[], u32[]) tuple(m, c, d)
}
"""
    _check(_scalar_chain(9) + entry)


_APPLIED = {
    "map": "ROOT m = u32[4] map(x), dimensions={0}, to_apply=c9",
    "reduce": "z = u32[] constant(1)\n ROOT m = u32[] reduce(x, z), dimensions={0}, to_apply=both",
    "window": "z = u32[] constant(1)\n ROOT m = u32[3] reduce-window(x, z), window={size=2}, "
    "to_apply=both",
    "sort": "ROOT m = u32[4] sort(x), dimensions={0}, to_apply=less",
    "scatter": "i = s32[4,1] constant({{1}, {2}, {1}, {0}})\n ROOT m = u32[4] scatter(x, i, x), "
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=both",
}


@pytest.mark.parametrize("op", _APPLIED)
def test_computations_of_elements_over_the_limit_are_called(op, low):
    text = _scalar_chain(9)
    pair = "a = u32[] parameter(0)\n b = u32[] parameter(1)\n s = u32[] call(a), to_apply=c9\n "
    pair += "t = u32[] call(b), to_apply=c9\n "
    text += f"\nless {{ {pair} ROOT r = pred[] compare(s, t), direction=LT }}\n"
    text += f"both {{ {pair} k = pred[] compare(s, t), direction=LT\n "
    text += "ROOT r = u32[] select(k, a, b) }\n"
    _check(text + f"ENTRY e {{ x = u32[4] parameter(0)\n {_APPLIED[op]} }}")


def test_arrays_of_dynamic_size_enter_no_call():
    text = _doubling(30, _calls).replace("u32[4]", "u32[<=4]")
    text = text.replace("q = u32[<=4] constant", "q = u32[4] constant")
    text = text.replace(
        "x = u32[<=4] parameter(0)",
        "y = u32[4] parameter(0)\n  k = s32[] "
        "constant(3)\n  x = u32[<=4] set-dimension-size(y, k), dimensions={0}",
    )
    with pytest.raises(ingot.IngotError, match="INGOT0403"):
        ingot.compile(ingot.parse_hlo(text))


def test_chains_that_the_stack_may_not_hold_are_refused(monkeypatch):
    monkeypatch.setattr(host, "MAX_STACK", 1 << 14)
    with pytest.raises(ingot.IngotError, match="INGOT0403"):
        ingot.compile(ingot.parse_hlo(_doubling(40, _calls)))


def test_passes_may_make_a_program_within_the_limit_longer(monkeypatch):
    called = "fusion(x), kind=kLoop, calls=c4"
    text = _doubling(4, _branches).replace("call(x), to_apply=c4", called)
    module = ingot.parse_hlo(text)  # 5,972 instructions unfolded
    monkeypatch.setattr(unfolding, "MAX_UNFOLDED", 5971)
    unfolding.check_unfolded(module)
    monkeypatch.setattr(unfolding, "MAX_UNFOLDED", 5972 // unfolding.MAX_GROWTH - 1)
    with pytest.raises(ingot.IngotError, match=r"5972 instructions.*most 5968"):
        unfolding.check_unfolded(module)


def test_long_programs_are_several_functions(monkeypatch):
    monkeypatch.setattr(host, "MAX_IN_FUNCTION", 2)
    text = """HloModule m
    body { s = (s32[], f32[40], f32[40]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[40] get-tuple-element(s), index=1
      y = f32[40] get-tuple-element(s), index=2
      one = s32[] constant(1)
      next = s32[] add(i, one)
      a = f32[40] sort(x), dimensions={0}, to_apply=less
      b = f32[40] sort(y), dimensions={0}, to_apply=less
      c = f32[40] subtract(b, a)
      ROOT r = (s32[], f32[40], f32[40]) tuple(next, c, a) }
    less { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = pred[] compare(a, b), direction=LT }
    cond { s = (s32[], f32[40], f32[40]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      most = s32[] constant(3)
      ROOT c = pred[] compare(i, most), direction=LT }
    ENTRY e { zero = s32[] constant(0)
      x = f32[40] parameter(0)
      y = f32[40] parameter(1)
      a = f32[40] sort(x), dimensions={0}, to_apply=less
      b = f32[40] sort(y), dimensions={0}, to_apply=less
      s = (s32[], f32[40], f32[40]) tuple(zero, a, b)
      w = (s32[], f32[40], f32[40]) while(s), condition=cond, body=body
      p = f32[40] get-tuple-element(w), index=1
      q = f32[40] get-tuple-element(w), index=2
      u = f32[40] sort(p), dimensions={0}, to_apply=less
      ROOT r = (f32[40], f32[40]) tuple(u, q) }"""
    module = ingot.parse_hlo(text)
    executable = ingot.compile(module)
    assert executable.as_text("llvm").count("define internal i32") >= 3
    generator = np.random.default_rng(3)
    arguments = [generator.standard_normal(40).astype(np.float32) for _ in range(2)]
    for got, want in zip(executable(*arguments), evaluate(module, arguments), strict=True):
        np.testing.assert_array_equal(got, want)
