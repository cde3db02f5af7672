# SPDX-License-Identifier: Apache-2.0
"""The walk: a captured function's nodes, in order, each by its rule.

`run` walks a function in a scope and gives the values of its outputs. Calls are inlined by running
the callee in a scope of its own; control flow runs bodies in frames of their own. Values known at
compile time are folded before a rule is asked.

Invariant: resources are touched in the order of `CapturedFunction.nodes`, so `Frame.state` is
true at each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.frontends.tensorflow.graphs.captured import CapturedFunction, CapturedNode, TensorRef
from ingot.frontends.tensorflow.lowering.context.computed_sizes import with_equal_sizes, with_sizes
from ingot.frontends.tensorflow.lowering.context.constants import ValueNeededError, need_sizes
from ingot.frontends.tensorflow.lowering.context.frame import Frame, Scope
from ingot.frontends.tensorflow.lowering.context.op import Op, located
from ingot.frontends.tensorflow.lowering.context.program import metadata_of
from ingot.frontends.tensorflow.lowering.context.sizes import SizeLearnedError, SizesDifferError
from ingot.frontends.tensorflow.lowering.context.values import Size, Value, sizes_in
from ingot.frontends.tensorflow.lowering.walk import ranks, rules
from ingot.frontends.tensorflow.lowering.walk.fold import fold
from ingot.support.diagnostics import IngotError, InternalError, UnsupportedError, VerifyError

_MISFITS = (AssertionError, IndexError, TypeError, ValueError)
"""What a rule raises of an operand that has not the rank that its op needs."""


def run(function: CapturedFunction, frame: Frame, inputs: Sequence[Value]) -> list[Value]:
    """Walk `function` in `frame`; return the values of its outputs."""
    walked = frame.program.walked
    if function.name in walked:
        raise UnsupportedError(f"the function '{function.name}' calls itself", code="INGOT0310")
    walked.append(function.name)
    outer = frame.builder.metadata
    try:
        return _walk(function, frame, inputs)
    finally:
        frame.builder.metadata = outer
        walked.pop()


def _walk(function: CapturedFunction, frame: Frame, inputs: Sequence[Value]) -> list[Value]:
    scope = Scope(function, frame)
    for item, value in zip(function.inputs, inputs, strict=True):
        scope.values[TensorRef(item.name)] = value
    for node in function.nodes:
        for number, value in enumerate(_values_of(node, scope)):
            scope.values[TensorRef(node.name, number)] = value
    return [scope.values[ref] for ref in function.outputs]


def _values_of(node: CapturedNode, scope: Scope) -> Sequence[Value]:
    """Return the outputs of one node; errors say which node it was."""
    scope.frame.builder.metadata = metadata_of(node)
    try:
        made = _made(Op(node, scope))
    except ValueNeededError as needed:
        needed.node = needed.node or node
        raise
    except UnsupportedError as error:
        raise located(node, _behind(scope.frame.refuted, error)) from error
    values = made if isinstance(made, tuple) else (made,)
    if len(values) > len(node.outputs):
        raise InternalError(
            f"{len(values)} values were made for the {len(node.outputs)} outputs of a node",
            op_type=node.op,
            op_name=node.name,
        )
    return values


def _behind(assertion: str, error: UnsupportedError) -> UnsupportedError:
    """Return the error for a mistake of the user that an assertion has found already, if any.

    Such an assertion is what TensorFlow tells: it does not get to the op that cannot be lowered.
    """
    found = error.diagnostic
    if not assertion or found.code != "INGOT0312" or assertion in found.message:
        return error
    return type(error)(replace(found, message=f"{assertion}\nBehind it, {found.message}"))


def _made(op: Op) -> Value | tuple[Value, ...]:
    """Apply the rule, with operands whose sizes are equal where it needs that."""
    seen: set[tuple[Size, Size]] = set()
    while True:
        try:
            return _applied(op)
        except SizesDifferError as found:
            pair = (found.left, found.right)
            if pair in seen:
                raise found.refusal() from found
            seen.add(pair)
            op.values = with_equal_sizes(op.frame, op.values, found)
        except SizeLearnedError as learned:
            op.values = _with_learned_sizes(op, learned)


def _with_learned_sizes(op: Op, learned: SizeLearnedError) -> list[Value]:
    """Return operands that have one size where two were found to be one.

    The lowering starts again in any case. The walk goes on only to learn of all sizes in one
    attempt: each of a recurrent layer's many arguments has sizes of its own to begin with.
    """
    program = op.frame.program
    if learned in program.learned:
        raise learned
    learned.node = learned.node or op.node
    program.learned.append(learned)
    made = [
        with_sizes(op.frame, value, lambda size: program.equalities.simplify((size,))[0])
        for value in op.values
    ]
    if all(new is old for new, old in zip(made, op.values, strict=True)):
        raise learned
    return made


def _applied(op: Op) -> Value | tuple[Value, ...]:
    """Apply the rule; what it cannot do with open sizes is done for the sizes of this call."""
    _check_ranks(op)
    try:
        made = fold(op)
        return rules.find(op.node)(op) if made is None else made
    except _MISFITS as error:
        unchecked = op.unchecked_operands()
        if not unchecked:
            raise
        raise _rank_error(op, unchecked, "") from error
    except VerifyError as error:
        found = error.diagnostic
        _need_operand_sizes(op, found.message)
        raise UnsupportedError(found.message, code="INGOT0312", notes=found.notes) from error
    except UnsupportedError as error:
        # One that names another node comes from a body, where it was looked at.
        if error.diagnostic.op_name in ("", op.node.name):
            _need_operand_sizes(op, error.diagnostic.message)
        if ranks.rule_tells(op.node.op) and (unchecked := op.unchecked_operands()):
            raise _rank_error(op, unchecked, error.diagnostic.message) from error
        raise


def _check_ranks(op: Op) -> None:
    """Raise the error for operands whose ranks nobody has checked and that do not fit."""
    needed = ranks.needed(op.node.op)
    unchecked = op.unchecked_operands()[: len(needed)] if needed else ()
    problem = ranks.misfit(needed, [op.rank(number) for number in unchecked])
    if problem:
        raise _rank_error(op, unchecked, problem)


def _rank_error(op: Op, operands: Sequence[int], problem: str) -> IngotError:
    """Return the error for operands of wrong ranks: TensorFlow's kernel says it where it can."""
    error = op.mismatch(*operands)
    if not ranks.is_told_here(op.node.op):
        return error
    found = error.diagnostic
    return ranks.RankError(
        f"{problem}: {found.message}" if problem else found.message,
        op_type=found.op_type,
        op_name=found.op_name,
        location=found.location,
        hint=f"call the function with operands of the ranks that {op.node.op} takes",
    )


def _need_operand_sizes(op: Op, problem: str) -> None:
    sizes = [size for value in op.values for size in sizes_in(value)]
    need_sizes(op.b.program, tuple(sizes), f"shape ({problem})")
