# SPDX-License-Identifier: Apache-2.0
"""TensorFlow on a GPU, with the fake driver: `ingot.tensorflow.enable(device="gpu")`."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.gpu.fake_driver import OUT_OF_MEMORY, FakeDriver

import ingot
import ingot.tensorflow
from ingot.client.executables.gpu_hosted import HostedExecutable
from ingot.client.executables.gpu_staged import GpuStagedExecutable

pytest_plugins = ("tests.gpu.fixtures",)


@pytest.fixture(params=["shared memory", "copies"])
def on_gpu(fake: FakeDriver, request: pytest.FixtureRequest) -> Generator[FakeDriver]:
    """Let TensorFlow's functions run on the emulated GPU, which has managed memory or not."""
    fake.shares_memory = request.param == "shared memory"
    ingot.tensorflow.enable(device="gpu")
    yield fake
    ingot.tensorflow.disable()


def _train(images: np.ndarray, labels: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Train a small network with Keras; return the losses, and the weights at the end."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(3)
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        layers.Input((8, 8, 1)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.BatchNormalization(),
        layers.Flatten(),
        layers.Dropout(0.2),
        layers.Dense(5),
    ])  # fmt: skip
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, jit_compile=True)
    history = model.fit(images, labels, batch_size=8, epochs=3, verbose=0, shuffle=False)
    return history.history["loss"], [weight.numpy() for weight in model.weights]


@pytest.mark.slow
def test_keras_trains_as_on_the_cpu(fake: FakeDriver) -> None:
    choose = np.random.default_rng(0)
    images = choose.standard_normal((24, 8, 8, 1)).astype(np.float32)
    labels = choose.integers(0, 5, 24)
    ingot.tensorflow.enable(device="cpu")
    wanted, weights = _train(images, labels)
    ingot.tensorflow.disable()
    assert fake.calls["cuLaunchKernel"] == 0
    ingot.tensorflow.enable(device="gpu")
    found, others = _train(images, labels)
    ingot.tensorflow.disable()
    assert fake.calls["cuLaunchKernel"] > 100
    np.testing.assert_allclose(found, wanted, 1e-4)
    assert wanted[-1] < wanted[0]
    for one, other in zip(others, weights, strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-4)


def test_open_sizes_and_captures(on_gpu: FakeDriver) -> None:
    weights = tf.constant(np.arange(3, dtype=np.float32))

    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 3])])
    def rows(x: Any) -> Any:
        return tf.reduce_sum(x * weights, 1), tf.transpose(x)

    for count in (0, 1, 7, 130):
        x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
        for _ in range(2):  # The second call goes the eager fast path.
            sums, turned = rows(tf.constant(x))
            np.testing.assert_allclose(sums, (x * [0, 1, 2]).sum(1), 1e-6)
            np.testing.assert_array_equal(turned, x.T)
    launched = on_gpu.calls["cuLaunchKernel"]
    rows(tf.zeros([7, 3]))
    assert on_gpu.calls["cuLaunchKernel"] > launched


def test_variables_are_seen_and_changed_by_all(on_gpu: FakeDriver) -> None:
    v = tf.Variable(tf.zeros([10]))
    held: list[Any] = []

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        v.assign_add(x)
        return tf.reduce_sum(v)

    want = np.zeros(10, np.float32)
    for number in range(4):
        assert step(tf.range(10.0)) == 45 + want.sum()
        want += np.arange(10)
        np.testing.assert_array_equal(v, want)
        # TensorFlow's own kernels write it too, and hold its values.
        v.assign_add(tf.ones([10]))
        held.append((v.read_value(), want + 1))
        want = want + 1
        assert number == 3 or v.numpy().sum() == want.sum()
    for value, then in held:
        np.testing.assert_array_equal(value, then)


def test_variables_stay_on_the_device(on_gpu: FakeDriver) -> None:
    _check_copies(on_gpu)
    gc.collect()
    on_gpu.run_queue()
    assert not on_gpu.shared, "memory of variables is given back"


def _check_copies(on_gpu: FakeDriver) -> None:
    """Check what each step of a training copies, and who sees its variables."""
    v, momentum = tf.Variable(tf.zeros([1000])), tf.Variable(tf.zeros([1000]))

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        momentum.assign(0.5 * momentum + x)
        v.assign_add(momentum)
        return tf.reduce_sum(v)

    def copies(x: Any) -> tuple[int, int]:
        names = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2")
        before = [on_gpu.calls[name] for name in names]
        step(x)
        there, back = (on_gpu.calls[name] - n for name, n in zip(names, before, strict=True))
        return there, back

    x = tf.ones([1000])
    step(x)
    shares = on_gpu.shares_memory
    for _ in range(3):
        assert copies(x) == ((1, 1) if shares else (3, 3)), "the argument, the result"
    assert v[0] == 1 + 1.5 + 1.75 + 1.875
    assert len(on_gpu.shared) == (2 if shares else 0)
    # What somebody holds is not changed, and what TensorFlow puts in place is taken over again.
    held = v.read_value()
    step(x)
    assert held[0] == 6.125
    assert v[0] == 6.125 + 1.9375
    v.assign(tf.zeros([1000]))
    del held
    assert copies(x) == ((2, 1) if shares else (3, 3)), "the new value too"
    assert v[0] == 1.96875
    assert copies(x) == ((1, 1) if shares else (3, 3))


