# SPDX-License-Identifier: Apache-2.0
"""Ops that only the host can do, inside compiled functions: TensorFlow runs them at their place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tests.frontends.tensorflow.programs.beside import COMPILED, check  # noqa: E402

import ingot.tensorflow  # noqa: E402
from ingot.frontends.tensorflow import hook  # noqa: E402
from ingot.frontends.tensorflow.partitioning import host_report  # noqa: E402

Program = Callable[[Any], Any]


def numbers(*sizes: int) -> Any:
    return np.random.RandomState(7).normal(size=sizes).astype(np.float32)


def table() -> Any:
    keys, values = tf.constant(["a", "b", "c"]), tf.constant([1.0, 2.0, 3.0])
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)


def python_function(x: Any) -> Any:
    y = tf.numpy_function(lambda a: np.sort(a, axis=0)[::-1], [tf.sin(x)], tf.float32)
    return tf.cos(tf.ensure_shape(y, x.shape)) + tf.reduce_sum(x, 0)


def python_function_of_unknown_rank(x: Any) -> Any:
    y = tf.numpy_function(lambda a: a[:, 0], [tf.sin(x)], tf.float32)
    return tf.reduce_sum(tf.exp(y) * 2.0)


def gradient_through_a_python_function(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.py_function(lambda a: a**3, [tf.sin(x)], tf.float32)
        loss = tf.reduce_sum(tf.ensure_shape(y, x.shape) * x)
    return tape.gradient(loss, x)


def strings(x: Any) -> Any:
    text = tf.strings.as_string(tf.cast(x * 10.0, tf.int32))
    joined = tf.strings.reduce_join(text, axis=1, separator=",")
    return joined, tf.strings.length(joined), tf.reduce_max(x) * 2.0


def words(x: Any) -> Any:
    found = table().lookup(tf.strings.split(tf.constant("a b z c"), " "))
    return tf.reduce_sum(found * 2.0) + tf.reduce_sum(x)


def formats(x: Any) -> Any:
    raw = tf.io.decode_raw(tf.io.encode_base64(tf.strings.as_string(x[0, 0])), tf.uint8)
    return tf.reduce_sum(tf.cast(raw, tf.float32)) + x


def image(x: Any) -> Any:
    pixels = tf.cast(tf.clip_by_value(tf.abs(x) * 100.0, 0.0, 255.0), tf.uint8)[..., None]
    return tf.cast(tf.io.decode_png(tf.io.encode_png(pixels)), tf.float32) / 255.0


def in_a_loop(x: Any) -> Any:
    for step in tf.range(4):
        x = tf.numpy_function(np.negative, [x * 1.5 + tf.cast(step, tf.float32)], tf.float32)
        x = tf.ensure_shape(x, [3, 4]) - tf.reduce_mean(x)
    return tf.reduce_sum(x, 1)


def in_a_branch(x: Any) -> Any:
    if tf.reduce_sum(x) > 0:
        y = tf.numpy_function(lambda a: a + 1, [tf.exp(x)], tf.float32)
    else:
        y = tf.numpy_function(lambda a: a - 1, [tf.exp(-x)], tf.float32)
    return tf.ensure_shape(y, x.shape) * 2.0


def strings_in_a_loop(x: Any) -> Any:
    text = tf.constant("")
    total = tf.reduce_sum(x)
    for step in tf.range(3):
        text = text + tf.strings.as_string(step) + ";"
        total = total * 2.0 + tf.cast(tf.strings.length(text), tf.float32)
    return text, total


def in_a_call(x: Any) -> Any:
    @tf.function
    def inner(a: Any) -> Any:
        return tf.numpy_function(np.negative, [tf.sin(a)], tf.float32)

    @tf.function(jit_compile=True)
    def compiled(a: Any) -> Any:
        return tf.tanh(tf.numpy_function(np.negative, [tf.sin(a)], tf.float32))

    return tf.ensure_shape(inner(x * 2.0), x.shape) + tf.ensure_shape(compiled(x), x.shape)


def lists(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=3, element_shape=[4])
    for row in tf.range(3):
        y = tf.numpy_function(np.negative, [x[row] * 2.0], tf.float32)
        array = array.write(row, tf.ensure_shape(y, [4]))
    return tf.exp(array.stack())


def sizes(x: Any) -> Any:
    """The shapes behind a cut are known, though a part of them is computed before it."""
    rows = tf.shape(x)[0]
    y = tf.numpy_function(np.negative, [x * 2.0], tf.float32)
    return tf.reshape(y, [rows * 2, -1]) + tf.zeros([rows * 2, 1])


def sizes_of_the_host(x: Any) -> Any:
    (count,) = tf.numpy_function(lambda: [np.int32(5)], [], [tf.int32])
    return tf.fill([tf.ensure_shape(count, [])], tf.reduce_sum(x))


def random_numbers(x: Any) -> Any:
    first = tf.random.stateless_normal([3, 4], [1, 2])
    y = tf.numpy_function(np.negative, [x + first], tf.float32)
    return tf.ensure_shape(y, [3, 4]) + tf.random.stateless_normal([3, 4], [3, 4])


PROGRAMS: dict[str, Program] = {
    function.__name__: function
    for function in (
        python_function,
        python_function_of_unknown_rank,
        gradient_through_a_python_function,
        strings,
        words,
        formats,
        image,
        in_a_loop,
        in_a_branch,
        strings_in_a_loop,
        in_a_call,
        lists,
        sizes,
        sizes_of_the_host,
        random_numbers,
    )
}


def assert_equal(have: Any, want: Any) -> None:
    for one, other in zip(tf.nest.flatten(have), tf.nest.flatten(want), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype == tf.string:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        else:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_rest_is_compiled(name: str) -> None:
    program = PROGRAMS[name]
    compiled, plain = tf.function(program, jit_compile=True), tf.function(program)
    for sign in (1.0, -1.0):
        x = tf.constant(numbers(3, 4)) * sign
        assert_equal(compiled(x), plain(x))
    assert COMPILED


@pytest.mark.parametrize("name", ["in_a_branch", "in_a_call", "in_a_loop", "lists"])
def test_gradients_with_the_tape_outside(name: str) -> None:
    @tf.custom_gradient
    def cube(a: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            slope = tf.numpy_function(lambda a: 3 * a**2, [a], tf.float32)
            return upstream * tf.ensure_shape(slope, a.shape)

        found = tf.numpy_function(lambda a: a**3, [a], tf.float32)
        return tf.ensure_shape(found, a.shape), gradient

    def program(x: Any) -> Any:
        if name == "in_a_branch":
            # TensorFlow has no gradient of a custom one that is made in a branch.
            cubed = lambda a: tf.py_function(lambda a: a**3, [a], tf.float32)  # noqa: E731
            y = tf.cond(tf.reduce_sum(x) > 0, lambda: cubed(x) * 2.0, lambda: cubed(-x))
            return tf.ensure_shape(y, [3, 4])
        if name == "in_a_call":
            return tf.function(cube)(tf.exp(x)) * x
        if name == "lists":
            array = tf.TensorArray(tf.float32, size=3, element_shape=[4])
            for row in tf.range(3):
                array = array.write(row, cube(x[row]) * x[row])
            return array.stack()
        y = x
        for _ in tf.range(3):
            y = cube(y) * 0.5 + x
        return y

    x = tf.constant(numbers(3, 4)) * 0.5
    found: list[Any] = []
    for jit in (True, False):
        function = tf.function(program, jit_compile=jit)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(function(x) ** 2)
        found.append((loss, tape.gradient(loss, x)))
    assert_equal(*found)


@pytest.mark.parametrize("access", ["direct", "around"])
def test_effects_come_in_their_order(access: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ingot.frontends.tensorflow.functions import replacement

    if access == "around":
        monkeypatch.setattr(replacement, "is_available", lambda: False)
    variable = tf.Variable(1.0)
    seen: list[float] = []

    @tf.function(jit_compile=True)
    def step(x: Any) -> Any:
        variable.assign_add(tf.reduce_sum(x))
        tf.py_function(lambda value: seen.append(float(value)), [variable], [])
        variable.assign(variable * 2.0)
        tf.py_function(lambda value: seen.append(float(value)), [variable], [])
        variable.assign_add(0.5)
        return variable.read_value()

    assert float(step(tf.constant([1.0, 2.0]))) == 8.5
    assert seen == [4.0, 8.0]
    assert float(step(tf.constant([1.5]))) == 20.5
    assert seen == [4.0, 8.0, 10.0, 20.0]


def test_printing_shows_what_was_computed(capfd: pytest.CaptureFixture[str]) -> None:
    @tf.function(jit_compile=True)
    def program(x: Any) -> Any:
        for step in tf.range(3):
            x = x * 2.0
            tf.print("step", step, "sum", tf.reduce_sum(x))
        return x

    program(tf.constant([1.0, 2.0]))
    shown = [line for line in capfd.readouterr().err.splitlines() if line.startswith("step")]
    assert shown == ["step 0 sum 6", "step 1 sum 12", "step 2 sum 24"]


def test_a_dataset_is_read_in_a_loop() -> None:
    @tf.function(jit_compile=True)
    def total(data: Any) -> Any:
        found = tf.constant(0.0)
        for batch in data:
            found += tf.reduce_sum(tf.exp(batch) * 2.0)
        return found

    data = tf.data.Dataset.from_tensor_slices(numbers(7, 3)).batch(2)
    np.testing.assert_allclose(total(data), np.exp(numbers(7, 3)).sum() * 2.0, rtol=1e-5)
    assert COMPILED


def test_an_error_of_the_host_is_tensorflows_own() -> None:
    @tf.function(jit_compile=True)
    def program(text: Any) -> Any:
        return tf.strings.to_number(text) * 2.0

    assert float(program(tf.constant("2.5"))) == 5.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumberOp"):
        program(tf.constant("two"))


def test_strict_is_an_error_that_names_the_op_and_the_line() -> None:
    hook.disable()
    hook.enable(strict=True)

    @tf.function(jit_compile=True)
    def program(x: Any) -> Any:
        return tf.strings.as_string(x)

    with pytest.raises(tf.errors.InvalidArgumentError, match="AsString") as caught:
        program(tf.constant(1.0))
    assert "test_host_ops.py" in caught.value.message
    assert "hint: " in caught.value.message


def test_an_op_without_a_kernel_is_an_error_in_both() -> None:
    @tf.function(jit_compile=True)
    def program(x: Any) -> Any:
        return tf.raw_ops.TPUReplicatedInput(inputs=[x]) + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="TPUReplicatedInput"):
        program(tf.constant(1.0))


def test_each_op_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_report, "_told", set())
    with caplog.at_level(logging.WARNING, "ingot.tensorflow"):
        for _ in range(2):
            tf.function(lambda x: tf.strings.as_string(x * 2.0), jit_compile=True)(tf.constant(1.0))
    (record,) = caplog.records
    text = record.getMessage()
    assert "AsString" in text
    assert "test_host_ops.py" in text
    assert "INGOT_STRICT" in text


def test_a_function_goes_with_what_it_calls() -> None:
    from ingot.frontends.tensorflow.api.modules import context

    function = tf.function(in_a_loop, jit_compile=True)
    function(tf.constant(numbers(3, 4)))
    names = [name for name in context.context().list_function_names() if "_ingot_" in name]
    assert names
    del function
    import gc

    gc.collect()
    left = set(context.context().list_function_names())
    assert not left.intersection(names)


def test_constants_that_wait_for_an_assertion_stay_constants() -> None:
    """Axes and strides made under `tf.control_dependencies` are no arguments of a part."""
    rows = tf.ragged.constant([["a", "b"], [], ["c"]])

    @tf.function(jit_compile=True)
    def joined_by_constants(x: Any, y: Any) -> Any:
        return tf.concat([x, y], 1)

    assert joined_by_constants(rows, rows).to_list() == [[b"a", b"b"] * 2, [], [b"c"] * 2]
    values = {
        name: variants
        for name, variants in ingot.tensorflow.specialisations().items()
        if "joined_by_constants" in name
    }
    assert values
    assert not any(reasons for variants in values.values() for reasons in variants)


def test_a_string_that_is_handed_out_beside_an_input_of_unknown_rank() -> None:
    """A graph runs it, where nothing can be tried first and then done otherwise."""
    spec = [tf.TensorSpec(None, tf.float32)]
    function = tf.function(
        lambda x: (x + 1.0, tf.constant("text")), jit_compile=True, input_signature=spec
    )
    dataset = tf.data.Dataset.from_tensors(tf.ones([2])).map(function)
    ((numbers, text),) = list(dataset)
    assert numbers.numpy().tolist() == [2.0, 2.0]
    assert text.numpy() == b"text"


def test_an_op_on_the_host_waits_for_what_its_constants_wait_for() -> None:
    """TensorFlow gives an op no control edge if its operand has it: here a constant alone has."""

    def run(jit: Any) -> Any:
        variable = tf.Variable([[1, 2], [3, 4]])

        @tf.function(jit_compile=jit, autograph=False)
        def program(x: Any) -> Any:
            write = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=x * 2)
            with tf.control_dependencies([write]):
                first = tf.constant([0, 0])
            read = lambda at: variable.numpy()[tuple(at.numpy())]  # noqa: E731
            rows = tf.raw_ops.ResourceGather(
                resource=variable.handle, indices=[[1], [0]], dtype=tf.int32, batch_dims=1
            )
            return tf.py_function(read, [first], tf.int32), rows

        return program(tf.constant([[5, 6], [7, 8]]))

    check(run)
