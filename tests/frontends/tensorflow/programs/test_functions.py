# SPDX-License-Identifier: Apache-2.0
"""What a `tf.function` may take, give, call and hold, compiled beside plain TensorFlow."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function
from tests.frontends.tensorflow.programs.beside import check, compilations_of, numbers

from ingot.frontends.tensorflow import hook, lowering

Pair = collections.namedtuple("Pair", "first second")


def test_structures_in_and_out():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(tree, *, scale, more=None):
            pair = tree["pair"]
            assert more is None
            return {
                "sum": pair.first + pair.second * scale,
                "list": [tree["x"], None, (tree["x"] * 2.0,)],
                "pair": Pair(pair.second, None),
                "none": None,
                "number": 3,
            }

        x = tf.constant(numbers(3, 4))
        made = f({"x": x, "pair": Pair(x + 1.0, x - 1.0)}, scale=tf.constant(2.0))
        assert made["none"] is None
        assert made["list"][1] is None
        assert made["pair"].second is None
        return made["sum"], made["list"][0], made["list"][2][0], made["pair"].first, made["number"]

    check(program)


def test_no_inputs_and_no_outputs():
    def program(jit):
        counter = tf.Variable(1.0)

        @tf.function(jit_compile=jit)
        def constant():
            return tf.range(10) * 2

        @tf.function(jit_compile=jit)
        def nothing():
            counter.assign_add(2.0)

        assert nothing() is None
        assert nothing() is None
        return constant(), counter.read_value()

    check(program)


def test_python_runs_only_when_traced(compiled):
    seen = []

    @tf.function(jit_compile=True)
    def f(x, power):
        seen.append(power)
        return x**power

    x = tf.constant([2.0, 3.0])
    for power in (2, 2, 3, 2):
        np.testing.assert_allclose(f(x, power), np.array([2.0, 3.0]) ** power)
    assert seen == [2, 3]
    f(tf.constant([1.0, 2.0, 3.0]), 2)
    assert len(seen) == 3
    assert f.experimental_get_tracing_count() == len(compiled) == 3


def test_python_numbers_arrays_and_keyword_arguments():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, y=2.0, *rest, flag=True, **options):
            total = x * y + tf.add_n([tf.cast(item, tf.float32) for item in rest] or [x])
            if flag:
                total += options["bias"]
            return total

        x = numbers(5)
        return f(x, bias=1.0), f(x, 3.0, x, 2 * x, flag=False), f(y=x, x=x, bias=x)

    check(program)


def test_functions_that_call_functions():
    def program(jit):
        @tf.function(jit_compile=jit)
        def inner(x):
            return tf.nn.tanh(x) * 2.0

        @tf.function
        def plain(x):
            return inner(x) + 1.0

        @tf.function(jit_compile=jit)
        def outer(x):
            return plain(inner(x)) * inner(x + 1.0)

        @tf.function
        def not_compiled(x):
            return outer(x) + tf.strings.to_number(tf.strings.as_string(1.5))

        x = tf.constant(numbers(4, 3))
        return plain(x), outer(x), not_compiled(x)

    check(program)


def test_called_from_a_dataset_and_from_a_loop():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            return x * x + 1.0

        data = tf.data.Dataset.range(6).map(lambda n: f(tf.cast(n, tf.float32)))
        batched = data.batch(2).map(lambda x: f(x), num_parallel_calls=2)

        @tf.function
        def loop(x):
            for _ in tf.range(3):
                x = tf.ensure_shape(f(x) / 4.0, [3])
            return x

        eager = tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, f(x) / 4.0), [0, 1.0])
        return [list(data), list(batched), loop(tf.constant(numbers(3))), eager]

    check(program)


def test_methods_and_partial_functions():
    import functools

    def program(jit):
        class Layer(tf.Module):
            def __init__(self, factor):
                super().__init__()
                self.factor = tf.Variable(factor)

            @tf.function(jit_compile=jit)
            def __call__(self, x):
                return x * self.factor

        x = tf.constant(numbers(3))
        half, double = Layer(0.5), Layer(2.0)
        partial = tf.function(functools.partial(tf.einsum, "i,j->ij"), jit_compile=jit)
        return half(x), double(x), double(half(x)), partial(x, x)

    check(program)


def test_concrete_functions():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, y):
            return x + y, x - y

        concrete = f.get_concrete_function(
            tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([3], tf.float32)
        )
        y = tf.constant(numbers(3))
        return [concrete(tf.constant(numbers(n, 3)), y) for n in (1, 2, 5)]

    check(program)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int64", "uint8"])
def test_element_types(dtype):
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, y):
            return (
                x + y,
                x * y,
                x - y,
                tf.maximum(x, y),
                tf.reduce_sum(x),
                x < y,
                tf.cast(x, "float32"),
            )

        x = tf.cast(tf.constant(numbers(3, 5) * 4), dtype)
        return f(x, x[::-1])

    check(program, rtol=1e-2 if "16" in dtype else 1e-6)


def test_bools():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, flags):
            return (
                ~flags & (x > 0.0),
                flags ^ (x < 0.0),
                tf.reduce_any(flags),
                tf.where(flags, x, 0),
            )

        x = tf.constant(numbers(6))
        return f(x, x > 0.5)

    check(program)


def test_complex_numbers():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x, w):
            with tf.GradientTape() as tape:
                tape.watch(w)
                z = tf.exp(tf.complex(x, 2.0 * x)) / (2.0 + tf.cast(w, tf.complex64))
                y = tf.linalg.matmul(z, tf.math.conj(z), transpose_b=True)
                loss = tf.reduce_sum(tf.abs(y) ** 2) + tf.math.real(tf.reduce_prod(z[0]))
            return y, tf.math.angle(z), tape.gradient(loss, w)

        @tf.function(jit_compile=jit)
        def roots(x):
            z = tf.cast(x, tf.complex64) + 0.5j
            for _ in tf.range(6):
                z = z - (z**3 - 1.0) / (3.0 * z * z)
            return z, tf.cumsum(z), tf.where(tf.abs(z) > 1.0, z, tf.math.conj(z))

        return f(tf.constant(numbers(3, 4)), tf.constant(numbers(4))), roots(
            tf.constant(numbers(5))
        )

    check(program)


def test_empty_arrays_and_scalars():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            return x * 2.0, tf.reduce_sum(x), tf.reduce_max(x, axis=-1) if x.shape.rank else x

        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None], tf.float32)])
        def g(x):
            return tf.reduce_sum(x), tf.concat([x, [1.0]], 0), tf.size(x)

        shapes = [(0, 3), (), (2, 0, 4)[:2]]
        return [f(tf.zeros(shape)) for shape in shapes[:2]], [g(tf.zeros([n])) for n in (0, 1, 2)]

    check(program)


def test_an_open_signature_is_compiled_once(compiled):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, None, 4], tf.float32)])
    def f(x):
        return tf.nn.softmax(tf.matmul(x, x, transpose_b=True)), tf.shape(x), tf.reshape(x, [-1, 2])

    for dims in [(1, 1, 4), (2, 3, 4), (3, 1, 4), (5, 7, 4), (1, 9, 4)]:
        x = numbers(*dims)
        scores, shape, pairs = f(x)
        np.testing.assert_allclose(scores, tf.nn.softmax(x @ x.transpose(0, 2, 1)), rtol=1e-4)
        np.testing.assert_array_equal(shape, dims)
        np.testing.assert_array_equal(pairs, x.reshape(-1, 2))
    assert len(compiled) == 1


def test_reduce_retracing_is_compiled_once_more(compiled):
    @tf.function(jit_compile=True, reduce_retracing=True)
    def f(x):
        return tf.reduce_sum(x * x)

    for size in range(1, 9):
        assert float(f(tf.ones([size]))) == size
    # The first shape, and then the open one.
    assert len(compiled) == f.experimental_get_tracing_count() == 2


def test_an_unknown_rank_is_compiled_once_for_each_rank(compiled):
    @tf.function(jit_compile=True, input_signature=[tf.TensorSpec(None, tf.float32)])
    def f(x):
        return x * 2.0 + 1.0

    for dims in [(), (3,), (2, 3), (4, 1), (5,)]:
        x = numbers(*dims)
        np.testing.assert_allclose(f(x), x * 2.0 + 1.0, rtol=1e-6)
    assert len(compiled) == 3


def test_the_compiler_ir_can_be_seen():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(tf.exp(x))

    x = tf.ones([4])
    assert f.experimental_get_compiler_ir(x)(stage="hlo").startswith("HloModule")
    assert "exponential" in f.experimental_get_compiler_ir(x)(stage="optimized_hlo")
    assert compilations_of("f")


def test_saved_and_loaded(tmp_path):
    def program(jit):
        class Model(tf.Module):
            def __init__(self):
                super().__init__()
                self.weight = tf.Variable(numbers(4, 2))
                self.steps = tf.Variable(0, dtype=tf.int64)

            @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None, 4], tf.float32)])
            def __call__(self, x):
                self.steps.assign_add(1)
                return tf.nn.relu(x @ self.weight)

        model = Model()
        x = tf.constant(numbers(3, 4))
        before = model(x)
        folder = str(tmp_path / str(jit))
        tf.saved_model.save(model, folder)
        loaded = tf.saved_model.load(folder)
        return before, loaded(x), loaded(x[:1]), loaded.steps, model.steps

    check(program)


def test_ragged_and_composite_inputs():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(ragged):
            return tf.reduce_sum(ragged.flat_values), ragged.with_flat_values(ragged.values * 2.0)

        return f(tf.ragged.constant([[1.0, 2.0], [], [3.0]]))

    check(program)


def test_the_gradient_of_a_function_of_tensorflow_1():
    @function.Defun(tf.float32, tf.int32)
    def inner(x, n):
        return x * x * x * tf.cast(n, tf.float32), n * 2

    @function.Defun(tf.float32)
    def outer(x):
        y, _ = inner(x, 3)
        return tf.sin(y)

    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            direct, _ = tf.raw_ops.SymbolicGradient(
                input=[x, 2, tf.cos(x), 5], Tout=[tf.float32, tf.int32], f=inner
            )
            return tf.gradients(outer(x), x), direct

        return f(tf.constant(numbers(4)))

    check(program)


@pytest.mark.parametrize("is_nested", [False, True])
def test_the_gradient_that_a_function_of_tensorflow_1_names(is_nested):
    """Sessions take it; TensorFlow's eager runtime is not told of it.

    TensorFlow alone takes it in half of the runs where it is nested: only what is compiled counts.
    """

    @function.Defun(tf.float32, tf.float32)
    def given(x, seed):
        return x * seed * 10.0

    @function.Defun(tf.float32, grad_func=given)
    def cube(x):
        return x * x * x

    @function.Defun(tf.float32)
    def twice(x):
        return cube(x) * 2.0

    called = twice if is_nested else cube

    def gradient(x):
        return tf.gradients(called(x), x)[0]

    x = numbers(4)
    found = []
    for jit in (None, True):
        with tf.Graph().as_default():
            y = tf.function(gradient, jit_compile=jit)(tf.constant(x))
            with tf.compat.v1.Session() as session:
                found.append(session.run(y))
    expected = x * (20.0 if is_nested else 10.0)
    for item in found[is_nested:]:
        np.testing.assert_allclose(item, expected, rtol=1e-6)
    if not is_nested:
        eager = [tf.function(gradient, jit_compile=jit)(tf.constant(x)) for jit in (None, True)]
        np.testing.assert_allclose(eager[1], eager[0], rtol=1e-6)


def test_functions_of_tensorflow_1_that_the_host_has_a_part_in():
    @function.Defun(tf.float32)
    def inner(x):
        with tf.control_dependencies([tf.print("inside", output_stream="file:///dev/null")]):
            return x * x

    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            return inner(x) * 2.0

        return f(tf.constant(numbers(4)))

    check(program)

    @tf.function(jit_compile=True)
    def gradient(x):
        return tf.gradients(inner(x), x)[0] + 1.0

    x = numbers(4)
    np.testing.assert_allclose(gradient(tf.constant(x)), 2 * x + 1, rtol=1e-6)


@pytest.mark.parametrize("printed", [False, True])
def test_a_launch_of_xla_in_a_graph_is_a_call(compiled, printed):
    """TensorFlow's clustering writes `XlaLaunch` nodes; with `printed` the host is needed in it."""

    @tf.function
    def body(x, y):
        if printed:
            tf.print("launched", output_stream="file:///dev/null")
        return tf.sin(x) * y, tf.reduce_sum(x)

    row = tf.TensorSpec([3], tf.float32)
    launched = body.get_concrete_function(row, row)
    graph_def = tf.compat.v1.GraphDef()
    graph_def.versions.CopyFrom(launched.graph.as_graph_def().versions)
    graph_def.library.function.add().CopyFrom(launched.function_def)
    number = tf.float32.as_datatype_enum
    for name in ("x", "y"):
        given = graph_def.node.add(name=name, op="Placeholder")
        given.attr["dtype"].type = number
        given.attr["shape"].shape.dim.add().size = 3
    node = graph_def.node.add(name="launch", op="XlaLaunch", input=["x", "y"])
    node.attr["Tconstants"].list.SetInParent()
    node.attr["Targs"].list.type.extend([number, number])
    node.attr["Tresults"].list.type.extend([number, number])
    node.attr["Nresources"].i = 0
    node.attr["function"].func.name = launched.function_def.signature.name

    @tf.function(jit_compile=True)
    def program(x, y):
        wanted = ["launch:0", "launch:1"]
        inputs = {"x": x * 2.0, "y": y}
        return tf.graph_util.import_graph_def(graph_def, inputs, wanted, name="")

    x = tf.constant([1.0, 2.0, 3.0])
    product, total = program(x, x)
    np.testing.assert_allclose(product, np.sin(2 * x) * x, rtol=1e-6)
    assert float(total) == 12.0
    assert compiled


