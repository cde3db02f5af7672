# SPDX-License-Identifier: Apache-2.0
"""Reductions, shaping, slicing and matrix products against TensorFlow, static and open sizes."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, gradient_of, numbers

from ingot.support.diagnostics import ExecutionError

RAW = tf.raw_ops
X = numbers(4, 6, 3)
M = numbers(5, 7)
I32 = numbers(4, 6, dtype=np.int32)


@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2], []])
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize(
    "op", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod]
)
def test_reductions(op, axis, keepdims):
    check(lambda x: op(x, axis=axis, keepdims=keepdims), X, tolerance=1e-5)
    if axis != []:
        check(lambda x: op(x, axis=axis, keepdims=keepdims), X, tolerance=1e-5, open_sizes=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.int64])
def test_reductions_of_other_types(dtype):
    values = numbers(5, 300, dtype=dtype)
    check(lambda x: (tf.reduce_sum(x, 1), tf.reduce_max(x, 0), tf.reduce_mean(x, 0)), values)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.complex64])
def test_norms_and_means_of_other_types_and_of_nothing(dtype):
    def norms_and_means(x):
        axes = ([], [0], [0, 1])
        norms = [tf.math.reduce_euclidean_norm(x, axis) for axis in axes]
        return *norms, *(tf.reduce_mean(x, axis) for axis in axes)

    for dims in ((5, 3), (3, 0), (0, 2), (1, 1)):
        check(norms_and_means, numbers(*dims, dtype=dtype), tolerance=2e-6)
        check(norms_and_means, numbers(*dims, dtype=dtype), tolerance=2e-6, open_sizes=True)


REDUCTIONS = {
    "all": lambda x: tf.reduce_all(x > -1, 1),
    "any": lambda x: tf.reduce_any(x > 1, [0, 1]),
    "norm": lambda x: tf.math.reduce_euclidean_norm(x, 1),
    "logsumexp": lambda x: tf.reduce_logsumexp(x, -1),
    "std": lambda x: tf.math.reduce_std(x, 0),
    "argmax": lambda x: tf.argmax(x, 1),
    "argmin": lambda x: tf.argmin(x, 0, output_type=tf.int32),
    "argmax_ties": lambda x: tf.argmax(tf.cast(x > 0, tf.float32), 1),
    "argmax_bool": lambda x: tf.argmax(tf.cast(x > 0, tf.int32), -1),
    "softmax": tf.nn.softmax,
    "moments": lambda x: tf.nn.moments(x, [0, 1]),
}


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_composed_reductions(name):
    check(REDUCTIONS[name], X)
    check(REDUCTIONS[name], X, open_sizes=True)


NOTHING = {
    "before": ((2, 0), (-1, 0)),
    "behind": ((0, 3, 4), (0, -1)),
    "between": ((0, 3, 4), (2, 0, -1)),
    "flat": ((0,), (0, -1)),
    "alone": ((0, 4), (-1,)),
}


@pytest.mark.parametrize("name", NOTHING)
def test_an_open_size_of_an_empty_array(name):
    """What -1 stands for beside a 0 follows from the sizes that are not 0."""
    dims, wanted = NOTHING[name]
    check(lambda x: tf.reshape(x, wanted), np.ones(dims, np.float32))
    check(lambda x: tf.reshape(tf.ones(dims), wanted) + tf.reduce_sum(x), np.ones(3, np.float32))
    check(
        lambda x: tf.reshape(tf.boolean_mask(x, x > 5), [-1, *(n for n in wanted if n != -1), 0]),
        np.ones(3, np.float32),
    )


@pytest.mark.parametrize("dims", [((2, 0), (2, 3)), ((2, 3), (2, 0)), ((0, 3), (0, 4))])
def test_nothing_is_searched(dims):
    check(lambda x: tf.searchsorted(tf.ones(dims[0]) * x, tf.ones(dims[1])), np.float32(1))


SHAPING = {
    "reshape": lambda x: tf.reshape(x, [-1, 3]),
    "reshape_of_shape": lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "reshape_product": lambda x: tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], 3]),
    "flatten": lambda x: tf.reshape(x, [-1]),
    "expand": lambda x: tf.expand_dims(x, -1) * tf.expand_dims(x, [2]),
    "squeeze": lambda x: tf.squeeze(x[:1], 0),
    "transpose": lambda x: tf.transpose(x, [2, 0, 1]),
    "transpose_all": lambda x: tf.transpose(x),
    "concat": lambda x: tf.concat([x, x * 2, x[:, :1]], 1),
    "concat_minus": lambda x: tf.concat([x, x], -1),
    "stack": lambda x: tf.stack([x, -x], 1),
    "unstack": lambda x: tf.unstack(x, 3, axis=2),
    "split_v": lambda x: tf.split(x, [1, 2], axis=2),
    "split_rest": lambda x: tf.split(x, [1, -1], axis=0),
    "slice": lambda x: tf.slice(x, [1, 0, 1], [2, -1, 2]),
    "strided": lambda x: x[1:3, ::2, -1],
    "strided_new": lambda x: x[..., tf.newaxis, 1:],
    "strided_tail": lambda x: x[:, 1:] - x[:, :-1],
    "strided_stencil": lambda x: x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2],
    "strided_beyond": lambda x: x[:99, -5:],
    "strided_reverse": lambda x: x[::-1, :, 0],
    "strided_dynamic": lambda x: x[tf.cast(x[0, 0, 0] > 0, tf.int32) + 1, 1:],
    "strided_dynamic_minus": lambda x: x[:, tf.cast(x[0, 0, 0] > 0, tf.int32) - 1],
    "pad": lambda x: tf.pad(x, [[1, 0], [0, 2], [1, 1]]),
    "pad_value": lambda x: tf.pad(x, [[1, 0], [0, 2], [1, 1]], constant_values=7.0),
    "tile": lambda x: tf.tile(x, [2, 1, 3]),
    "broadcast_to": lambda x: tf.broadcast_to(x, tf.concat([[2], tf.shape(x)], 0)),
    "fill": lambda x: tf.fill(tf.shape(x)[:2], x[0, 0, 0]),
    "zeros_like": lambda x: tf.zeros_like(x) + tf.ones_like(x),
    "ones": lambda x: tf.ones([tf.shape(x)[0], 2]) * x[:, 0, :2],
    "range": lambda x: tf.range(tf.shape(x)[0]) * 2,
    "range_step": lambda x: tf.range(3, 20, 4) + tf.size(x),
    "range_down": lambda x: tf.range(10, 0, -3),
    "linspace": lambda x: tf.linspace(x[0, 0, 0], 2.0, 7),
    "reverse": lambda x: tf.reverse(x, [0, -1]),
    "roll": lambda x: tf.roll(x, 1, 1),
    "roll_back": lambda x: tf.roll(x, [-1, 1], [0, 2]),
    "shape": lambda x: (tf.shape(x), tf.size(x), tf.rank(x), tf.shape(x, tf.int64)),
    "mean_by_hand": lambda x: tf.reduce_sum(x, 0) / tf.cast(tf.shape(x)[0], tf.float32),
    "identity": lambda x: (tf.identity(x) + 0, tf.stop_gradient(x) * 1),
    "ensure_shape": lambda x: tf.ensure_shape(x, [None, None, 3]) + 0,
    "shape_n": lambda x: tf.raw_ops.ShapeN(input=[x, x[0]]),
    "size_dependent": lambda x: tf.reshape(x, [tf.shape(x)[0], -1, 3])[:, : tf.shape(x)[1] // 2],
}


@pytest.mark.parametrize("name", sorted(SHAPING))
def test_shaping(name):
    check(SHAPING[name], X)
    check(SHAPING[name], X, specs=[tf.TensorSpec([None, None, 3])])


FIXED = {
    "parallel_stack": lambda x: tf.parallel_stack([x, x * 2, x + 1]),
    "split": lambda x: tf.split(x, 2, axis=1),
    "strided_negative": lambda x: x[3:0:-2, ::-3],
    "strided_all": lambda x: x[-3:-1, 1:5:3, :2],
    "mirror_reflect": lambda x: tf.pad(x, [[1, 2], [3, 0], [0, 1]], mode="REFLECT"),
    "mirror_symmetric": lambda x: tf.pad(x, [[1, 2], [3, 0], [0, 1]], mode="SYMMETRIC"),
    "meshgrid": lambda x: tf.meshgrid(x[0, 0], x[0, :, 0]),
    "reverse_v1": lambda x: RAW.Reverse(tensor=x, dims=[True, False, True]),
    "update": lambda x: tf.tensor_scatter_nd_update(x, [[1], [3]], x[:2]),
    "strided_update": lambda x: RAW.TensorStridedSliceUpdate(
        input=x, begin=[1, 0, 0], end=[3, 4, 3], strides=[1, 2, 1], value=tf.ones([2, 2, 3]),
        begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FIXED))
def test_shaping_of_fixed_sizes(name):
    check(FIXED[name], X)


GRADIENTS = {
    "slice": lambda x: tf.reduce_sum(x[1:3, ::2, -1] ** 2),
    "dynamic_index": lambda x: x[tf.cast(x[0, 0, 0] > 0, tf.int32)] ** 2,
    "reverse": lambda x: x[::-1, :, 1] ** 2,
    "pad": lambda x: tf.pad(x, [[1, 0], [0, 2], [1, 1]]) ** 3,
    "tile": lambda x: tf.tile(x, [2, 1, 3]) ** 2,
    "concat": lambda x: tf.concat([x, x * x], 1) ** 2,
    "broadcast": lambda x: (x * x[0, 0]) ** 2,
    "mean": lambda x: tf.reduce_mean(x * x, [0, 2]),
    "max": lambda x: tf.reduce_max(x, 1),
    "softmax": lambda x: tf.nn.softmax(x)[..., 0],
    "gather": lambda x: tf.gather(x, [2, 0, 2]) ** 2,
    "gather_axis": lambda x: tf.gather(x, [2, 0, 2], axis=2) ** 2,
    "norm": lambda x: tf.norm(x, axis=-1),
    "divide": lambda x: x / (tf.reduce_sum(x * x, -1, keepdims=True) + 1.0),
    "stack": lambda x: tf.stack([x, tf.sin(x)], -1) ** 2,
    "split": lambda x: tf.split(x, 3, axis=2)[1] ** 2,
}


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_gradients_of_shaping(name):
    check(gradient_of(GRADIENTS[name]), X, tolerance=1e-5)
    check(gradient_of(GRADIENTS[name]), X, specs=[tf.TensorSpec([None, None, 3])], tolerance=1e-5)


MATRIX = {
    "matmul": lambda a, b: a @ b,
    "matmul_ta": lambda a, b: tf.matmul(tf.transpose(a) + 0, b, transpose_a=True),
    "matmul_tb": lambda a, b: tf.matmul(a, tf.transpose(b) + 0, transpose_b=True),
    "dense": lambda a, b: tf.nn.bias_add(a @ b, b[0]),
    "einsum": lambda a, b: tf.einsum("ij,jk->ki", a, b),
    "einsum_sum": lambda a, b: tf.einsum("ij,jk->i", a, b),
    "einsum_outer": lambda a, b: tf.einsum("ij,kl->ikjl", a, b),
    "einsum_one": lambda a, b: tf.einsum("ij->j", a),
    "einsum_trace": lambda a, b: tf.einsum("ii->i", a @ tf.transpose(a)),
    "tensordot": lambda a, b: tf.tensordot(a, b, [[1], [0]]),
    "matvec": lambda a, b: tf.linalg.matvec(a, b[:, 0]),
}


@pytest.mark.parametrize("name", sorted(MATRIX))
def test_matrix_products(name):
    a, b = numbers(5, 7), numbers(7, 4, seed=1)
    check(MATRIX[name], a, b, tolerance=1e-5)
    check(
        MATRIX[name], a, b, tolerance=1e-5, specs=[tf.TensorSpec([None, 7]), tf.TensorSpec([7, 4])]
    )
    if name != "tensordot":
        check(MATRIX[name], a, b, tolerance=1e-5, open_sizes=True)


@pytest.mark.parametrize(
    "dims", [((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((4, 2), (3, 2, 5))]
)
def test_batched_products_broadcast(dims):
    a, b = (numbers(*d, seed=n) for n, d in enumerate(dims))
    check(tf.matmul, a, b, tolerance=1e-5)
    check(tf.matmul, a, b, tolerance=1e-5, open_sizes=True)


def test_batched_products_transposed_and_complex():
    a, b = numbers(2, 4, 3, dtype=np.complex64), numbers(2, 5, 4, dtype=np.complex64)
    check(lambda a, b: tf.matmul(a, b, adjoint_a=True, adjoint_b=True), a, b, tolerance=1e-5)


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "b...i,bi->b...", "...ij,...jk->...ik"])
def test_batched_einsum(equation):
    dims = ((2, 3, 4), (2, 4)) if equation.startswith("b...") else ((2, 3, 4), (2, 4, 5))
    a, b = (numbers(*d, seed=n) for n, d in enumerate(dims))
    check(lambda a, b: tf.einsum(equation, a, b), a, b, tolerance=1e-5)


def test_gradient_of_a_dense_layer_with_open_batch():
    def loss(x, w, b):
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            y = tf.nn.relu(tf.nn.bias_add(x @ w, b))
            total = tf.reduce_mean(y * y)
        return tape.gradient(total, [w, b])

    specs = [tf.TensorSpec([None, 7]), tf.TensorSpec([7, 4]), tf.TensorSpec([4])]
    check(loss, numbers(5, 7), numbers(7, 4), numbers(4), specs=specs, tolerance=1e-5)


@pytest.mark.parametrize("device", [0, 3])
def test_the_group_of_a_device(device):
    def group(groups, device):
        return tuple(
            tf.raw_ops.CollectiveAssignGroupV2(
                group_assignment=groups, device_index=device, base_key=5
            )
        )

    groups = np.array([[0, 2], [1, 3]], np.int32)
    program = check(group, groups, np.int32(device))
    with pytest.raises(ExecutionError, match="device_index is in no group"):
        program.evaluate([groups, np.int32(9)])
