# SPDX-License-Identifier: Apache-2.0
"""`dce_sink`: a call that does nothing but use its operands, so that they are computed.

JAX's `lax.dce_sink(value, prevent_mlir_dce=True)` is such a call: a value that only it uses stays
in the program. Invariant: it has no results, and touches no operand.

Source: jax/_src/lax/lax.py (dce_sink_p).
"""

from __future__ import annotations

from functools import cache

from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import I32, PTR
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register

_SYMBOL = "ingot_sink"


@cache
def _library() -> Library:
    module = ModuleBuilder(_SYMBOL)
    function = module.function(_SYMBOL, I32, [("frame", PTR)])
    function.ret(function.const(I32, 0))
    return link_object([compile_object(module.text(), TargetSpec.host())], {})


def _link(call: CallSite) -> LinkedCall:
    return LinkedCall(_library().address(_SYMBOL), _library())


def register_sink() -> None:
    """Register the target."""
    register(Target("dce_sink", evaluator_of(_link), _link))