def test_shapes_that_follow_from_constants_are_static_around_an_inner_jit_function():
    seen = []

    def program(jit):
        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([], tf.int32)] * 2)
        def ones(rows, columns):
            return tf.ones(tf.stack([rows, columns]))

        @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec([None, None])])
        def like(x):
            return tf.ones(tf.concat([tf.shape(x)[:1], [5]], 0))

        @tf.function(jit_compile=jit)
        def outer():
            first = ones(2, 3)
            second = like(first)
            seen.append((first.shape, second.shape))
            return tf.matmul(first, second, transpose_a=True)

        return outer()

    check(program)
    assert seen == [([2, 3], [2, 5])] * 2
    assert len(compilations_of("outer")) == 1


@pytest.fixture
def lowerings(monkeypatch):
    """The modules that functions were lowered to, by name."""
    found = []
    lower = lowering.lower

    def counting(captured, binding, name, arguments):
        found.append(name)
        return lower(captured, binding, name, arguments)

    monkeypatch.setattr(lowering, "lower", counting)
    return found


@pytest.mark.parametrize("dims", [[3, 4], [None, 4], [None, None]], ids=str)
def test_a_function_that_a_graph_calls_is_lowered_once(dims, lowerings):
    inner = tf.function(lambda x, y: tf.nn.softmax(x @ y) + 1, jit_compile=True)
    spec = tf.TensorSpec(dims)
    outer = tf.function(lambda x, y: inner(x, y) * 2, input_signature=[spec, tf.TensorSpec([4, 5])])
    x, y = numbers(3, 4), numbers(4, 5)
    got = outer(tf.constant(x), tf.constant(y))
    assert len(lowerings) == 1
    np.testing.assert_allclose(got, (tf.nn.softmax(x @ y) + 1) * 2, rtol=1e-5)


