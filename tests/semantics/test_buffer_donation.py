# SPDX-License-Identifier: Apache-2.0
"""Donors: which are taken, for which result, and which of those become aliases."""

from __future__ import annotations

from ingot.formats.hlo_text import parse
from ingot.hlo.donors import read_donors, write_donors
from ingot.hlo.module import Alias, Module
from ingot.hlo.verifier import verify
from ingot.semantics.buffer_donation import alias_donors, taken_donors

TEXT = """
HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  y = f32[4,2] parameter(1)
  z = f32[3] parameter(2)
  flat = f32[8] reshape(y)
  sum = f32[8] add(x, flat)
  ROOT r = (f32[8], f32[8]) tuple(sum, x)
}
"""


def module_with(*donors: int) -> Module:
    module = parse(TEXT)
    write_donors(module, [(number, ()) for number in donors])
    return module


def test_a_donor_is_taken_for_a_result_of_as_many_bytes():
    assert taken_donors(module_with(1, 2)) == [Alias((0,), 1)]


def test_each_result_takes_one_donor_and_none_that_an_alias_has():
    module = module_with(0, 1)
    assert taken_donors(module) == [Alias((0,), 0), Alias((1,), 1)]
    module.aliases = (Alias((0,), 0),)
    assert taken_donors(module) == [Alias((1,), 1)]


def test_only_donors_of_the_result_s_shape_become_aliases():
    module = module_with(1, 0)
    alias_donors(module)
    assert module.aliases == (Alias((1,), 0),)


def test_a_donor_that_becomes_an_alias_is_no_donor_any_more():
    module = module_with(0, 2)
    alias_donors(module)
    verify(module)
    assert module.aliases == (Alias((0,), 0),)
    assert read_donors(module) == [(2, ())]
