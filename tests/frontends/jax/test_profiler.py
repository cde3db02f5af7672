# SPDX-License-Identifier: Apache-2.0
"""`jax.profiler.trace` of a jitted function: the written XSpace names our kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.formats.hlo_proto.wire import Message, decode

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

PROGRAM = """
import sys
import jax, jax.numpy as jnp

@jax.jit
def step(x):
    return jnp.tanh(x @ x).sum(axis=0), jnp.linalg.cholesky(x @ x.T + 100 * jnp.eye(64))

x = jnp.ones((64, 64))
jax.block_until_ready(step(x))
for _ in range(2):  # One trace after the other.
    with jax.profiler.trace(sys.argv[1]):
        for _ in range(3):
            jax.block_until_ready(step(x))
with jax.profiler.trace(sys.argv[1] + "/nothing"):
    pass
"""


def trace(folder: Path) -> list[Message]:
    """Return the planes of the trace that was written last."""
    (*_, last) = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    return decode(last.read_bytes(), "XSpace")["planes"]


def names(plane: Message, table: str) -> dict[int, str]:
    return {entry["key"]: entry["value"]["name"] for entry in plane[table]}


def test_kernels_are_in_the_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    environment = {**os.environ, "JAX_PLATFORMS": "ingot"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    (plane,) = (plane for plane in trace(tmp_path) if "Ingot" in plane["name"])
    events = [event for line in plane["lines"] for event in line["events"]]
    called = names(plane, "event_metadata")
    counts = {
        name: sum(called[e["metadata_id"]] == name for e in events) for name in called.values()
    }
    assert set(counts.values()) == {3}
    assert any("dot" in name for name in counts)
    assert any("custom-call" in name for name in counts)
    assert all(event["duration_ps"] > 0 for event in events)
    statistics = names(plane, "stat_metadata")
    first = {statistics[row["metadata_id"]]: row["str_value"] for row in events[0]["stats"]}
    assert first["hlo_module"] == "jit_step"
    assert first["hlo_op"] == called[events[0]["metadata_id"]]
    # The table is a protobuf map, which jaxlib writes in any order: each product has all of it.
    products = [e["value"] for e in plane["event_metadata"] if "dot" in e["value"]["name"]]
    for product in products:
        metadata = {statistics[row["metadata_id"]] for row in product["stats"]}
        assert {"tf_op", "source", "hlo_category"} <= metadata
    assert len(products) == 2
    assert not [plane for plane in trace(tmp_path / "nothing") if "Ingot" in plane["name"]]
