# SPDX-License-Identifier: Apache-2.0
"""`send` and `recv` whose value is taken before it is there: refused by both engines."""

from __future__ import annotations

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse
from ingot.support.diagnostics import UnsupportedError

ENDS = "(f32[], u32[], token[])"
GROUP = f"""HloModule m
group {{
  x = f32[] parameter(0)
  t = token[] parameter(1)
  s = {ENDS} send(x, t), channel_id=1
  r = {ENDS} recv(t), channel_id=1
  ROOT both = ({ENDS}, {ENDS}) tuple(s, r)
}}
ENTRY e {{
  x = f32[] parameter(0)
  t = token[] after-all()
  start = ((f32[], token[]), ({ENDS}, {ENDS}), s32[]) async-start(x, t), calls=group
  done = ({ENDS}, {ENDS}) async-done(start)
  r = {ENDS} get-tuple-element(done), index=1
  ROOT y = f32[] get-tuple-element(r), index=0
}}"""
PLAIN = f"""HloModule m
ENTRY e {{
  x = f32[] parameter(0)
  t = token[] after-all()
  s = {ENDS} send(x, t), channel_id=1
  d = token[] send-done(s), channel_id=1
  r = {ENDS} recv(d), channel_id=1
  e = (f32[], token[]) recv-done(r), channel_id=1
  z = f32[] get-tuple-element(e), index=0
  y = f32[] get-tuple-element(r), index=0
  ROOT both = (f32[], f32[]) tuple(z, y)
}}"""


@pytest.mark.parametrize("text", [GROUP, PLAIN], ids=["asynchronous", "plain"])
def test_a_value_that_is_not_there_yet_is_refused(text: str):
    with pytest.raises(UnsupportedError, match="done"):
        evaluate(parse(text), [np.float32(3)])
    with pytest.raises(UnsupportedError, match="done"):
        ingot.compile(parse(text))


def test_a_received_value_is_complete_after_its_done():
    text = PLAIN.replace("get-tuple-element(r), index=0", "negate(z)")
    for value in (
        evaluate(parse(text), [np.float32(3)]),
        ingot.compile(parse(text))(np.float32(3)),
    ):
        assert [float(part) for part in value] == [3, -3]
