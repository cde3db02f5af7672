# SPDX-License-Identifier: Apache-2.0
"""TensorLists by their own ops: element shapes, lengths and errors, beside TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.ops import list_ops
from tests.frontends.tensorflow.programs.beside import check

X = tf.constant([1.0, 2.0, 3.0])


def stacked(made: Any) -> Any:
    return list_ops.tensor_list_stack(made, tf.float32)


def filled(x: Any, index: Any) -> Any:
    made = list_ops.tensor_list_from_tensor(x, [])
    return stacked(list_ops.tensor_list_set_item(made, index, 9.0))


def element(x: Any, index: Any) -> Any:
    made = list_ops.tensor_list_from_tensor(x, [])
    return list_ops.tensor_list_get_item(made, index, tf.float32)


def set_first(x: Any, item: Any) -> Any:
    made = list_ops.tensor_list_from_tensor(x, [])
    return stacked(list_ops.tensor_list_set_item(made, 0, item))


def split(x: Any, lengths: Any) -> Any:
    return list_ops.tensor_list_length(list_ops.tensor_list_split(x, None, lengths))


def resized(x: Any, size: Any) -> Any:
    made = list_ops.tensor_list_from_tensor(x, [])
    return list_ops.tensor_list_length(list_ops.tensor_list_resize(made, size))


def pushed(x: Any, shape: Any) -> Any:
    made = list_ops.empty_tensor_list(shape, tf.float32)
    return stacked(list_ops.tensor_list_push_back(made, x))


def pushed_to_size(x: Any, size: Any) -> Any:
    return pushed(x, tf.stack([size]))


def zeros(shape: Any) -> Any:
    return list_ops.tensor_list_reserve(shape, 3, tf.float32)


def added(one: Any, other: Any) -> Any:
    return stacked(tf.add_n([zeros(one), zeros(other)]))


def shapes(size: Any) -> Any:
    open_rank = list_ops.empty_tensor_list(None, tf.float32)
    open_size = list_ops.empty_tensor_list([None, 3], tf.float32)
    computed = list_ops.empty_tensor_list((size, 15), tf.float32)
    return [
        list_ops.tensor_list_element_shape(item, kind)
        for item in (open_rank, open_size, computed)
        for kind in (tf.int32, tf.int64)
    ]


def emptied(x: Any) -> Any:
    made = list_ops.tensor_list_from_tensor(x, [])
    for _ in range(2):
        made, _ = list_ops.tensor_list_pop_back(made, tf.float32)
    return list_ops.tensor_list_length(made), stacked(tf.zeros_like(made))


def half_open(x: Any) -> Any:
    made = list_ops.tensor_list_reserve([None, 2], 2, tf.float32)
    return x[0] + list_ops.tensor_list_stack(made, tf.float32, element_shape=[3, -1])


def scattered(x: Any, indices: Any) -> Any:
    return stacked(list_ops.tensor_list_scatter(x, indices, []))


def scattered_into(x: Any, indices: Any) -> Any:
    """A list that grows to hold what is scattered into it."""
    made = list_ops.tensor_list_scatter(x[:1], [0], [])
    made = list_ops.tensor_list_scatter(x[1:], indices, [], input_handle=made)
    return stacked(made), list_ops.tensor_list_length(made)


def scattered_into_counted(x: Any, indices: Any) -> Any:
    """The same of a list whose length only a loop knows."""
    made = list_ops.empty_tensor_list([], tf.float32)
    for i in tf.range(tf.cast(x[0], tf.int32) + 1):
        made = list_ops.tensor_list_push_back(made, tf.cast(i, tf.float32))
    made = list_ops.tensor_list_scatter(x[1:], indices, [], input_handle=made)
    return stacked(made), list_ops.tensor_list_length(made)


def reserved(size: Any) -> Any:
    return stacked(list_ops.tensor_list_reserve([2], size, tf.float32))


def end_to_end(x: Any, lengths: Any = (1, 2, 4)) -> Any:
    """What has no value is as long as `leading_dims` says."""
    made = list_ops.tensor_list_reserve(None, 3, tf.float32)
    made = list_ops.tensor_list_set_item(made, 1, tf.stack([x, x]))
    return tf.raw_ops.TensorListConcatV2(
        input_handle=made, element_shape=[-1, 3], leading_dims=lengths, element_dtype=tf.float32
    )


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (scattered_into, [X, [1, 2]]), (scattered_into, [X, [2, 1]]), (scattered_into, [X, [0, 0]]),
        (scattered_into_counted, [X, [2, 3]]), (scattered_into_counted, [X, [0, 1]]),
        (reserved, [3]), (end_to_end, [X]),
        (end_to_end, [X, tf.range(1, 4, dtype=tf.int64)]),
        (end_to_end, [X, tf.fill([3], tf.constant(2, tf.int64))]),
        (shapes, [7]), (shapes, [-1]), (emptied, [X]), (half_open, [X]),
        (added, [[2], [2]]), (added, [[-1], [2]]),
        (pushed_to_size, [X, 3]), (pushed_to_size, [X, -1]),
        (scattered, [X, [0, 2, 5]]), (scattered, [X[:0], tf.zeros([0], tf.int32)]),
        (filled, [X, 2]), (element, [X, 0]),
    ],
)  # fmt: skip
def test_lists(program: Callable[..., Any], arguments: list[Any]) -> None:
    given = [tf.constant(item) for item in arguments]
    check(lambda jit: tf.function(program, jit_compile=jit)(*given))


@pytest.mark.parametrize(
    ("program", "arguments", "text"),
    [
        (element, [X, 3], "Trying to access"),
        (reserved, [[1, 1]], "The num_elements to reserve must be a tensor size 1, but got"),
        (reserved, [-1], "The num_elements to reserve must be a non negative number"),
        (
            lambda x, i: stacked(list_ops.tensor_list_scatter(x, i, [])),
            [X[:2], [-1, 0]],
            "Indices in TensorListScatter must all be non-negative.",
        ),
        (
            lambda x, i: stacked(
                tf.raw_ops.TensorListScatterV2(
                    tensor=x, indices=i, element_shape=tf.zeros([0], tf.int32), num_elements=3
                )
            ),
            [X[:2], [1, 3]],
            "TensorListScatter: Trying to scatter at",
        ),
        (element, [X, -1], "Trying to access"),
        (filled, [X, 3], "Trying to modify"),
        (filled, [X, -1], "Trying to modify"),
        (added, [[2], [3]], "Trying to add two lists of tensors with incompatible element shapes"),
        (pushed_to_size, [X, 2], "Tried to append a tensor with incompatible shape to a list"),
        (lambda x: pushed(x, [2]), [X], "Tried to append a tensor with incompatible shape"),
        (lambda x: filled(x, 3), [X], "Trying to modify element 3 in a list with 3 elements"),
        (
            lambda x: list_ops.tensor_list_stack(
                list_ops.tensor_list_from_tensor(x, []), tf.float32, num_elements=2
            ),
            [X],
            "Operation expected a list with 2 elements but got a list with 3 elements",
        ),
        (
            lambda x: stacked(
                tf.add_n([list_ops.tensor_list_from_tensor(y, []) for y in (x, x[:2])])
            ),
            [X],
            "Trying to add two lists of tensors with different lengths",
        ),
    ],
)
@pytest.mark.parametrize("jit", [None, True])
def test_errors(program: Callable[..., Any], arguments: list[Any], text: str, jit: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        tf.function(program, jit_compile=jit)(*map(tf.constant, arguments))


LENGTHS = tf.constant([1, 1, 1], tf.int64)


@pytest.mark.parametrize(
    ("program", "arguments", "text"),
    [
        (
            lambda x: stacked(
                tf.raw_ops.TensorListScatterV2(
                    tensor=x, indices=[1, 5], element_shape=tf.zeros([0], tf.int32), num_elements=5
                )
            ),
            [X[:2]],
            "TensorListScatter: Trying to scatter at index 5 in list with size 5",
        ),
        (set_first, [X, X], r"Tried to set .* at a list index. Item element shape: \[3\]"),
        (
            lambda x: stacked(list_ops.tensor_list_from_tensor(x, [1])),
            [X[None]],
            "Specified a list",
        ),
        (split, [X, LENGTHS[0]], r"Expected lengths to be a vector, received shape: \[\]"),
        (split, [X, LENGTHS[None]], r"Expected lengths to be a vector, received shape: \[1,3\]"),
        (split, [X, LENGTHS * 2], r"Attempting to slice \[2, 4\] from tensor with length 3"),
        (split, [X, LENGTHS[:2]], "Unused values in tensor. Length of tensor: 3 Values used: 2"),
        (split, [X, -LENGTHS], "Invalid value in lengths: -1"),
        (resized, [X, -3], "TensorListSlice expects size to be non-negative"),
    ],
)
def test_errors_of_what_a_graph_calls(
    program: Callable[..., Any], arguments: list[Any], text: str
) -> None:
    """TensorFlow does not know the shapes when it traces; where no program runs, Ingot tells."""
    given = [tf.constant(item) for item in arguments]
    specs = [tf.TensorSpec(None, item.dtype) for item in given]
    for jit in (None, True):
        inner = tf.function(program, jit_compile=jit, input_signature=specs)
        run = tf.function(lambda *x, inner=inner: tf.identity(inner(*x)), input_signature=specs)
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            run(*given)


@pytest.mark.parametrize("index", [3, -1])
def test_an_array_in_a_loop_is_read_inside_its_size(index: int) -> None:
    """The index is data: no counter of the loop."""

    def read(x: Any, indices: Any) -> Any:
        array = tf.TensorArray(tf.float32, 3).unstack(x)
        total = 0.0
        for number in tf.range(2):
            total += array.read(indices[number])
        return total

    run = tf.function(read, jit_compile=True)
    assert float(run(X, tf.constant([0, 2]))) == 4.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Trying to access"):
        run(X, tf.constant([0, index]))
