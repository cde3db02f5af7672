# SPDX-License-Identifier: Apache-2.0
"""The state of `rng-get-and-update-state`, a 128-bit counter per call site, and `GetRngSeed`.

`ingot.rng_state` gives the counter, low word first, and moves it on. A counter begins where the
seed says, with the number of the call site in its high word, so the sites of a program never draw
the same numbers, whatever the order in which they run. It lives as long as the executable.

`GetRngSeed`, which programs hold whose `rng` XLA has expanded, gives the seed itself.

Invariant: two executions of a program at once never get the same counter (a spin lock).
"""

from __future__ import annotations

import ctypes
import json
from functools import cache

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, I64, PTR
from ingot.native.layout import Field, Record
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.site import linked_site
from ingot.runtime.native import library_imports
from ingot.runtime.records import CALL_FRAME
from ingot.runtime.sync import emit_lock, emit_unlock
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register
from ingot.support.flags import RANDOM_SEED

STATE = Record(
    "IngotRandomState",
    Field("lock", "i32"),
    Field("low", "i64"),
    Field("high", "i64"),
    Field("delta", "i64", note="how far a call moves the counter"),
)
START = 0x7012395
"""XLA's initial value (xla/service/cpu/ir_emitter.cc, RngGetAndUpdateState)."""


@cache
def _library() -> Library:
    module = ModuleBuilder("ingot_random_state")
    f = module.function("ingot_rng_state", I32, [("frame", PTR), ("site", PTR)])
    frame, site = f.params
    result = f.load(PTR, CALL_FRAME.load(f, frame, "results"))
    lock = STATE.address(f, site, "lock")
    emit_lock(f, lock)
    low, high = STATE.load(f, site, "low"), STATE.load(f, site, "high")
    following = f.add(low, STATE.load(f, site, "delta"))
    carry = f.zext(f.icmp("ult", following, low), I64)
    STATE.store(f, site, "low", following)
    STATE.store(f, site, "high", f.add(high, carry))
    emit_unlock(f, lock)
    f.store(low, result)
    f.store(high, f.gep(result, 8))
    f.ret(f.const(I32, 0))
    return link_object([compile_object(module.text(), TargetSpec.host())], library_imports())


def _link(call: CallSite) -> LinkedCall:
    config = json.loads(call.config)
    site = STATE.structure()
    site.low = START + RANDOM_SEED.value()
    site.high = call.number
    site.delta = config["delta"]
    return linked_site(_library().address("ingot_rng_state"), site, str)


class _Seed(ctypes.Structure):
    _fields_ = (("value", ctypes.c_uint64),)


@cache
def _seed_library() -> Library:
    module = ModuleBuilder("ingot_random_seed")
    f = module.function("ingot_rng_seed", I32, [("frame", PTR), ("site", PTR)])
    frame, site = f.params
    f.store(f.load(I64, site), f.load(PTR, CALL_FRAME.load(f, frame, "results")))
    f.ret(f.const(I32, 0))
    return link_object([compile_object(module.text(), TargetSpec.host())], {})


def _link_seed(call: CallSite) -> LinkedCall:
    site = _Seed(START + RANDOM_SEED.value())
    return linked_site(_seed_library().address("ingot_rng_seed"), site, str)


def register_random_state() -> None:
    """Let programs be linked that draw random numbers from state of their own."""
    register(Target("ingot.rng_state", link=_link))
    register(Target("GetRngSeed", evaluator_of(_link_seed), _link_seed))
