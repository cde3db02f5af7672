# SPDX-License-Identifier: Apache-2.0
"""Computations that are written alike: what is computed of them once."""

from __future__ import annotations

import pytest

from ingot import parse_hlo
from ingot.hlo.computation import Computation
from ingot.hlo.module import Module
from ingot.hlo.rewrite.fingerprint import fingerprint_computation
from ingot.hlo.shape import Shape
from ingot.hlo.structure import memoize_by_structure
from ingot.hlo.verifier import verify
from ingot.support.diagnostics import VerifyError

TEXT = """HloModule m
f {
  p = f32[4] parameter(0)
  ROOT r = f32[4] negate(p)
}
g {
  q = f32[4] parameter(0)
  ROOT s = f32[4] negate(q)
}
h {
  t = f32[4] parameter(0)
  ROOT u = f32[4] tanh(t)
}
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] fusion(x), kind=kLoop, calls=f
  b = f32[4] fusion(a), kind=kLoop, calls=g
  ROOT c = f32[4] fusion(b), kind=kLoop, calls=h
}
"""


def _computations(module: Module) -> tuple[Computation, Computation, Computation]:
    held = module.computations
    return held["f"], held["g"], held["h"]


def test_a_fact_is_asked_once_of_computations_written_alike() -> None:
    f, g, h = _computations(parse_hlo(TEXT))
    asked: list[Computation] = []

    def size(computation: Computation) -> int:
        asked.append(computation)
        return len(computation)

    assert [memoize_by_structure(size, one) for one in (f, g, h, g, f)] == [2] * 5
    assert asked == [f, h]


def test_a_fact_is_asked_again_after_an_edit() -> None:
    f, g, _ = _computations(parse_hlo(TEXT))
    assert memoize_by_structure(len, f) == memoize_by_structure(len, g) == 2
    f.set_root(f.add("abs", (f.root,)))
    assert memoize_by_structure(len, f) == 3
    assert memoize_by_structure(len, g) == 2


@pytest.mark.parametrize("name", ["f", "g", "h", "main"])
def test_an_edit_of_a_valid_module_is_checked(name: str) -> None:
    module = parse_hlo(TEXT)
    verify(module)
    computation = module.computations[name]
    computation.set_shape(computation.root, Shape.array("f32", (5,)))
    with pytest.raises(VerifyError):
        verify(module)


def test_a_caller_is_checked_when_what_it_calls_changed() -> None:
    module = parse_hlo(TEXT)
    verify(module)
    f = module.computations["f"]
    f.set_root(f.add("convert", (f.root,), shape=Shape.array("bf16", (4,))))
    with pytest.raises(VerifyError, match=r"%a|fusion"):
        verify(module)


def test_users_are_checked_in_each_of_computations_written_alike() -> None:
    module = parse_hlo(TEXT)
    verify(module)
    g = module.computations["g"]
    g.parameters[0].users.clear()
    g.version += 1
    with pytest.raises(VerifyError, match="does not know its user"):
        verify(module)


def test_a_copy_of_a_valid_module_is_valid_until_it_is_edited() -> None:
    copy = parse_hlo(TEXT).clone()
    verify(copy)
    f = copy.computations["f"]
    f.set_shape(f.parameters[0], Shape.array("f32", (3,)))
    with pytest.raises(VerifyError):
        verify(copy)


def test_callees_two_thousand_deep_have_a_fingerprint() -> None:
    first = "c0 {\n  p = f32[] parameter(0)\n  ROOT r = f32[] negate(p)\n}\n"
    rest = (
        f"c{n} {{\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c{n - 1}\n}}\n"
        for n in range(1, 2000)
    )
    entry = "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c1999\n}\n"
    module = parse_hlo("HloModule m\n" + first + "".join(rest) + entry)
    assert len(module.post_order()) == 2001
    assert fingerprint_computation(module.entry) != fingerprint_computation(
        module.computations["c0"]
    )
