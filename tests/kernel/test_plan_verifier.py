# SPDX-License-Identifier: Apache-2.0
"""Plans of contractions and attention: those that are made are legal, changed ones are refused."""

from __future__ import annotations

import itertools

import pytest
from tests.cpu.contraction.test_contraction import product
from tests.kernel.texts import SAMPLES

from ingot.hlo.dtype import F32
from ingot.kernel.attention.schedule import AttentionSchedule, schedule_attention
from ingot.kernel.contraction.build import build_contraction_kernel
from ingot.kernel.contraction.plan import ContractionPlan, plan_contraction
from ingot.kernel.contraction.schedule import schedule_contraction
from ingot.kernel.expr import load
from ingot.kernel.ir import AttentionKernel, ContractionKernel
from ingot.kernel.parse import parse_kernel
from ingot.kernel.plan_verifier import verify_plan
from ingot.llvm.machine_model import Vectors
from ingot.support.diagnostics import InternalError
from ingot.support.records import replace

TILES = Vectors(512, 32, has_bf16_pairs=True, has_bf16_tiles=True)
TARGETS = (Vectors(512, 32), Vectors(256, 16), Vectors(128, 16), TILES)
EXTENTS = (1, 3, 17, 64, 1000, "?n")


def _contraction(
    dims: tuple[object, ...], name: str = "f32", vectors: Vectors = TARGETS[0]
) -> tuple[ContractionKernel, ContractionPlan]:
    kernel = build_contraction_kernel(product(dims, name=name))
    return kernel, plan_contraction(kernel, schedule_contraction(kernel, vectors), vectors)


def _attention(vectors: Vectors) -> tuple[AttentionKernel, AttentionSchedule]:
    kernel = parse_kernel(SAMPLES["attention"])
    assert isinstance(kernel, AttentionKernel)
    return kernel, schedule_attention(kernel, vectors)


def _broken(kernel: ContractionKernel | AttentionKernel, plan: object) -> str:
    """Return what the verifier says of a plan: nothing if it is legal."""
    try:
        verify_plan(kernel, plan)
    except InternalError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("vectors", TARGETS, ids=["512", "256", "128", "tiles"])
@pytest.mark.parametrize("name", ["f32", "f64", "s32"])
def test_plans_that_are_made_are_legal(vectors: Vectors, name: str) -> None:
    for m, n, k in itertools.product(EXTENTS, EXTENTS, (1, 100, 3000, "?k")):
        assert not _broken(*_contraction((None, m, n, k), name, vectors))
    assert not _broken(*_attention(vectors))


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"rows": 0}, "block: it has no sums"),
        ({"lanes": 32}, "block: columns are not whole vectors"),
        ({"m_block": 19}, "unit: its rows are not whole register blocks"),
        ({"n_block": 100}, "unit: its columns are not whole register blocks"),
        ({"units": 1}, "units: not the blocks of the result"),
        ({"chunks": 77}, "chunks: not all units"),
        ({"k_block": None}, "pieces: packed columns have no depth"),
        ({"k_block": 5000}, "pieces: a packed row is shorter than a piece"),
        ({"pack_lhs": True}, "lhs: steps of what is not packed"),
        ({"store_direct": False}, "epilogue: sums are not the result"),
    ],
)
def test_changed_schedules_are_refused(changes: dict[str, object], broken: str) -> None:
    kernel, plan = _contraction((None, 1000, 1001, 3000))
    assert broken in _broken(kernel, replace(plan, schedule=replace(plan.schedule, **changes)))


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"depth": 3001}, "pieces: a packed row is not whole vectors"),
        ({"lhs_row": 1}, "lhs: steps of what is not packed"),
        ({"row_blocks": ()}, "heights: they do not cover the rows"),
        ({"row_blocks": "narrow"}, "widths: they do not cover the columns"),
        ({"row_blocks": "uneven"}, "widths: blocks of one height differ in it"),
    ],
)
def test_changed_plans_are_refused(changes: dict[str, object], broken: str) -> None:
    kernel, plan = _contraction((None, 1000, 1001, 3000))
    (first, rest), *others = plan.row_blocks
    blocks: dict[object, object] = {
        "narrow": ((first,), *others),
        "uneven": ((first, replace(rest, rows=1)), *others),
    }
    given = {name: blocks.get(value, value) for name, value in changes.items()}
    assert broken in _broken(kernel, replace(plan, **given))


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"columns": 7}, "columns: queries side by side are not whole vectors"),
        ({"rows": 8}, "rows: a unit's queries are not whole register blocks"),
        ({"together": 3}, "together: not whole vectors of rows"),
        ({"units": 99}, "units: they are not the blocks of queries"),
        ({"chunks": 99}, "chunks: not all units"),
        ({"keys": 3}, "keys: a block is not whole register blocks"),
        ({"tall": 40}, "sums: row blocks do not have all rows"),
        ({"sums": ((), ())}, "sums: blocks have other heights"),
        ({"depth": 1}, "packed: a row is not whole vectors"),
        ({"width": 0}, "packed: a row is too short"),
        ({"masks": (load(7, 0, F32),)}, "masks: a load is of no score"),
    ],
)
def test_changed_plans_of_attention_are_refused(changes: dict[str, object], broken: str) -> None:
    kernel, plan = _attention(TARGETS[0])
    assert broken in _broken(kernel, replace(plan, **changes))


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, ""),
        ({"keys": 24}, "tiles: not whole blocks of them"),
        ({"width": 24}, "tiles: not whole blocks of them"),
        ({"depth": 12}, "tiles: not whole blocks of them"),
        ({"reads_keys": True}, "tiles: an operand is not packed"),
        ({"reads_values": True}, "tiles: an operand is not packed"),
        ({"depth": 0}, "packed: a row is too short"),
    ],
)
def test_changed_plans_of_tiles_are_refused(changes: dict[str, object], broken: str) -> None:
    kernel, plan = _attention(TILES)
    assert plan.has_tiles
    found = _broken(kernel, replace(plan, **changes))
    assert broken in found
    assert bool(found) == bool(broken)