def test_a_call_that_contradicts_what_was_found_before_it_is_lowered_again(lowerings):
    # Before there is a call, the sizes of a sum are taken to be one.
    inner = tf.function(lambda x, y: x + y, jit_compile=True)
    spec = tf.TensorSpec([None])
    outer = tf.function(lambda x, y: inner(x, y), input_signature=[spec, spec])
    np.testing.assert_array_equal(outer(numbers(5), numbers(1)), numbers(5) + numbers(1))
    assert len(lowerings) == 2
    np.testing.assert_array_equal(outer(numbers(4), numbers(4)), numbers(4) * 2)


def test_a_trace_that_creates_variables_is_not_prepared(monkeypatch):
    # TensorFlow traces the function again without them, and runs that.
    prepared = []
    replace_function = hook.replace_function

    def counting(atomic, graph, name, *args, **kwargs):
        prepared.append(name)
        return replace_function(atomic, graph, name, *args, **kwargs)

    monkeypatch.setattr(hook, "replace_function", counting)

    class Layer(tf.Module):
        weights = None

        @tf.function(jit_compile=True)
        def inner(self, x):
            return tf.tanh(x)

        @tf.function(jit_compile=True)
        def __call__(self, x):
            if self.weights is None:
                self.weights = tf.Variable(tf.ones([x.shape[1], 2]) * 3.0)
            return self.inner(x @ self.weights)

    layer = Layer()
    x = numbers(4, 3)
    for _ in range(2):
        np.testing.assert_allclose(layer(tf.constant(x)), np.tanh(x @ np.full((3, 2), 3.0)), 1e-5)
    assert len([name for name in prepared if "call" in name]) == 1
    assert len(compilations_of("call")) == 1
