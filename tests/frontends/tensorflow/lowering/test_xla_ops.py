# SPDX-License-Identifier: Apache-2.0
"""`Xla*` ops: TensorFlow has no kernels of its own for them, so NumPy and JAX say what is right."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.compiler.xla import xla_data_pb2
from tests.frontends.tensorflow.lowering.checking import assert_same, numbers, specs_of, trace

import ingot.client.compilation  # noqa: F401  (registers the custom-call targets for the evaluator)
from ingot.support.diagnostics import UnsupportedError

RAW = tf.raw_ops
X, Y = numbers(3, 4), numbers(4, 5, seed=1)
IMAGE, FILTER = numbers(1, 5, 6, 3), numbers(2, 3, 3, 4)
KEYS = np.arange(12, dtype=np.int32).reshape(3, 4)
SCALAR, NUMBER = tf.TensorSpec([]), tf.TensorSpec([], tf.int32)


def traced(function, *specs):
    """Return the concrete function that an `Xla*` op calls."""
    return tf.function(function).get_concrete_function(*specs)


ADD = traced(lambda a, b: a + b, SCALAR, SCALAR)
AT_LEAST = traced(lambda a, b: a >= b, SCALAR, SCALAR)
BOTH = traced(lambda a, b, c, d: (a + c, tf.maximum(b, d)), *[SCALAR] * 4)
LESS = traced(lambda a, b, c, d: a < b, SCALAR, SCALAR, NUMBER, NUMBER)
DOT = xla_data_pb2.DotDimensionNumbers(
    lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]
)
CONVOLUTION = xla_data_pb2.ConvolutionDimensionNumbers(
    input_batch_dimension=0, input_feature_dimension=3, input_spatial_dimensions=[1, 2],
    kernel_input_feature_dimension=2, kernel_output_feature_dimension=3,
    kernel_spatial_dimensions=[0, 1], output_batch_dimension=0, output_feature_dimension=3,
    output_spatial_dimensions=[1, 2],
)  # fmt: skip
GATHER = xla_data_pb2.GatherDimensionNumbers(
    offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1
)
SCATTER = xla_data_pb2.ScatterDimensionNumbers(
    update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0],
    index_vector_dim=1,
)  # fmt: skip
HIGHEST = xla_data_pb2.PrecisionConfig(operand_precision=[2, 2])
ROWS = np.array([2, 0], np.int32)
BLOCKS = [numbers(2, 2, seed=n) for n in range(4)]
GRID = np.block([BLOCKS[:2], BLOCKS[2:]])
PADDED = np.pad(X, ((0, 1), (0, 0)))


def conv(x, k):
    return xla.conv(
        x, k, window_strides=[2, 1], padding=[[0, 1], [1, 1]], lhs_dilation=[1, 1],
        rhs_dilation=[1, 1], dimension_numbers=CONVOLUTION, precision_config=HIGHEST,
    )  # fmt: skip


def scattered():
    wanted = X.copy()
    wanted[ROWS] += 1
    return wanted


def product(a, b, kind=None):
    return xla.dot_general(a, b, DOT, precision_config=HIGHEST, preferred_element_type=kind)


BYTES = [(item * 50).astype(np.int8) for item in (X, Y)]
CASES = {
    "all_reduce": (lambda x: gen_xla_ops.xla_all_reduce(x, [[0]], "Add", "CrossReplica"), [X], X),
    "broadcast": (
        lambda x, y: xla.add(x, y, broadcast_dims=[0]),
        [X, X[:, 0]],
        X + X[:, :1],
    ),
    "concat_grid": (
        lambda *blocks: RAW.XlaConcatND(inputs=blocks, num_concats=[2, 2], paddings=[0, 1]),
        BLOCKS,
        GRID[:, :3],
    ),
    "convolution": (
        conv,
        [IMAGE, FILTER],
        tf.nn.conv2d(IMAGE, FILTER, [2, 1], [[0, 0], [0, 1], [1, 1], [0, 0]]).numpy(),
    ),
    "dot": (product, [X, Y], X @ Y),
    "dot_of_bytes": (
        lambda a, b: product(a, b, tf.int32),
        BYTES,
        BYTES[0].astype(np.int32) @ BYTES[1].astype(np.int32),
    ),
    "einsum": (lambda a, b: xla.einsum(a, b, "ab,bc->ac"), [X, Y], X @ Y),
    "gather": (lambda x, i: xla.gather(x, i, GATHER, [1, 4]), [X, ROWS], X[ROWS]),
    "key_value_sort": (
        xla.key_value_sort,
        [X[0], KEYS[0]],
        [np.sort(X[0]), np.argsort(X[0]).astype(np.int32)],
    ),
    "reduce": (lambda x: xla.reduce(x, np.float32(1), [1], ADD), [X], X.sum(1) + 1),
    "reduce_two": (
        lambda x: xla.variadic_reduce(
            [x, x], [np.float32(1), np.float32(-9)], dimensions_to_reduce=[1], reducer=BOTH
        ),
        [X],
        [X.sum(1) + 1, X.max(1)],
    ),
    "reduce_window": (
        lambda x: xla.reduce_window(
            x, np.float32(0), ADD, [1, 2], [1, 2], padding=[[0, 0], [0, 0]]
        ),
        [X],
        X[:, ::2] + X[:, 1::2],
    ),
    "replica": (lambda x: xla.replica_id() + x, [np.int32(1)], np.int32(1)),
    "scatter": (
        lambda x, i: xla.scatter(x, i, tf.ones([2, 4]), ADD, SCATTER, indices_are_sorted=False),
        [X, ROWS],
        scattered(),
    ),
    "select_and_scatter": (
        lambda x, s: xla.select_and_scatter(
            x, [1, 2], [1, 2], [[0, 0], [0, 0]], s, np.float32(0), AT_LEAST, ADD
        ),
        [np.array([[1, 2, 4, 3]], np.float32), np.array([[10, 20]], np.float32)],
        np.array([[0, 10, 20, 0]], np.float32),
    ),
    "set_bound": (lambda n: xla.set_bound(n, 5) + 1, [np.int32(4)], np.int32(5)),
    "set_size": (
        lambda x, n: tf.reduce_sum(xla.set_dynamic_dimension_size(x, 0, n), 0),
        [X, np.int32(2)],
        X[:2].sum(0),
    ),
    "optimization_barrier": (xla.optimization_barrier, [X, KEYS], [X, KEYS]),
    "set_size_and_back": (
        lambda x, n: xla.remove_dynamic_dimension_size(
            xla.set_dynamic_dimension_size(x, 0, n), 0
        ) + 0,
        [X, np.int32(2)],
        X,
    ),
    "sort": (xla.sort, [X], np.sort(X, -1)),
    "split_grid": (
        lambda x: RAW.XlaSplitND(input=x, N=4, num_splits=[2, 2], paddings=[1, 0]),
        [X],
        [PADDED[n : n + 2, m : m + 2] for n in (0, 2) for m in (0, 2)],
    ),
    "svd": (
        lambda x: xla.svd(x, max_iter=100, epsilon=1e-6)[0],
        [X],
        np.linalg.svd(X)[1],
    ),
    "variadic_sort": (
        lambda x, y: xla.variadic_sort([x, y], dimension=0, is_stable=True, comparator=LESS),
        [X, KEYS],
        [np.sort(X, 0), np.take_along_axis(KEYS, np.argsort(X, 0), 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_xla_ops(name):
    function, operands, wanted = CASES[name]
    program = trace(function, specs_of(operands))
    got, _ = program.evaluate(operands)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    for have, want in zip(got, wanted, strict=True):
        assert_same(have, np.asarray(want), 1e-4)


@pytest.mark.parametrize(
    ("counts", "paddings", "message"),
    [
        ([1, 0], [], "at index 1 must be positive, but got 0"),
        ([-1, 1], [], "at index 0 must be positive, but got -1"),
        ([1, 2], [], "'N' must match number of slices 2, but got 1"),
        ([1], [], "length 1, but got rank 2"),
        ([1, 1], [1], "of length 2, but got 1"),
        ([1, 1], [0, -1], "must be non-negative, but got -1 at index 1"),
    ],
)
def test_grids_that_do_not_fit(counts, paddings, message):
    for function in (
        lambda x: RAW.XlaConcatND(inputs=[x], num_concats=counts, paddings=paddings),
        lambda x: RAW.XlaSplitND(input=x, N=1, num_splits=counts, paddings=paddings),
    ):
        with pytest.raises(UnsupportedError, match=message):
            trace(function, specs_of([X]))


def test_a_grid_of_unequal_blocks():
    with pytest.raises(
        UnsupportedError, match=r"same expected shape \[2\], but got \[3\] at index 1"
    ):
        trace(
            lambda *blocks: RAW.XlaConcatND(inputs=blocks, num_concats=[2]),
            specs_of([X[0, :2], X[0, :3]]),
        )


def test_a_grid_that_is_smaller_than_its_padding():
    with pytest.raises(UnsupportedError, match="dimension 4 at index 1, but got 5"):
        trace(
            lambda x: RAW.XlaConcatND(inputs=[x], num_concats=[1, 1], paddings=[0, 5]),
            specs_of([X]),
        )


def test_loops_and_branches():
    state = (NUMBER, SCALAR)
    under = traced(lambda i, a: i < 3, *state)
    twice = traced(lambda i, a: (i + 1, a * 2), *state)
    more, less = (traced(lambda a, step=step: a + step, SCALAR) for step in (1.0, -1.0))

    def run(flag, a):
        _, powers = gen_xla_ops.xla_while([np.int32(0), a], cond=under, body=twice)
        (chosen,) = gen_xla_ops.xla_if(flag, [powers], more, less, Tout=[tf.float32])
        return chosen

    program = trace(run, [tf.TensorSpec([], tf.bool), SCALAR])
    for flag in (False, True):
        (got,), _ = program.evaluate([np.bool_(flag), np.float32(3)])
        assert got == (25 if flag else 23)


def test_precision_is_said_in_hlo():
    program = trace(product, specs_of([X, Y]))
    (dot,) = [item for item in program.lowered.module.entry.instructions if item.opcode == "dot"]
    assert dot.attributes.operand_precision == ("highest", "highest")


@pytest.mark.parametrize("allowed", [True, False])
def test_products_say_whether_short_floats_are_allowed(allowed):
    x, k = np.ones([1, 4, 4, 2], np.float32), np.ones([2, 2, 2, 3], np.float32)
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(allowed)
    try:
        program = trace(
            lambda a, b, x, k: (a @ b, tf.nn.conv2d(x, k, 1, "SAME")), specs_of([X, Y, x, k])
        )
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)
    found = [
        item.attributes.operand_precision
        for item in program.lowered.module.entry.instructions
        if item.opcode in ("dot", "convolution")
    ]
    assert found == [() if allowed else ("highest", "highest")] * 2


def test_bits_of_a_generator_are_those_of_hlo():
    program = trace(
        lambda s: xla.rng_bit_generator(2, s, [5], dtype=tf.uint32),
        [tf.TensorSpec([3], tf.uint64)],
    )
    state = np.array([1, 2, 3], np.uint64)
    (key, bits), _ = program.evaluate([state])
    assert bits.shape == (5,)
    assert not np.array_equal(key, state)


def test_a_result_of_which_only_the_first_elements_count():
    def cut(x, rows, columns):
        return xla.set_dynamic_dimension_size(
            xla.set_dynamic_dimension_size(x, 0, rows), 1, columns
        )

    program = trace(cut, specs_of([X, np.int32(1), np.int32(1)]))
    for rows, columns in ((2, 3), (3, 4), (0, 1)):
        (got,), _ = program.evaluate([X, np.int32(rows), np.int32(columns)])
        np.testing.assert_array_equal(got, X[:rows, :columns])


def test_a_slice_of_another_rank_than_its_operand():
    with pytest.raises(UnsupportedError, match=r"slice sizes \(1\) and number of start"):
        trace(
            lambda x, starts: xla.dynamic_slice(x, starts, [1]),
            specs_of([X, np.zeros(2, np.int32)]),
        )


def test_programs_of_jax():
    jax2tf = pytest.importorskip("jax.experimental.jax2tf")
    import jax
    import jax.numpy as jnp

    def program(a, b):
        return (
            jnp.sin(a) @ b,
            jax.lax.top_k(a, 2)[0],
            jax.lax.fori_loop(0, 3, lambda _, v: v * 2, a),
        )

    made = trace(jax2tf.convert(program), specs_of([X, Y]))
    got, _ = made.evaluate([X, Y])
    for have, want in zip(got, program(X, Y), strict=True):
        assert_same(have, np.asarray(want), 1e-5)

    def loss(a):
        return jnp.sum(jnp.tanh(a) ** 2)

    def gradient(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            found = jax2tf.convert(loss)(a)
        return tape.gradient(found, a)

    (got,), _ = trace(gradient, specs_of([X])).evaluate([X])
    assert_same(got, np.asarray(jax.grad(loss)(X)), 1e-5)


def test_a_program_of_jax_for_any_size_and_platform():
    jax2tf = pytest.importorskip("jax.experimental.jax2tf")
    import jax.numpy as jnp

    made = jax2tf.convert(
        lambda a: jnp.sum(a, 0) * a.shape[0],
        polymorphic_shapes=["(b, 4)"],
        native_serialization_platforms=["cuda", "cpu"],
    )
    program = trace(made, [tf.TensorSpec([None, 4])])
    for size in (1, 3, 5):
        x = numbers(size, 4)
        (got,), _ = program.evaluate([x])
        assert_same(got, x.sum(0) * size, 1e-5)
