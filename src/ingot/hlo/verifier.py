"""The verifier: what must hold of every module, whoever made it.

Generic over the op table: arity, attribute type, shape inference with its labelled constraints,
users lists, callees in the module, acyclicity. Runs after every pass.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.module import Module
    >>> b = Builder("main")
    >>> verify(Module.of("m", b.build(b.parameter(0, "f32[2]"))))
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import VerifyError


def verify(module: Module) -> None:
    """Check the whole module.

    Raises:
        VerifyError: with the instruction, the constraint and the user's place.
    """
    seen: set[str] = set()
    for computation in module.computations.values():
        verify_computation(computation)
        for instruction in computation.instructions:
            if instruction.name in seen:
                raise _error(instruction, f"two instructions are called %{instruction.name}")
            seen.add(instruction.name)
            if instruction.definition.callees:
                _verify_callees(instruction, module)
    if module.entry.name not in module.computations:
        raise VerifyError(f"entry {module.entry.name} is not in the module")
    _verify_aliases(module)


def _verify_callees(instruction: Instruction, module: Module) -> None:
    for called in instruction.called_computations:
        if called.module is not module:
            raise _error(instruction, f"computation {called.name} is not in the module")


def verify_computation(computation: Computation) -> None:
    """Check one computation; VerifyError when something does not hold."""
    for number, parameter in enumerate(computation.parameters):
        if parameter.attributes.number != number:
            raise _error(parameter, f"parameter {number} of {computation.name} is missing")
    if computation.root not in computation:
        raise VerifyError(f"the root of {computation.name} is not in it")
    for instruction in computation.post_order():
        verify_instruction(instruction)


def verify_instruction(instruction: Instruction) -> None:
    """Check one instruction; VerifyError when something does not hold."""
    definition = instruction.definition
    least, greatest = definition.arity
    count = len(instruction.operands)
    if count < least or (greatest is not None and count > greatest):
        wanted = str(least) if least == greatest else f"{least} to {greatest or 'any number'}"
        raise _error(instruction, f"{definition.name} takes {wanted} operands, got {count}")
    if not isinstance(instruction.attributes, definition.attributes):
        raise _error(instruction, f"{definition.name} has attributes of another op")
    parent = instruction.parent
    for operand in instruction.operands:
        if operand.parent is not parent:
            raise _error(instruction, f"operand %{operand.name} is in another computation")
        if instruction not in operand.users:
            raise _error(instruction, f"%{operand.name} does not know its user")
    try:
        inferred = definition.infer(instruction.view())
    except VerifyError as error:
        found = error.diagnostic
        raise _error(instruction, found.message, notes=found.notes, code=found.code) from error
    if not inferred.compatible(instruction.shape):
        raise _error(
            instruction, f"{instruction.opcode} gives {inferred}, declared as {instruction.shape}"
        )


def _verify_aliases(module: Module) -> None:
    for alias in module.aliases:
        if alias.parameter >= len(module.entry.parameters):
            raise VerifyError(f"alias of parameter {alias.parameter}, which does not exist")
        given = _leaf(module.entry.parameters[alias.parameter].shape, alias.path, "parameter")
        result = _leaf(module.result_shape, alias.output, "output")
        if given.bytes != result.bytes:
            raise VerifyError(f"output {alias.output} is {result}, aliased parameter is {given}")


def _leaf(shape: Shape, path: tuple[int, ...], what: str) -> Shape:
    """Return the shape at `path`, which an alias names."""
    try:
        return shape.at(path)
    except IndexError:
        raise VerifyError(f"alias of {what} {path}, which {shape} does not have") from None


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
