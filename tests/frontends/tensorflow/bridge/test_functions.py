# SPDX-License-Identifier: Apache-2.0
"""Which functions reach the compiler, and that they compute what the user wrote."""

import gc
import threading
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops
from tests.xla_compilations import on_purpose

from ingot.frontends.tensorflow import executables, hook
from ingot.frontends.tensorflow.functions.replacement import find_replacement, live_replacements


@pytest.fixture
def sine():
    @tf.function(jit_compile=True)
    def sine(x):
        return tf.sin(x) * 2.0

    return sine


X = np.array([1.0, 2.0, 3.0], np.float32)


def test_a_jit_function_is_compiled_at_its_first_call(compiled, sine):
    concrete = sine.get_concrete_function(tf.TensorSpec([3]))
    assert compiled == []
    np.testing.assert_allclose(sine(X), np.sin(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(sine(X + 1), np.sin(X + 1) * 2, rtol=1e-6)
    assert compiled == [
        concrete.name.decode()
        if isinstance(concrete.name, bytes)
        else concrete.function_def.signature.name
    ]


def test_a_function_without_jit_is_left_alone(compiled):
    @tf.function
    def plain(x):
        return x + 1.0

    np.testing.assert_allclose(plain(X), X + 1)
    assert compiled == []


def test_no_function_keeps_the_attribute_of_the_other_compiler(compiled, sine):
    concrete = sine.get_concrete_function(tf.TensorSpec([3]))
    attributes = concrete.function_def.attr
    assert "_XlaMustCompile" not in attributes
    assert attributes["_IngotCompile"].b


def test_inside_a_function_without_jit(compiled, sine):
    @tf.function
    def outer(x):
        return sine(x) + sine(x * 2.0)

    np.testing.assert_allclose(outer(X), 2 * np.sin(X) + 2 * np.sin(2 * X), rtol=1e-6)
    assert len(compiled) == 1


def test_inside_a_jit_function_it_is_inlined(compiled, sine):
    @tf.function(jit_compile=True)
    def outer(x):
        return sine(x) + 1.0

    np.testing.assert_allclose(outer(X), 2 * np.sin(X) + 1, rtol=1e-6)
    assert len(compiled) == 1
    assert "outer" in compiled[0]


def test_inside_a_while_loop_of_a_function_without_jit(compiled, sine):
    @tf.function
    def loop(x):
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, sine(a)), [0, x])[1]

    expected = X
    for _ in range(3):
        expected = 2 * np.sin(expected)
    np.testing.assert_allclose(loop(tf.constant(X)), expected, rtol=1e-5)
    assert len(compiled) == 1


def test_control_flow_inside_a_jit_function(compiled):
    @tf.function(jit_compile=True)
    def steps(x):
        if tf.reduce_sum(x) > 0.0:
            x = x * 2.0
        return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + 1.0), [0, x])[1]

    np.testing.assert_allclose(steps(tf.constant(X)), 2 * X + 4)
    np.testing.assert_allclose(steps(tf.constant(-X)), -X + 4)
    assert len(compiled) == 1


def test_inside_dataset_map(compiled, sine):
    rows = np.ones((4, 3), np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(rows).map(sine, num_parallel_calls=2).batch(2)
    result = np.concatenate([batch.numpy() for batch in dataset])
    np.testing.assert_allclose(result, 2 * np.sin(rows), rtol=1e-6)
    assert len(compiled) == 1


def test_an_unknown_size_is_compiled_once(compiled):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def total(x):
        return tf.reduce_sum(x, 0)

    for count in (2, 5, 0):
        np.testing.assert_allclose(total(tf.ones([count, 3])), np.full(3, count))
    assert len(compiled) == 1


def test_an_unknown_rank_is_compiled_once_per_rank(compiled):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec(None, tf.float32)])
    def double(x):
        return x + x

    for shape in ((3,), (5,), (2, 3), (), (4, 1)):
        np.testing.assert_allclose(double(tf.ones(shape)), np.full(shape, 2))
    assert len(compiled) == 3


def test_scalars_empty_tensors_and_several_outputs(compiled):
    @tf.function(jit_compile=True)
    def both(x, y):
        return {"sum": x + y, "pair": (x - y, x)}

    result = both(tf.constant(3.0), tf.constant(1.0))
    assert [float(item) for item in (result["sum"], *result["pair"])] == [4, 2, 3]
    empty = both(tf.zeros([0, 2]), tf.zeros([0, 2]))
    assert empty["sum"].shape == (0, 2)


def test_a_function_without_outputs_or_inputs(compiled):
    @tf.function(jit_compile=True)
    def nothing():
        return None

    @tf.function(jit_compile=True)
    def constant():
        return tf.constant([1, 2])

    assert nothing() is None
    np.testing.assert_array_equal(constant(), [1, 2])


