"""Collectives on four devices: evaluator, Ingot's CPU and real XLA give the same on each."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from tests.differential.case import small_integers
from tests.support.real_xla_devices import DEVICES, Array, run_on_devices

import ingot
from ingot.evaluator.replicated import evaluate_replicated
from ingot.formats.hlo_text import parse

TYPES = ("f32", "f64", "s32", "u8", "s64", "pred", "bf16", "f16")
GROUPS = ("{}", "{{0,1,2,3}}", "{{0,2},{3,1}}")
SUMS = {"add": TYPES[:5], "maximum": TYPES[:5], "and": ("s32", "pred", "u8"), "minimum": TYPES[:2]}


def size_of(groups: str) -> int:
    return 2 if "},{" in groups else DEVICES


def programs() -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Return (body, element type, dimensions of the one operand) by name."""
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    for groups, (opcode, types) in itertools.product(GROUPS, SUMS.items()):
        for t in types:
            body = f"ROOT r = {t}[4,3] all-reduce(x), replica_groups={groups}, to_apply=fold"
            found[f"all-reduce {opcode} {t} {groups}"] = (fold(opcode, t) + body, t, (4, 3))
            if groups != "{}":
                rows = 4 // size_of(groups)
                body = (
                    f"ROOT r = {t}[{rows},3] reduce-scatter(x), replica_groups={groups}, "
                    "dimensions={0}, to_apply=fold"
                )
                found[f"reduce-scatter {opcode} {t} {groups}"] = (fold(opcode, t) + body, t, (4, 3))
    for t, groups in itertools.product(TYPES, GROUPS[1:]):
        count = size_of(groups)
        found[f"all-gather {t} {groups}"] = (
            f"ROOT r = {t}[4,{3 * count}] all-gather(x), replica_groups={groups}, dimensions={{1}}",
            t, (4, 3),
        )  # fmt: skip
        found[f"all-to-all {t} {groups}"] = (
            f"ROOT r = {t}[4,3] all-to-all(x), replica_groups={groups}, dimensions={{0}}",
            t, (4, 3),
        )  # fmt: skip
    for t, pairs in itertools.product(TYPES, ("{{0,1},{1,2},{2,3},{3,0}}", "{{0,3},{3,0}}", "{}")):
        body = f"ROOT r = {t}[4,3] collective-permute(x), source_target_pairs={pairs}"
        found[f"collective-permute {t} {pairs}"] = (body, t, (4, 3))
    found["replica-id"] = (
        "i = u32[] replica-id() b = u32[4,3] broadcast(i), dimensions={} "
        "ROOT r = u32[4,3] add(x, b)",
        "u32", (4, 3),
    )  # fmt: skip
    return found


def fold(opcode: str, element: str) -> str:
    return f"fold:{opcode}:{element}\n"


def text_of(body: str, element: str, dims: tuple[int, ...]) -> str:
    head, _, rest = body.rpartition("\n")
    called = ""
    if head:
        _, opcode, t = head.strip().split(":")
        called = (
            f"fold {{ a = {t}[] parameter(0) b = {t}[] parameter(1) "
            f"ROOT s = {t}[] {opcode}(a, b) }}\n"
        )
    shape = f"{element}[{','.join(map(str, dims))}]"
    return (
        f"HloModule m, replica_count={DEVICES}\n{called}"
        f"ENTRY e {{ x = {shape} parameter(0)\n{rest} }}\n"
    )


def inputs_of(name: str, element: str, dims: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return [small_integers(element, dims, generator) for _ in range(DEVICES)]


@pytest.mark.slow
def test_every_device_gets_what_real_xla_gives_it() -> None:
    table = programs()
    texts = {name: text_of(*row) for name, row in table.items()}
    inputs = {name: inputs_of(name, *row[1:]) for name, row in table.items()}
    real = run_on_devices([(texts[name], [inputs[name]]) for name in table])
    refused: list[str] = []
    for name, theirs in zip(table, real, strict=True):
        module = parse(texts[name])
        arguments = [[value] for value in inputs[name]]
        wanted = evaluate_replicated(module, arguments)
        got = ingot.compile(module).execute_replicated(arguments)
        for number in range(DEVICES):
            mine = np.asarray(wanted[number])
            np.testing.assert_array_equal(np.asarray(got[number]), mine, name)
            if not isinstance(theirs, str):
                np.testing.assert_array_equal(theirs[number][0], mine, name)
        if isinstance(theirs, str):
            refused.append(f"{name}: {theirs}")
    assert len(table) > 100
    # XLA's CPU folds no integers by their bits.
    assert all("Unsupported reduction computation" in why for why in refused)
    assert {why.split()[1] for why in refused} == {"and"}
