# SPDX-License-Identifier: Apache-2.0
"""Custom calls: the registry of targets, and what a call site is.

A `custom-call` names a *target*: code that Ingot did not generate (LAPACK, a Python function, an
XLA FFI handler, a collective). A target may have an implementation over NumPy arrays (`evaluate`,
for the evaluator) and a way to be linked (`link`, which returns the address of a function made for
one call site, for the host program). Expander passes rewrite ops that need a library to custom
calls, so compiled code calls other code only through this registry.

The linked function is `i32 f(ptr frame)`; the frame is described in `ingot.artifact.abi`. It
returns 0, or anything else to end the execution with an error.

Invariant: a name has one target; registering it again replaces it for programs compiled later.

Example:
    >>> register(Target("twice", evaluate=lambda call, x: (x + x,)))
    >>> find("twice").name
    'twice'
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.structural import CustomCallAttributes
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import SourceLocation
from ingot.support.forking import ForkLock
from ingot.support.records import record
from ingot.support.regex import regex

CONFIG = "backend_config"
ANNOTATIONS = frozenset(
    {
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "SetBound",
        "ShardBarrierFrom",
        "ShardBarrierTo",
        "Sharding",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.PropagationBarrier",
    }
)
"""Targets that only annotate the placement of a value, and change no value."""

ORDER = "control_dep"
"""The target of a call whose second operand is to be computed after the first."""

ALIKE = "xla.sdy.ShardingGroup"
"""The target of a call whose operands are to be divided alike."""

NOTES = frozenset({ORDER, ALIKE})
"""Targets of calls without results that are notes for the compiler."""


def wants_largest(top_k: Instruction) -> bool:
    """Whether a custom call of target `TopK` wants the largest: its comparator, if any, says."""
    called = top_k.called_computations
    comparison = called[0].root.attributes if called else None
    return getattr(comparison, "direction", "GT") in ("GT", "GE")


def reduced_dimension(top_k: Instruction) -> int:
    """Return the dimension along which a custom call of target `ApproxTopK` selects."""
    found = _REDUCED.search(config_text(top_k))
    assert found is not None, "ApproxTopK says along which dimension it goes"
    return int(found[1])


_REDUCED = regex(r"reduction_dim\W+(\d+)")


def is_annotation(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call that returns its operand."""
    if instruction.opcode != "custom-call" or len(instruction.operands) != 1:
        return False
    given = instruction.as_(CustomCallAttributes)
    same = instruction.shape.compatible(instruction.operands[0].shape)
    return given.custom_call_target in ANNOTATIONS and same


def is_note(instruction: Instruction) -> bool:
    """Whether an instruction is a custom call without results that only annotates.

    It annotates which values are partitioned alike, or which one is computed after another.
    """
    is_call = instruction.opcode == "custom-call"
    return is_call and instruction.attributes.custom_call_target in NOTES


@record
class CallSite:
    """One custom call, as a target sees it.

    Attributes:
        target: name of the target.
        operands: shapes of the flattened operands as the target knows them, in the layouts in which
            their buffers lie; tokens included.
        results: the same of the results. The dimensions in a call's frame are those of the shapes.
        config: the `backend_config`, unquoted.
        api_version: XLA's `API_VERSION_*`, or empty.
        side_effect: whether the call must be kept if nobody uses its results.
        aliases: (result leaf, operand leaf) that share memory; when the function is called the
            result's buffer holds the operand's value.
        op_name: the user's name of the op, for messages.
        location: the user's file:line, for messages.
        number: the call's position among the program's calls of this target.
    """

    target: str
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    config: str = ""
    api_version: str = ""
    side_effect: bool = False
    aliases: tuple[tuple[int, int], ...] = ()
    op_name: str = ""
    location: SourceLocation | None = None
    number: int = 0


@record
class LinkedCall:
    """The code of one call site.

    Attributes:
        address: address of `i32 f(ptr frame)`.
        keep_alive: what owns the code; held as long as the program can be called.
    """

    address: int
    keep_alive: object = None


@record
class Target:
    """A target: the implementation behind a name.

    Attributes:
        name: the `custom_call_target`.
        evaluate: `(call, *arrays) -> tuple of arrays`, one per result leaf that is no token; the
            arrays have the dimensions of the call site's shapes.
        link: `(call) -> LinkedCall`; raises `UnsupportedError` for calls that it cannot serve.
        calls_host: whether its code is the user's Python, which may run programs itself.
    """

    name: str
    evaluate: Callable[..., tuple[Any, ...]] | None = None
    link: Callable[[CallSite], LinkedCall] | None = None
    calls_host: bool = False


