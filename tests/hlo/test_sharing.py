# SPDX-License-Identifier: Apache-2.0
"""Memory that parameters give to results: what `HloInputOutputAliasConfig::Verify` refuses."""

from __future__ import annotations

import pytest

import ingot
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_text import parse
from ingot.hlo.donors import read_donors, write_donors
from ingot.hlo.module import Alias
from ingot.hlo.verifier import verify
from ingot.semantics.buffer_donation import taken_donors
from ingot.support.diagnostics import VerifyError

TEXT = """HloModule m{header}

ENTRY main {{
  x = f32[4] parameter(0)
  y = (f32[4], s32[]) parameter(1)
  t = token[] parameter(2)
  a = f32[4] add(x, x)
  b = f32[4] multiply(x, x)
  z = s32[] get-tuple-element(y), index=1
  ROOT r = (f32[4], f32[4], s32[]) tuple(a, b, z)
}}
"""

BAD = {
    "two outputs of one parameter": "input_output_alias={ {0}: (0, {}), {1}: (0, {}) }",
    "two outputs of one part": "input_output_alias={ {0}: (1, {0}), {1}: (1, {0}) }",
    "two parameters to one output": "input_output_alias={ {0}: (0, {}), {0}: (1, {0}) }",
    "no such parameter": "input_output_alias={ {0}: (3, {}) }",
    "negative parameter": "input_output_alias={ {0}: (-1, {}) }",
    "no such output": "input_output_alias={ {3}: (0, {}) }",
    "no such path": "input_output_alias={ {0}: (0, {0}) }",
    "no such path in a tuple": "input_output_alias={ {0}: (1, {2}) }",
    "a path too deep": "input_output_alias={ {0,0}: (0, {}) }",
    "another size": "input_output_alias={ {2}: (0, {}) }",
    "a whole result tuple": "input_output_alias={ {}: (0, {}) }",
    "a whole parameter tuple": "input_output_alias={ {0}: (1, {}) }",
    "a token": "input_output_alias={ {0}: (2, {}) }",
    "an unknown kind": "input_output_alias={ {0}: (0, {}, no-alias) }",
    "a donor that is not there": "buffer_donor={ (3, {}) }",
    "a path that is not there": "buffer_donor={ (1, {2}) }",
    "a tuple as donor": "buffer_donor={ (1, {}) }",
    "a token as donor": "buffer_donor={ (2, {}) }",
    "donor and alias": "input_output_alias={ {0}: (0, {}) }, buffer_donor={ (0, {}) }",
    "a donor's text": "buffer_donor={ 0 }",
    "a negative donor": "buffer_donor={ (-1, {}) }",
}
GOOD = (
    "input_output_alias={ {0}: (0, {}), {1}: (1, {0}), {2}: (1, {1}, must-alias) }",
    "input_output_alias={ {0}: (0, {}) }, buffer_donor={ (1, {0}), (1, {1}) }",
    "buffer_donor={ (0, {}), (0, {}) }",
    "buffer_donor={}",
)


@pytest.mark.parametrize("header", BAD.values(), ids=BAD)
def test_wrong_tables_are_refused_with_their_position(header: str):
    with pytest.raises(VerifyError) as caught:
        parse(TEXT.format(header=", " + header))
    assert caught.value.diagnostic.code == "INGOT0217"
    assert caught.value.diagnostic.span.line == 1


@pytest.mark.parametrize("header", GOOD)
def test_right_tables_are_taken(header: str):
    module = parse(TEXT.format(header=", " + header))
    assert parse_hlo_proto(print_hlo_proto(module)).aliases == module.aliases


def test_every_way_into_the_compiler_is_guarded():
    module = parse(TEXT.format(header=""))
    module.aliases = (Alias((0,), 0), Alias((1,), 0))
    for way in (verify, ingot.compile, lambda one: parse_hlo_proto(print_hlo_proto(one))):
        with pytest.raises(VerifyError, match="aliased to two outputs"):
            way(module)


def test_a_donor_that_is_written_twice_is_taken_once():
    module = parse(TEXT.format(header=""))
    write_donors(module, [(0, ()), (0, ())])
    assert read_donors(module) == [(0, ())]
    assert taken_donors(module) == [Alias((0,), 0)]