def test_an_input_that_is_returned_is_handed_on(compiled):
    @tf.function(jit_compile=True)
    def same(x, text):
        return tf.identity(x), x * 2.0, text

    x, twice, text = same(tf.constant(X), tf.constant("kept"))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(twice, 2 * X)
    assert text.numpy() == b"kept"


def test_threads_compile_once(compiled, sine):
    results, start = [], threading.Barrier(4)

    def work():
        start.wait()
        results.append(sine(tf.constant(X)).numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(results, [2 * np.sin(X)] * 4, rtol=1e-6)
    assert len(compiled) == 1


def test_many_launches_in_parallel_inside_one_graph(compiled, sine):
    @tf.function
    def wide(x):
        return tf.add_n([sine(x + float(i % 3)) for i in range(24)])

    expected = sum(2 * np.sin(X + i % 3) for i in range(24))
    np.testing.assert_allclose(wide(tf.constant(X)), expected, rtol=1e-5)


def test_the_compiled_code_can_be_read(compiled, sine):
    text = sine.experimental_get_compiler_ir(tf.constant(X))
    assert text() == text(stage="hlo")
    assert "f32[3]{0} sine(f32[3]{0} %" in text()
    assert not compiled
    assert text(stage="optimized_hlo").startswith("hlo:")
    assert text(stage="kernel").startswith("kernel:")
    np.testing.assert_allclose(sine(X), np.sin(X) * 2, rtol=1e-6)
    assert len(compiled) == 1
    assert compiled[0] in executables()


def test_disable_restores_tensorflow(compiled, sine):
    from tensorflow.python.eager.polymorphic_function import atomic_function

    patched = atomic_function.from_func_graph
    sine(X)
    name = sine.get_concrete_function(tf.TensorSpec([3])).function_def.signature.name
    assert find_replacement(name) is not None
    hook.disable()
    assert atomic_function.from_func_graph is not patched
    assert not hook.is_enabled()
    concrete = sine.get_concrete_function(tf.TensorSpec([3]))
    assert concrete._inference_function.definition.attr["_XlaMustCompile"].b
    with on_purpose():
        np.testing.assert_allclose(sine(X), np.sin(X) * 2, rtol=1e-6)
    assert len(compiled) == 1


def test_a_dropped_function_is_let_go(compiled):
    captured = tf.constant(X)

    def make():
        @tf.function(jit_compile=True)
        def f(x):
            return x + captured

        for _ in range(3):
            f(tf.constant(X))
        graph = f.get_concrete_function(tf.constant(X)).graph
        return weakref.ref(graph), compiled[-1]

    graph, name = make()
    gc.collect()
    assert graph() is None
    assert find_replacement(name) is None


def test_a_dropped_function_with_a_custom_gradient_is_let_go(compiled):
    def make():
        @tf.custom_gradient
        def doubled(x):
            y = tf.sin(x)
            return y, lambda upstream: 2.0 * upstream * tf.cos(x) + 0.0 * y

        @tf.function
        def inner(x):
            return doubled(x) * 3.0

        @tf.function(jit_compile=True)
        def slope(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = inner(x)
            return tape.gradient(y, x)

        np.testing.assert_allclose(slope(tf.constant(X)), 6 * np.cos(X), rtol=1e-6)
        with tf.GradientTape() as tape:
            x = tf.constant(X)
            tape.watch(x)
            y = slope(x)
        np.testing.assert_allclose(tape.gradient(y, x), -6 * np.sin(X), rtol=1e-6)
        graph = slope.get_concrete_function(tf.constant(X)).graph
        return weakref.ref(graph)

    gc.collect()
    registered, replaced = set(ops.gradient_registry.list()), set(live_replacements())
    graph = make()
    gc.collect()
    assert graph() is None
    assert set(ops.gradient_registry.list()) == registered
    assert set(live_replacements()) <= replaced


def test_a_custom_gradient_of_an_uncompiled_function_stays_registered(compiled):
    @tf.function
    def f(x):
        return tf.custom_gradient(lambda x: (tf.sin(x), lambda upstream: 5.0 * upstream))(x)

    before = set(ops.gradient_registry.list())
    f.get_concrete_function(tf.TensorSpec([3]))
    (name,) = set(ops.gradient_registry.list()) - before
    del f
    gc.collect()
    assert name in ops.gradient_registry.list()


def test_first_use_inside_a_strategy_scope(compiled):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        v = tf.Variable(2.0)

        @tf.function(jit_compile=True)
        def step(x):
            v.assign_add(x)
            return v.read_value()

        for expected in (3.0, 4.0, 5.0):
            assert float(strategy.run(step, args=[tf.constant(1.0)])) == expected


def test_an_xla_op_that_does_not_fit_is_the_error_of_tensorflow(compiled):
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be a 1D tensor"):
        gen_xla_ops.xla_dynamic_slice(X, 0, 1)
    assert not compiled
