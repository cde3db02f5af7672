# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's profiler: what it writes for TensorBoard has our kernels, with ops and lines."""

import gc
import inspect

import pytest
import tensorflow as tf

import ingot
from ingot.formats.hlo_proto.wire import decode
from ingot.frontends.tensorflow import hook


@tf.function(jit_compile=True)
def step(x):
    return tf.reduce_sum(tf.tanh(x @ x))  # the line that is told


@pytest.fixture(autouse=True)
def _enabled():
    hook.enable()
    yield
    hook.disable()


X = tf.ones([64, 64])


def planes(folder):
    """Return Ingot's planes, and the names of the others, in what was written last."""
    (*_, last) = sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
    found = decode(last.read_bytes(), "XSpace")["planes"]
    ours = [plane for plane in found if "Ingot" in plane["name"]]
    return ours, [plane["name"] for plane in found if plane not in ours]


def kernels(plane):
    """Return the events of a plane as (name, start, end) in ps, and the statistics by name."""
    entries = {entry["key"]: entry["value"] for entry in plane["event_metadata"]}
    names = {entry["key"]: entry["value"]["name"] for entry in plane["stat_metadata"]}
    events = [
        (
            entries[event["metadata_id"]]["name"],
            line["timestamp_ns"] * 1000 + event["offset_ps"],
            line["timestamp_ns"] * 1000 + event["offset_ps"] + event["duration_ps"],
        )
        for line in plane["lines"]
        for event in line["events"]
    ]
    statistics = {
        entry["name"]: {names[row["metadata_id"]]: row.get("str_value") for row in entry["stats"]}
        for entry in entries.values()
    }
    return events, statistics


def test_a_profile_has_kernels_with_their_lines(tmp_path):
    step(X)
    for _ in range(2):  # One session after the other.
        with tf.profiler.experimental.Profile(str(tmp_path)):
            for _ in range(3):
                step(X).numpy()
    (plane,), others = planes(tmp_path)
    assert "/host:CPU" in others
    events, statistics = kernels(plane)
    assert len(events) == 3 * len(statistics)
    lines, first = inspect.getsourcelines(step.python_function)
    told = first + next(n for n, line in enumerate(lines) if "the line that is told" in line)
    sources = {row.get("source") for row in statistics.values()}
    assert f"{__file__}:{told}" in {str(source).rsplit(":", 1)[0] for source in sources} | sources
    # Times count from the beginning of the session, as TensorFlow's: three executions, in turn.
    assert all(0 < start < end < 60e12 for _, start, end in events)
    starts = [start for _, start, _ in events]
    assert starts == sorted(starts)


def test_a_keras_model_is_profiled(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    model.compile(loss="mse", jit_compile=True)
    x, y = tf.ones([60, 8]), tf.ones([60, 1])
    model.fit(x, y, batch_size=10, verbose=0)
    with tf.profiler.experimental.Profile(str(tmp_path)):
        model.fit(x, y, batch_size=10, verbose=0)
    (plane,), _ = planes(tmp_path)
    events, statistics = kernels(plane)
    assert len(events) == 6 * len(statistics)
    assert any("sequential" in str(row.get("tf_op")) for row in statistics.values())


def test_an_abandoned_session_ends_the_recording(tmp_path):
    tf.profiler.experimental.start(str(tmp_path))
    with pytest.raises(ingot.ResourceError, match="profil"):
        ingot.profile().start()
    tf.profiler.experimental.stop(save=False)
    gc.collect()
    with ingot.profile() as profiler:
        step(X).numpy()
    assert profiler.profile.runs


def test_a_recording_that_goes_on_leaves_tensorflows_profile_alone(tmp_path):
    with ingot.profile() as profiler:
        with pytest.warns(ingot.IngotWarning, match="does not show Ingot's kernels"):
            tf.profiler.experimental.start(str(tmp_path))
        step(X).numpy()
        tf.profiler.experimental.stop()
    ours, others = planes(tmp_path)
    assert ours == []
    assert others
    assert profiler.profile.runs