def test_variables_of_programs_that_compute_sizes(on_gpu: FakeDriver) -> None:
    v = tf.Variable(tf.zeros([8]))

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        positive = tf.boolean_mask(x, x > 0)
        v.assign(v + tf.reduce_max(positive))
        return positive

    for number in range(3):
        found = step(tf.constant([1.0, -1, 3, 0]))
        np.testing.assert_array_equal(found, [1, 3])
        np.testing.assert_array_equal(v, np.full(8, 3 * (number + 1), np.float32))


def test_sizes_that_the_data_decides(on_gpu: FakeDriver) -> None:
    @tf.function(jit_compile=True)
    def chosen(x: Any) -> Any:
        values, index = tf.unique(tf.boolean_mask(x, x > 2))
        return values, index, tf.where(x > 3)

    x = tf.constant([5.0, 1, 3, 5, 4, 3])
    for _ in range(2):
        values, index, places = chosen(x)
        np.testing.assert_array_equal(values, [5, 3, 4])
        np.testing.assert_array_equal(index, [0, 1, 0, 2, 1])
        np.testing.assert_array_equal(places, [[0], [3], [4]])
    names = ingot.tensorflow.executables().items()
    ((executable,),) = (found for name, found in names if "_chosen_" in name)
    assert isinstance(executable, HostedExecutable)
    assert isinstance(executable.on_device, GpuStagedExecutable)
    assert ".visible .entry" in executable.as_text("ptx")


def test_errors_are_tensorflows_and_leave_variables_alone(on_gpu: FakeDriver) -> None:
    v = tf.Variable(tf.ones([100]))

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        tf.debugging.assert_less(x, 5.0)
        v.assign_add(x)
        return tf.reduce_sum(v)

    assert step(tf.ones([100])) == 200
    on_gpu.run_queue()
    before = on_gpu.in_use

    def check(error: type[Exception], match: str, value: float = 1) -> None:
        with pytest.raises(error, match=match):
            step(tf.fill([100], float(value)))
        np.testing.assert_array_equal(v, np.full(100, 2, np.float32))
        on_gpu.run_queue()
        assert on_gpu.in_use == before

    check(tf.errors.InvalidArgumentError, "assertion failed", 6)
    on_gpu.failures["cuLaunchKernel"] = 701
    check(tf.errors.InternalError, r"INGOT0526.*%\w*fusion.*test_tensorflow.*CUDA_ERROR_701")
    on_gpu.failures["cuMemcpyDtoHAsync_v2"] = 1
    check(tf.errors.InternalError, "INGOT0526.*CUDA_ERROR_INVALID_VALUE")
    on_gpu.failures["cuMemAllocAsync"] = OUT_OF_MEMORY
    check(tf.errors.ResourceExhaustedError, "memory")
    assert step(tf.ones([100])) == 300


def test_devices_that_are_not_there(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ingot.ArgumentError, match="no GPU 3: there are 1"):
        ingot.tensorflow.enable(device="gpu:3")
    monkeypatch.setattr(type(_context()), "get_visible_devices", lambda *_: ["GPU:0"])
    with pytest.raises(ingot.UnsupportedError, match=r"INGOT0326(.|\n)*set_visible_devices"):
        ingot.tensorflow.enable(device="gpu")
    assert not ingot.tensorflow.is_enabled()


def test_a_scope_of_a_gpu_that_tensorflow_does_not_see(on_gpu: FakeDriver) -> None:
    @tf.function(jit_compile=True)
    def more(x: Any) -> Any:
        return x + 1

    soft = tf.config.get_soft_device_placement()
    try:
        tf.config.set_soft_device_placement(True)
        with tf.device("/GPU:0"):
            assert more(tf.ones([3]))[0] == 2
        assert on_gpu.calls["cuLaunchKernel"] > 0
        tf.config.set_soft_device_placement(False)
        with (
            pytest.raises(tf.errors.InvalidArgumentError, match=r"Could not satisfy device.*GPU:0"),
            tf.device("/GPU:0"),
        ):
            more(tf.ones([3]))
    finally:
        tf.config.set_soft_device_placement(soft)


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()
