# SPDX-License-Identifier: Apache-2.0
"""Control ops: call, while, conditional.

The state of a `while` may have dimensions that differ in each iteration, and the results of the
branches of a `conditional` may differ in size: sizes of their own (`hlo.size_definitions`).

Source: StableHLO specification `while`, `if`, `case`; XLA's text attributes.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.opdef import Codec, OpView, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "control"


@record
class CallAttributes:
    """Attributes of `call`."""

    to_apply: Computation = attribute(Codec.COMPUTATION)


@record
class WhileAttributes:
    """Attributes of `while`."""

    condition: Computation = attribute(Codec.COMPUTATION)
    body: Computation = attribute(Codec.COMPUTATION)


@record
class ConditionalAttributes:
    """Attributes of `conditional`: a pred selects from (true, false), an s32 from all branches."""

    branch_computations: tuple[Computation, ...] = attribute(Codec.COMPUTATIONS)


def _require_call(
    label: str, called: Computation, operands: tuple[Shape, ...], *, any_size: bool = False
) -> None:
    """Refuse operands that do not fit the parameters; `any_size`: bare sizes may differ."""
    given = tuple(parameter.shape for parameter in called.parameters)
    if len(given) != len(operands):
        message = f"computation {called.name} takes {len(given)} operands, got {len(operands)}"
        require(False, label, message)
    for have, want in zip(operands, given, strict=True):
        if not (have.compatible(want) or (any_size and want.takes(have))):
            require(False, label, f"computation {called.name} takes {want}, got {have}")


def _infer_call(view: OpView) -> Shape:
    called: Computation = view.attributes.to_apply
    _require_call("call_c1", called, view.operands)
    return called.root.shape


def _infer_while(view: OpView) -> Shape:
    condition: Computation = view.attributes.condition
    body: Computation = view.attributes.body
    _require_call("while_c1", condition, view.operands, any_size=True)
    _require_call("while_c2", body, view.operands, any_size=True)
    state = body.parameters[0].shape
    _require_call("while_c1", condition, (state,))
    result = condition.root.shape
    if not result.is_scalar or result.dtype is not PRED:
        require(False, "while_c1", f"a while condition gives pred[], not {result}")
    if not (body.root.shape.compatible(state) or state.takes(body.root.shape)):
        message = f"the while body takes {state}, but gives {body.root.shape}"
        require(False, "while_c2", message)
    return view.operands[0] if view.operands[0].compatible(state) else state


def _infer_conditional(view: OpView) -> Shape:
    index, *operands = view.operands
    branches: tuple[Computation, ...] = view.attributes.branch_computations
    require(bool(branches), "case_c1", "conditional needs a branch")
    require(
        len(operands) == len(branches),
        "case_c1",
        f"conditional has {len(branches)} branches and {len(operands)} operands",
    )
    # Compiled code reads 32 bits of it, or a pred.
    known = index.is_scalar and index.dtype in (PRED, S32)
    require(known, "case_i1", f"conditional takes a pred or s32 first, not {index}")
    if index.dtype is PRED:
        require(len(branches) == 2, "if_c1", "a conditional on a pred takes two branches")
    first = branches[0].root.shape
    declared = view.declared
    if declared is not None and all(declared.takes(branch.root.shape) for branch in branches):
        first = declared
    for branch, operand in zip(branches, operands, strict=True):
        _require_call("case_c2", branch, (operand,))
        if not (branch.root.shape.compatible(first) or first.takes(branch.root.shape)):
            label = "if_c2" if index.dtype is PRED else "case_c3"
            require(False, label, f"branch {branch.name} gives {branch.root.shape}, not {first}")
    return first


define("call", family=FAMILY, arity=(0, None), infer=_infer_call, attributes=CallAttributes,
       takes_arrays=False, results="c2", regions=RegionKind.CALL,
       doc="the value of a computation")  # fmt: skip
define("while", family=FAMILY, arity=1, infer=_infer_while, attributes=WhileAttributes,
       takes_arrays=False, results="c3", regions=RegionKind.BRANCH,
       doc="repeats body while condition holds")  # fmt: skip
define("conditional", family=FAMILY, arity=(1, None), infer=_infer_conditional,
       takes_arrays=False, results="c4", regions=RegionKind.BRANCH,
       attributes=ConditionalAttributes, spec="case",
       doc="one of some computations")  # fmt: skip
