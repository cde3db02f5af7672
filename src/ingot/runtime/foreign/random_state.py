# SPDX-License-Identifier: Apache-2.0
"""The state of `rng-get-and-update-state`, a 128-bit counter per call site, and `GetRngSeed`.

`ingot.rng_state` returns the counter, low word first, and advances it. A counter starts at the
seed, with the number of the call site in its high word, so the sites of a program never draw the
same numbers, whatever the order in which they run. It lives as long as the executable.

`GetRngSeed`, which occurs in programs whose `rng` XLA has expanded, returns the seed itself.

Invariant: two executions of a program at once never get the same counter (a spin lock).
"""

from __future__ import annotations

import json
from functools import cache

from ingot.llvm.linking import Library, link_object
from ingot.native.functions import exported, symbol_of
from ingot.native.module import compiled
from ingot.native.pointers import Array, Atomic, Struct
from ingot.native.types import i32, i64
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.site import linked_site
from ingot.runtime.native import library_imports
from ingot.runtime.records import CallFrame
from ingot.runtime.threading.sync import lock, unlock
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register
from ingot.support.flags import RANDOM_SEED


class Counter(Struct, name="IngotRandomState"):
    """The counter of a call site."""

    lock: Atomic[i32]
    low: i64
    high: i64
    delta: i64  # what a call adds to it; not negative


class Seed(Struct, name="IngotRandomSeed"):
    """The result of `GetRngSeed`."""

    value: i64


START = 0x7012395
"""XLA's initial value (xla/service/cpu/ir_emitter.cc, RngGetAndUpdateState)."""


@exported("ingot_rng_state")
def rng_state(frame: CallFrame, site: Counter) -> i32:
    """Store the counter and advance it."""
    result = Array[i64].at(frame.results[0])
    assert result is not None
    lock(site.lock)
    low = site.low
    high = site.high
    following = i64(low + site.delta)
    site.low = following
    # Of numbers without sign: where it wraps, the highest bit goes from 1 to 0.
    if low < 0 and following >= 0:
        site.high = i64(high + 1)
    unlock(site.lock)
    result[0] = low
    result[1] = high
    return 0


@exported("ingot_rng_seed")
def rng_seed(frame: CallFrame, site: Seed) -> i32:
    """Store the seed."""
    result = Array[i64].at(frame.results[0])
    assert result is not None
    result[0] = site.value
    return 0


@cache
def _library() -> Library:
    packages = ("artifact", "runtime")
    data = compiled("ingot_random_state", packages, lambda: [rng_state, rng_seed])
    return link_object([data], library_imports())


def _link(call: CallSite) -> LinkedCall:
    config = json.loads(call.config)
    site = Counter.c_layout.structure()
    site.low = START + RANDOM_SEED.value()
    site.high = call.number
    site.delta = config["delta"]
    return linked_site(_library().address(symbol_of(rng_state)), site, str)


def _link_seed(call: CallSite) -> LinkedCall:
    site = Seed.c_layout.structure()
    site.value = START + RANDOM_SEED.value()
    return linked_site(_library().address(symbol_of(rng_seed)), site, str)


def register_random_state() -> None:
    """Register the targets."""
    register(Target("ingot.rng_state", link=_link))
    register(Target("GetRngSeed", evaluator_of(_link_seed), _link_seed))
