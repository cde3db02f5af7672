"""Calls that stay: programs that would unfold to too many instructions call functions instead.

Each program is executed and held against the evaluator, which calls too. `_doubling` makes chains
of computations that each run the next one twice; what they do to it differs from test to test.
Most tests lower the limit (`low`), so that few calls are over it. Numbers are integers: equal.
"""

import re

import numpy as np
import pytest
from tests.support.deep_programs import PROGRAMS

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify import unfolding

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
    arguments = arguments or (VECTOR,)
    found, want = executable(*arguments), evaluate(module, arguments)
    for one, other in zip(_leaves(found), _leaves(want), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
    return executable


def _leaves(value):
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_computations_that_run_the_next_one_twice(twice, low):
    _check(_doubling(7, twice))


@pytest.mark.slow
@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_2_to_14_calls_give_what_the_evaluator_says(twice):
    _check(_doubling(14, twice))


@pytest.mark.slow
@pytest.mark.parametrize("twice", [_calls, _fusions, _branches])
def test_2_to_30_calls_compile_to_code_as_long_as_what_is_written(twice):
    short, long = (_compiled(_doubling(depth, twice))[1] for depth in (15, 30))
    for stage in ("hlo", "llvm"):
        assert len(long.as_text(stage)) < 2.5 * len(short.as_text(stage))


def test_few_functions_do_for_small_computations():
    text = ingot.compile(ingot.parse_hlo(PROGRAMS["doubling_calls"](30))).as_text("hlo")
    assert 2 <= len(set(re.findall(r"call\(.*to_apply=(%\S+)", text))) < 15


def test_programs_within_the_limit_have_no_calls():
    executable = ingot.compile(ingot.parse_hlo(_doubling(5, _calls)))
    assert " call(" not in executable.as_text("hlo")
