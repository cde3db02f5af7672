# SPDX-License-Identifier: Apache-2.0
"""`dce_sink`: a call that does nothing but use its operands, so that they are computed.

JAX's `lax.dce_sink(value, prevent_mlir_dce=True)` is such a call: a value that only it uses stays
in the program. Invariant: it has no results, and touches no operand.

Source: jax/_src/lax/lax.py (dce_sink_p).
"""

from __future__ import annotations

from functools import cache

from ingot.llvm.linking import Library, link_object
from ingot.native.functions import exported, symbol_of
from ingot.native.module import compiled
from ingot.native.types import i32
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.records import CallFrame
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register


@exported("ingot_sink")
def sink(_: CallFrame) -> i32:
    """Do nothing."""
    return 0


@cache
def _library() -> Library:
    return link_object([compiled("ingot_sink", ("artifact", "runtime"), lambda: [sink])], {})


def _link(call: CallSite) -> LinkedCall:
    return LinkedCall(_library().address(symbol_of(sink)), _library())


def register_sink() -> None:
    """Register the target."""
    register(Target("dce_sink", evaluator_of(_link), _link))
