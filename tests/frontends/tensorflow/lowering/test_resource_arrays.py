# SPDX-License-Identifier: Apache-2.0
"""Stacks and TensorArrays that are resources, as TensorFlow 1 has them, against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, specs_of, trace

from ingot.support.diagnostics import UnsupportedError

RAW = tf.raw_ops
X = numbers(6, 4)


def array(size, **options):
    return RAW.TensorArrayV3(size=size, dtype=tf.float32, **options)


def stacked(x):
    handle = RAW.StackV2(max_size=-1, elem_type=tf.float32)
    RAW.StackPushV2(handle=handle, elem=x)
    again = RAW.StackPushV2(handle=handle, elem=x[:2] * 2)
    first = RAW.StackPopV2(handle=handle, elem_type=tf.float32)
    RAW.StackPushV2(handle=handle, elem=first + 1)
    last = [RAW.StackPopV2(handle=handle, elem_type=tf.float32) for _ in range(2)]
    RAW.StackCloseV2(handle=handle)
    return again, first, *last


def written(x):
    handle, flow = array(3)
    for index in (2, 0, 1):
        flow = RAW.TensorArrayWriteV3(handle=handle, index=index, value=x[index], flow_in=flow)
    size = RAW.TensorArraySizeV3(handle=handle, flow_in=flow)
    one = RAW.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=tf.float32)
    rest = RAW.TensorArrayGatherV3(handle=handle, indices=[2, 1], flow_in=flow, dtype=tf.float32)
    RAW.TensorArrayCloseV3(handle=handle)
    return size, one, rest


def grown(x):
    handle, flow = array(0, dynamic_size=True, element_shape=[4], clear_after_read=False)
    flow = RAW.TensorArrayScatterV3(handle=handle, indices=[3, 1], value=x[:2], flow_in=flow)
    size = RAW.TensorArraySizeV3(handle=handle, flow_in=flow)
    found = [
        RAW.TensorArrayReadV3(handle=handle, index=n, flow_in=flow, dtype=tf.float32)
        for n in (3, 0, 3)
    ]
    return size, *found


def cut(x):
    handle, flow = array(3, element_shape=None)
    flow = RAW.TensorArraySplitV3(
        handle=handle, value=x, lengths=tf.constant([1, 3, 2], tf.int64), flow_in=flow
    )
    return RAW.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.float32)


def gradients(x):
    """What is written on one place of an array of gradients is added up."""
    handle, flow = array(3, element_shape=[4], clear_after_read=False)
    flow = RAW.TensorArrayScatterV3(handle=handle, indices=[0, 1, 2], value=x[:3], flow_in=flow)
    slopes = []
    for index, source in ((1, "a"), (1, "a"), (2, "a"), (0, "b")):
        slope, flow = RAW.TensorArrayGradV3(handle=handle, flow_in=flow, source=source)
        flow = RAW.TensorArrayWriteV3(handle=slope, index=index, value=x[3], flow_in=flow)
        slopes.append(slope)
    return [
        RAW.TensorArrayReadV3(handle=slope, index=n, flow_in=flow, dtype=tf.float32)
        for slope in slopes[2:]
        for n in range(3)
    ]


CASES = [stacked, written, grown, cut, gradients]


@pytest.mark.parametrize("function", CASES, ids=lambda case: case.__name__)
def test_resource_arrays(function):
    check(function, X, tolerance=1e-5)


def popped_too_often(x):
    handle = RAW.StackV2(max_size=1, elem_type=tf.float32)
    RAW.StackPushV2(handle=handle, elem=x)
    RAW.StackPopV2(handle=handle, elem_type=tf.float32)
    return RAW.StackPopV2(handle=handle, elem_type=tf.float32)


def pushed_too_often(x):
    handle = RAW.StackV2(max_size=1, elem_type=tf.float32)
    RAW.StackPushV2(handle=handle, elem=x)
    return RAW.StackPushV2(handle=handle, elem=x)


def read_twice(x):
    handle, flow = array(1)
    flow = RAW.TensorArrayWriteV3(handle=handle, index=0, value=x, flow_in=flow)
    return [
        RAW.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=tf.float32)
        for _ in range(2)
    ]


def written_twice(x):
    handle, flow = array(1)
    for _ in range(2):
        flow = RAW.TensorArrayWriteV3(handle=handle, index=0, value=x, flow_in=flow)
    return RAW.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=tf.float32)


def written_behind(x):
    handle, flow = array(1)
    flow = RAW.TensorArrayWriteV3(handle=handle, index=4, value=x, flow_in=flow)
    return RAW.TensorArraySizeV3(handle=handle, flow_in=flow)


def pushed_in_a_loop(x):
    handle = RAW.StackV2(max_size=-1, elem_type=tf.float32)
    return tf.while_loop(
        lambda n, y: n < 3, lambda n, y: (n + 1, RAW.StackPushV2(handle=handle, elem=y)), [0, x]
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (popped_too_often, "empty when calling Pop"),
        (pushed_too_often, "overflowed its max_size"),
        (read_twice, "read before"),
        (written_twice, "already been written to"),
        (written_behind, "not resizeable and size is: 1"),
        (pushed_in_a_loop, "in another loop or branch"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_what_a_resource_array_does_not_hold_is_an_error(function, message):
    with pytest.raises(UnsupportedError, match=message):
        trace(function, specs_of([np.float32(X)]))