_LIBRARIES = {
    "__onednn$": "oneDNN",
    "__cublas$": "cuBLAS",
    "__cudnn$": "cuDNN",
    "__cub$": "CUB",
    "__triton": "Triton",
}
"""Prefixes of the calls that XLA makes itself, of libraries that it is built with."""


def missing_hint(name: str) -> str:
    """Return a hint for a target name that is not registered."""
    for start, library in _LIBRARIES.items():
        if name.startswith(start):
            return (
                f"XLA makes this call for {library} when it optimizes: give the module as it was "
                "before (XLA dumps it as *.before_optimizations.txt)"
            )
    return (
        "register it before compiling, with ingot.register_custom_call_target, or under JAX with "
        "jax.ffi.register_ffi_target(..., platform='cpu')"
    )


WHOLE_BATCH = "whole_batch"
"""The attribute of a divided call that says how many matrices all devices have together."""
_DIVIDED = regex(rf"\b{WHOLE_BATCH} = (\d+) : i64")

_targets: dict[str, Target] = {}
_preparations: list[Callable[[], None]] = []
_lock = ForkLock()


def before_use(prepare: Callable[[], None]) -> None:
    """Let `prepare` register targets before one is looked up for the next time.

    Most programs have no custom calls, and need not import what implements them.
    """
    with _lock:
        _preparations.append(prepare)


def register(target: Target) -> None:
    """Register `target`; later programs use it for custom calls of its name."""
    with _lock:
        _targets[target.name] = target


def find(name: str) -> Target | None:
    """Return the target of this name, or None."""
    with _lock:
        _prepare()
        return _targets.get(name)


def names() -> list[str]:
    """Return the registered names, sorted."""
    with _lock:
        _prepare()
        return sorted(_targets)


def _prepare() -> None:
    while _preparations:
        # Taken out first: it may look up targets itself.
        _preparations.pop(0)()


def config_text(instruction: Instruction) -> str:
    """Return the `backend_config` without the quotes that HLO text puts around a string."""
    text = instruction.extra.get(CONFIG, "")
    return json.loads(text) if text.startswith('"') else text


def set_config(instruction: Instruction, config: str) -> None:
    """Set the `backend_config` to a string."""
    instruction.extra[CONFIG] = json.dumps(config)


def whole_batch(instruction: Instruction) -> int | None:
    """Return how many matrices a call had before its batch was divided; None: it was not.

    What is chosen by the size of a batch is chosen by this, so that the parts on several devices
    have the bits of the whole.
    """
    found = _DIVIDED.search(config_text(instruction))
    return int(found[1]) if found else None


def note_whole_batch(part: Instruction, whole: Instruction) -> None:
    """Note on a part of a LAPACK call how many matrices the whole call has.

    The first result of each routine has its matrices.
    """
    config = config_text(whole)
    if not whole.attributes.custom_call_target.startswith("lapack_") or _DIVIDED.search(config):
        return
    batches = [shape.leaves()[0][1].dims[:-2] for shape in (whole.shape, part.shape)]
    known = [size for size in batches[0] if isinstance(size, int)]
    if batches[0] == batches[1] or len(known) < len(batches[0]):
        return
    attributes = config.strip()[1:-1].strip()
    entry = f"{WHOLE_BATCH} = {math.prod(known)} : i64"
    set_config(part, f"{{{attributes}{', ' * bool(attributes)}{entry}}}")


def aliases_of(instruction: Instruction) -> tuple[tuple[int, int], ...]:
    """Return (result leaf, operand leaf) of `output_to_operand_aliasing`."""
    given = instruction.as_(CustomCallAttributes)
    if not given.output_to_operand_aliasing:
        return ()
    results = {path: n for n, (path, _) in enumerate(instruction.shape.leaves())}
    leaves = (
        (number, path)
        for number, operand in enumerate(instruction.operands)
        for path, _ in operand.shape.leaves()
    )
    operands = {leaf: n for n, leaf in enumerate(leaves)}
    found = given.aliases()
    return tuple((results[output], operands[number, inner]) for output, number, inner in found)
