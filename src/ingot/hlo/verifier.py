# SPDX-License-Identifier: Apache-2.0
"""The verifier: checks the invariants of every module, no matter which pass made it.

Generic over the op table: arity, attribute type, shape inference with its labelled constraints,
users lists, callees in the module, acyclicity. Runs after every pass, or after the last.

A computation that was not edited since it was last checked is valid; so are the ops of a fused
computation that is written like a valid one.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.module import Module
    >>> b = Builder("main")
    >>> verify(Module.of("m", b.build(b.parameter(0, "f32[2]"))))
"""

from __future__ import annotations

from typing import NoReturn

from ingot.hlo.computation import Computation
from ingot.hlo.donors import sharing_problem
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.size_definitions import find_changed_size
from ingot.support.diagnostics import InternalError, VerifyError


def verify(module: Module) -> None:
    """Check the whole module.

    Raises:
        VerifyError: with the instruction, the constraint and the user's location.
    """
    names: set[str] = set()
    count = 0
    fused = _fused_computations(module)
    for computation in module.computations.values():
        _verify_edited(computation, module if computation in fused else None)
        names.update([instruction.name for instruction in computation.instructions])
        count += len(computation)
        for called in computation.callees():
            if called.module is not module:
                _refuse_callee(computation, called)
    if len(names) < count:
        _refuse_names(module)
    if module.entry.name not in module.computations:
        raise VerifyError(f"entry {module.entry.name} is not in the module")
    changed = module.analysis(find_changed_size)
    if changed is not None:
        raise _error(changed, "it changes a size that comes from outside", code="INGOT0219")
    problem = sharing_problem(module)
    if problem:
        raise VerifyError(problem, code="INGOT0217")


def _fused_computations(module: Module) -> set[Computation]:
    return {
        one.attributes.calls
        for computation in module.computations.values()
        for one in computation.calls_and_effects
        if one.opcode == "fusion"
    }


def _verify_edited(computation: Computation, alike: Module | None) -> None:
    """Check a computation if it was edited; of those written alike, check the ops of one."""
    stamp = computation.stamp
    if computation.verified == stamp:
        return
    _verify_graph(computation)
    first = computation if alike is None else alike.structural_cache.first(computation)
    if first is not computation:
        _verify_edited(first, None)
    else:
        for instruction in computation.post_order():
            _verify_op(instruction)
    computation.verified = stamp


def _refuse_callee(computation: Computation, called: Computation) -> NoReturn:
    instruction = next(i for i in computation.instructions if called in i.called_computations)
    raise _error(instruction, f"computation {called.name} is not in the module")


def _refuse_names(module: Module) -> NoReturn:
    seen: set[str] = set()
    instructions = [i for c in module.computations.values() for i in c.instructions]
    for instruction in instructions:
        if instruction.name in seen:
            raise _error(instruction, f"two instructions are called %{instruction.name}")
        seen.add(instruction.name)
    raise InternalError("there are no two instructions of one name")


def verify_computation(computation: Computation) -> None:
    """Check one computation; VerifyError when something does not hold."""
    _verify_graph(computation)
    for instruction in computation.post_order():
        _verify_op(instruction)


def verify_instruction(instruction: Instruction) -> None:
    """Check one instruction; VerifyError when something does not hold."""
    _verify_operands(instruction)
    _verify_op(instruction)


def _verify_graph(computation: Computation) -> None:
    """Check that a computation has its parameters and root, and that users are correct."""
    for number, parameter in enumerate(computation.parameters):
        if parameter.attributes.number != number:
            raise _error(parameter, f"parameter {number} of {computation.name} is missing")
    if computation.root not in computation:
        raise VerifyError(f"the root of {computation.name} is not in it")
    for instruction in computation.instructions:
        _verify_operands(instruction)


def _verify_operands(instruction: Instruction) -> None:
    parent = instruction.parent
    for operand in instruction.operands:
        if operand.parent is not parent:
            raise _error(instruction, f"operand %{operand.name} is in another computation")
        if instruction not in operand.users:
            raise _error(instruction, f"%{operand.name} does not know its user")


def _verify_op(instruction: Instruction) -> None:
    """Check operands, attributes and shape against the op's row of the table."""
    definition, operands = instruction.definition, instruction.operands
    if not isinstance(instruction.attributes, definition.attributes):
        raise _error(instruction, f"{definition.name} has attributes of another op")
    shapes = tuple([operand.shape for operand in operands])
    try:
        inferred = definition.result(shapes, instruction.attributes, instruction.shape)
        if not inferred.compatible(instruction.shape):
            definition.refuse_result(inferred, instruction.shape)
    except VerifyError as error:
        found = error.diagnostic
        raise _error(instruction, found.message, notes=found.notes, code=found.code) from error


def _error(
    instruction: Instruction, message: str, *, notes: tuple[str, ...] = (), code: str = ""
) -> VerifyError:
    metadata = instruction.metadata
    return VerifyError(
        message,
        code=code,
        instruction=repr(instruction),
        op_type=metadata.op_type,
        op_name=metadata.op_name,
        location=metadata.location,
        notes=notes,
    )
