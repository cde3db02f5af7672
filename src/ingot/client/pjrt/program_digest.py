# SPDX-License-Identifier: Apache-2.0
"""The digest of a program that several processes run, which must be the same in all.

It is made of the program as it was read, before any pass that depends on a CPU. Names and locations
do not count, nor does the configuration of calls of the host's functions: it has addresses.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.fingerprint import fingerprint
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CONFIG


def digest_of(module: Module) -> str:
    """Return the digest of a module."""
    return fingerprint(module, _without_addresses)


def _without_addresses(instruction: Instruction) -> Mapping[str, str]:
    """Return the attributes kept as text, but not the configuration of a call of the host."""
    extra = instruction.extra
    if CONFIG not in extra or not calls_host(instruction):
        return extra
    return {name: value for name, value in extra.items() if name != CONFIG}


def calls_host(instruction: Instruction) -> bool:
    """Whether an instruction calls a function of the host, or may do so."""
    if instruction.opcode != "custom-call":
        return False
    found = custom_calls.find(instruction.attributes.custom_call_target)
    return found is None or found.calls_host
