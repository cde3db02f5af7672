# SPDX-License-Identifier: Apache-2.0
"""The digest of a program that several processes run, which must be the same in all.

It is made of the program as it was read, before any pass that depends on a CPU. Names and locations
do not count, nor does the configuration of calls of the host's functions: it has addresses.
"""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.fingerprint import fingerprint
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CONFIG


def digest_of(module: Module) -> str:
    """Return the digest of a module, which is as before afterwards."""
    hidden = {
        one: one.extra.pop(CONFIG)
        for computation in (module.entry, *module.computations.values())
        for one in computation.instructions
        if CONFIG in one.extra and calls_host(one)
    }
    try:
        return fingerprint(module)
    finally:
        for one, config in hidden.items():
            one.extra[CONFIG] = config


def calls_host(instruction: Instruction) -> bool:
    """Whether an instruction calls a function of the host, or may do so."""
    if instruction.opcode != "custom-call":
        return False
    found = custom_calls.find(instruction.attributes.custom_call_target)
    return found is None or found.calls_host
