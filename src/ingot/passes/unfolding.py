# SPDX-License-Identifier: Apache-2.0
"""Unfolding: which computations stay called because copies of them would be too many.

Calls and fusions are replaced by their callees, and each loop and branch gets computations of its
own. Thirty computations that each call the next one twice would become 2^30 instructions. A program
that would grow beyond a limit keeps calls of large computations that have several callers: these
are functions of the host program, compiled once. Where a fusion, a loop or a branch shares one, a
`call` replaces it, or is alone in its computation.

Computations that ops apply to elements (reducers, comparators, mapped computations) become part of
kernels, where every call is replaced. Where one of them alone exceeds the limit, its calls stay,
and `expand.scan` runs it for one element after the other.

Calls that the program asks to keep stay too.

Invariant: a program within the limit stays exactly as it is. After the pass, replacing every call
but those of `Unfolding.kept` gives a program within the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.module import Module, set_called
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.support.diagnostics import ResourceError
from ingot.support.records import fresh, mutable

MAX_GROWTH = 4
MAX_UNFOLDED = 250_000
"""A program with each called computation copied to its calls may have MAX_UNFOLDED instructions, or
MAX_GROWTH times the written ones if that is more; after later passes MAX_GROWTH times as many."""

SMALL = 32
"""A computation of at most this many instructions is always copied: its call is hardly shorter."""

_NOT_INLINED = 'inlineable="false"'

_FLOW = ops_with(RegionKind.BRANCH, RegionKind.CALL, RegionKind.FUSION, RegionKind.SCAN)
"""Ops whose computations the host program runs."""

_CALLS = ops_with(RegionKind.CALL)
"""Ops that are a call, or become one."""

_APPLIES = ops_with(RegionKind.ELEMENT)
"""Ops that kernels run, or loops of the host program if the applied computation is large."""

_ENDS = ops_with(RegionKind.ASYNC)
"""Ops that only name the computation of an `async-start`."""


@mutable
class Unfolding:
    """The computations that are not copied.

    Attributes:
        kept: the computations whose calls stay.
        flow: the computations that hold such calls: the host program runs them.
    """

    kept: set[Computation] = fresh(factory=set)
    flow: set[Computation] = fresh(factory=set)

    def stays(self, op: Instruction) -> bool:
        """Whether an op is, or becomes, a call that is not inlined."""
        if not self.kept or op.computation not in self.flow:
            return False
        kept = self.kept.intersection(op.called_computations)
        # Computations that kernels apply have no calls.
        return bool(kept) and (op.opcode in _FLOW or self.flow.issuperset(kept))


@module_pass("unfolding-limit")
def unfolding_limit(module: Module, context: PassContext) -> bool:
    """Makes calls of computations that a program would copy too often.

    Fusions, loops and branches of computations that stay called make calls.
    """
    found = unfolding(module)
    changed = False
    for computation in module.post_order() if found.kept else ():
        for op in [op for op in computation.calls_and_effects if found.stays(op)]:
            if op.opcode not in _CALLS:
                _call_instead(op, found, module)
                changed = True
    return changed


def check_unfolded(module: Module) -> None:
    """Refuse a program whose fusions, loops and branches come to too many instructions.

    Raises:
        ResourceError: INGOT0403
    """
    size = _sizes(module, lambda op: op.opcode == "call")[module.entry]
    _require(size, MAX_GROWTH * _most(module))


def unfolding(module: Module) -> Unfolding:
    """Return the computations that stay called.

    Raises:
        ResourceError: INGOT0403 when a computation that kernels apply has too many instructions.
    """
    if len(module.computations) == 1:
        return Unfolding()
    most = _most(module)
    if _sizes(module, lambda op: False)[module.entry] <= most:
        asked = _asked(module)
        return Unfolding(asked, _flow(module)) if asked else Unfolding()
    for small in (SMALL, 0):
        found = _choose(module, small)
        sizes = _sizes(module, found.stays)
        size = sizes[module.entry] + sum(sizes[one] for one in found.kept)
        if size <= most:
            break
    _require(size, most)
    return found


def _asked(module: Module) -> set[Computation]:
    """Return the computations that the program asks not to inline (JAX's `inlineable="false"`)."""
    return {
        op.called_computations[0]
        for computation in module.post_order()
        for op in computation.calls_and_effects
        if op.opcode == "call" and _NOT_INLINED in op.extra.get("frontend_attributes", "")
    }


def _most(module: Module) -> int:
    return max(MAX_UNFOLDED, MAX_GROWTH * module.instruction_count)


def _require(size: int, most: int) -> None:
    if size > most:
        count = str(size) if size < 1 << 40 else f"2^{size.bit_length() - 1}"
        raise ResourceError(
            f"with the calls inlined that must be, the program has {count} instructions, and at "
            f"most {most} are compiled",
            code="INGOT0403",
            hint="pass arrays of dynamic size, custom calls and collectives through fewer calls",
        )


def _sizes(module: Module, stays: Callable[[Instruction], bool]) -> dict[Computation, int]:
    """Return the instructions of each computation with copies of all callees but `stays`."""
    sizes: dict[Computation, int] = {}
    for computation in module.post_order():
        size = len(computation)
        for op in computation.calls_and_effects:
            called = _run_by(op) if op.definition.callees else ()
            if called:
                size += 1 if stays(op) else sum([sizes[inner] for inner in called])
        sizes[computation] = size
    return sizes


def _run_by(op: Instruction) -> tuple[Computation, ...]:
    return () if op.opcode in _ENDS else op.called_computations


def _choose(module: Module, small: int) -> Unfolding:
    """Return the computations of more than `small` instructions and with several users."""
    found = Unfolding(set(), _flow(module))
    uses = Counter(
        called
        for computation in module.post_order()
        for op in computation.calls_and_effects
        if op.opcode in _FLOW or op.opcode in _APPLIES
        for called in op.called_computations
        if op.opcode in _FLOW or called in found.flow
    )
    sizes: dict[Computation, int] = {}
    for computation in module.post_order():
        size = len(computation)
        for op in computation.calls_and_effects:
            for inner in _run_by(op):
                size += 1 if inner in found.kept and found.stays(op) else sizes[inner]
        sizes[computation] = size
        is_shared = uses[computation] > 1 and computation is not module.entry
        if is_shared and size > small and not has_dynamic_ends(computation):
            found.kept.add(computation)
    return found


def _flow(module: Module) -> set[Computation]:
    """Return the computations that the host program runs and no kernel applies."""
    sizes, most = _sizes(module, lambda op: False), _most(module)
    reached, applied = {module.entry}, set[Computation]()
    for computation in reversed(module.post_order()):
        for op in computation.calls_and_effects:
            called = _run_by(op)
            is_flow = op.opcode in _FLOW or (
                op.opcode in _APPLIES and all(sizes[one] > most for one in called)
            )
            if is_flow and computation in reached:
                reached.update(called)
            if not is_flow or computation in applied:
                applied.update(called)
    return reached - applied


def has_dynamic_ends(computation: Computation) -> bool:
    """Whether arrays of dynamic size go in or out, so that their sizes have to be passed too."""
    ends = (*computation.parameters, computation.root)
    return any(leaf.bounded for end in ends for _, leaf in end.shape.leaves())


def _call_instead(op: Instruction, found: Unfolding, module: Module) -> None:
    if op.opcode == "fusion":
        _call_in_place(op)
    else:
        _call_inside(op, found, module)


def _call_in_place(fusion: Instruction) -> None:
    """Replace a fusion by a call of its computation."""
    computation = fusion.computation
    build = Builder(computation, fusion.metadata)
    made = build.call(*fusion.operands, to_apply=fusion.attributes.calls)
    made.run_after(fusion.control_predecessors)
    computation.substitute(fusion, made)


def _call_inside(op: Instruction, found: Unfolding, module: Module) -> None:
    """Let a loop or branch run a computation that only calls the shared one."""
    ran = [*op.called_computations]
    for number, called in enumerate(ran):
        if called in found.kept:
            build = Builder(f"{called.name}_call")
            ends = [build.parameter(n, one.shape) for n, one in enumerate(called.parameters)]
            ran[number] = module.take(build.build(build.call(*ends, to_apply=called)))
            found.flow.add(ran[number])
    set_called(op, ran)
