# SPDX-License-Identifier: Apache-2.0
"""Programs on the disk by the graph that they were made of: one that is found is not lowered.

What a graph is lowered to follows from the graph, its binding, and what the lowering asks of a
call (`specialisation.CallArguments`). Where it asks for nothing, a digest of the first two
(`graph_digest`) names the program, together with the settings in force (`client.stored`). A later
process then needs neither the rules of the ops nor the text of the module.

Invariant: a program that was found is what the graph would be lowered and compiled to for the call:
with the program are the sizes of its parameters, and those that are one there are one in the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ingot.client import stored
from ingot.client.executables.executable import Executable, Origin
from ingot.frontends.tensorflow.variants.specialisation import CallArguments
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.llvm.target import TargetSpec
from ingot.support.records import replace
from ingot.support.xla_flags import current_xla_flags


def has(name: str) -> bool:
    """Whether there is a program of a name, so that the function is not refused."""
    return stored.read(name) is not None


def find(
    name: str, module_name: str, arguments: CallArguments, lower: Callable[[], Module]
) -> Executable | None:
    """Return the stored program of a name, if it is for a call.

    Args:
        name: of `GraphDigest`.
        module_name: the name of the module in this process.
        arguments: the call.
        lower: makes the module if it is asked for.
    """
    kept = stored.find(name)
    if kept is None or not arguments.fit_shapes(_dims_of(kept.boundary)):
        return None
    target, xla_flags = TargetSpec.host(), current_xla_flags()
    origin = Origin(module_name, target, lower, stored.stages(lower, target, xla_flags))
    return replace(kept, facts=replace(kept.facts, name=module_name)).executable(origin)


def keep(name: str, executable: object, shapes: tuple[Shape, ...]) -> None:
    """Store a program that depends on nothing that a call knows.

    Args:
        name: of `GraphDigest`.
        executable: the program.
        shapes: those of the module's parameters.
    """
    stored.keep(name, executable, tuple([shape.dims for shape in shapes]))


def _dims_of(boundary: object) -> tuple[Any, ...]:
    """Return the sizes of a stored program's parameters, as `keep` has written them."""
    return cast("tuple[Any, ...]", boundary) if isinstance(boundary, tuple) else ()
