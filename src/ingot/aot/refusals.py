# SPDX-License-Identifier: Apache-2.0
"""Programs that cannot be artifacts: refused before anything is compiled, with the op and its line.

`build` uses it. An artifact runs without Ingot: outside code cannot be called, and no compiler
could compile the rest of a program once a computed size is known.
"""

from __future__ import annotations

from ingot.hlo.computation import reached
from ingot.hlo.module import Module
from ingot.hlo.size_definitions import defines_sizes, definitions, parameter_symbols
from ingot.semantics.custom_calls import CallSite
from ingot.semantics.foreign_calls import call_sites, foreign_calls
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import replace

_MOST_NOTES = 5


def inherit_locations(module: Module) -> None:
    """Give instructions of called functions that have no line the line of the first call.

    JAX writes functions that it shares between calls (`jax.numpy.linalg.cholesky`) without lines.
    """
    for computation in reached(module.entry):
        for call in computation.instructions:
            origin = call.metadata
            if call.opcode != "call" or not origin.source_file:
                continue
            for inner in (one for to in call.called_computations for one in to.instructions):
                if not inner.metadata.source_file:
                    inner.metadata = replace(
                        inner.metadata,
                        source_file=origin.source_file,
                        source_line=origin.source_line,
                    )


def refuse_computed_sizes(module: Module) -> None:
    """Raise for the first size of an array that the program computes."""
    if not defines_sizes(module):
        return
    outside = parameter_symbols(module.entry)
    found = (
        (size, instruction)
        for computation in reached(module.entry)
        for size, instruction in definitions(computation, ()).items()
        if size not in outside
    )
    size, instruction = next(found)
    origin = instruction.metadata
    raise UnsupportedError(
        f"module '{module.name}' computes the size {size} of its arrays, which an artifact cannot",
        instruction=repr(instruction),
        op_type=origin.op_type or instruction.opcode,
        op_name=origin.op_name,
        location=origin.location,
        hint="give such arrays a static bound, or compile the parts before and after alone",
    )


def refuse_calls(module: Module) -> None:
    """Raise for the first call of code that is not in the program; notes name the others."""
    sites = call_sites(module)
    if not sites:
        return
    first, *others = sites
    raise UnsupportedError(
        f"'{first.target}' cannot be in an artifact: it is {_what(first.target)}",
        op_type=foreign_calls(module)[0].opcode,
        op_name=first.op_name,
        location=first.location,
        notes=tuple(f"nor can '{site.target}'{_origin(site)}" for site in others[:_MOST_NOTES]),
        hint="compute this part before or after the compiled program",
    )


def _what(target: str) -> str:
    """Return a description of a target."""
    if "callback" in target:
        return "a call of Python, which is not there when the artifact runs"
    if target.startswith("lapack_"):
        return "a function of LAPACK, outside the compiled program"
    if target == "ingot.rng_state":
        return "a generator of random numbers, whose state an artifact does not keep"
    return "code outside the compiled program"


def _origin(site: CallSite) -> str:
    named = f" of '{site.op_name}'" if site.op_name else ""
    return named + (f" at {site.location}" if site.location is not None else "")
