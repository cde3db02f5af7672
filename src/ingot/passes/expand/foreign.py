# SPDX-License-Identifier: Apache-2.0
"""`infeed` and `outfeed` as calls of the runtime's queues; `foreign_call` adds any such call.

The queues are `ingot.runtime.foreign.feeds`.
"""

from __future__ import annotations

import json
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.semantics import custom_calls


def foreign_call(
    build: Builder,
    target: str,
    operands: tuple[Instruction, ...],
    shape: Shape,
    config: dict[str, Any],
) -> Instruction:
    """Add a call of `target` with side effects, named after it.

    Args:
        build: where the call is added.
        target: the function.
        operands: its operands.
        shape: of its results.
        config: its `backend_config`, as JSON.
    """
    made = build.custom_call(
        *operands,
        shape=shape,
        name=target.removeprefix("ingot.").replace("_", "-"),
        custom_call_target=target,
        custom_call_has_side_effect=True,
    )
    custom_calls.set_config(made, json.dumps(config, sort_keys=True))
    return made


@expander("feed-expander", "infeed", "outfeed")
def feed_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `infeed` and `outfeed`."""
    return foreign_call(build, f"ingot.{op.opcode}", op.operands, op.shape, {})
