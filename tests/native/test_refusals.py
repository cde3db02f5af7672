# SPDX-License-Identifier: Apache-2.0
"""What the subset has not is an error that names the place and what is allowed."""

from __future__ import annotations

import linecache

import pytest
from tests.native.support import module_of

from ingot.native import functions, operations, pointers, statics, types
from ingot.native.types import TranslationError

NAMES = {}
for _module in (types, pointers, functions, operations, statics):
    NAMES |= vars(_module)


class Table(pointers.Struct, counts={"row": 2}):
    row: pointers.Array[types.i64]


class Of(types.Known):
    pass


NAMES |= {"Table": Table, "Of": Of}

REFUSED = {
    "for x in a: pass": ("a loop over `a`", "range(end)"),
    "return n / 2": ("the operator of `n / 2`", "+ - *"),
    "return n if n else 0": ("the condition `n`", "compare with 0"),
    "if p: return 1\n    return 0": ("the condition `p`", "is None"),
    "return p": ("a Pointer where a i64 is wanted", "Class.at(pointer)"),
    "return i32(n)": ("a i32 where a i64 is wanted", "i64(number)"),
    "return n + small": ("a i8 where a i64 is wanted", "i64(number)"),
    "small = 300": ("300 where a i8 is wanted", "a value of that type"),
    "return a[small]": ("a i8 where a i64 is wanted", "i64(number)"),
    "return a.length": ("a field of a Array[i64]", "fields of structs"),
    "return p[0]": ("an item of a Pointer", "Array and Structs"),
    "return unknown": ("'unknown' has no value here", "a name that every way assigns"),
    "if n == 1:\n        x = n\n    return x": ("'x' has no value here", "every way"),
    "for i in range(n):\n        y = i\n    return y": ("'y' has no value here", "every way"),
    "x = 1\n    x = n\n    return x": ("'x' gets no type", "i64"),
    "return n\n    return n": ("a statement that control never reaches", "none there"),
    "if n == 1: return 1": ("an end without a result", "on every way"),
    "return abs(n)": ("a call of the Python function `abs`", "@native"),
    "n.foo()": ("'foo' of a i64", "methods of Atomic"),
    "try: pass\n    finally: pass": ("a statement Try", "one of AnnAssign"),
    "return [n]": ("the expression `[n]`", "one of Attribute"),
    "x = y = n": ("an assignment to several targets", "one target"),
    "while True:\n        break": ("a `while` whose condition is known", "without break"),
    "return p < p": ("an order of Pointer", "orders of numbers"),
    "return n is 3": ("`is` of numbers", "=="),
    "x = unlikely(n == 1)": ("a likelihood in an expression", "if unlikely"),
    "return f(n)": ("1 arguments", "2 of them"),
    "return g(n, n)": ("where a Of is wanted", "an object of that class"),
    "return min(p, p)": ("an order of Pointer", "orders of numbers"),
    "for i in range(0, n, 1, 2): pass": ("a loop over", "range(start, end, step)"),
    "return f(n, m=n)": ("`f(n, m=n)`", "by position"),
    "return n in a": ("a membership test", "=="),
    "t.row = a": ("an assignment to the array 'row'", "to its items"),
}


def _function(body: str):
    file = f"<refused {body}>"
    source = (
        "from __future__ import annotations\n"
        "@native\n"
        "def f(a: Array[i64], n: i64) -> i64: return n\n"
        "@native\n"
        "def g(of: Of, n: i64) -> i64: return n\n"
        "@exported('refused')\n"
        "def refused(n: i64, small: i8, a: Array[i64], p: Pointer, t: Table) -> i64:\n"
        f"    {body}\n"
    )
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = dict(NAMES)
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope["refused"], file


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("body", REFUSED)
def test_refused(body):
    message, allowed = REFUSED[body]
    function, file = _function(body)
    with pytest.raises(TranslationError) as caught:
        module_of(function)
    found = caught.value.diagnostic
    assert message in found.message
    assert allowed in found.hint
    assert "in native function 'refused'" in found.message
    first = 7
    last = first if "an end without" in message else first + len(body.split("\n"))
    assert found.location.file == file
    assert first <= found.location.line <= last


def test_annotations_are_checked():
    with pytest.raises(TranslationError, match="is no type of native code"):
        types.resolve("float", {"float": float})


def test_a_field_may_not_hide_what_pointers_have():
    with pytest.raises(Exception, match="pointers have a 'address'"):
        type("Bad", (pointers.Struct,), {"__annotations__": {"address": "i64"}})
