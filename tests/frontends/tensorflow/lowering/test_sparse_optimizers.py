# SPDX-License-Identifier: Apache-2.0
"""Optimizer steps on rows, against TensorFlow's kernels: rows chosen once, often and never."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers, trace

from ingot.support.diagnostics import ExecutionError, UnsupportedError

RATE = {"lr": 0.1}
DECAY = {"rho": 0.9, "epsilon": 1e-7}
FTRL = {"l1": 0.1, "l2": 0.2, **RATE}
STEPS = {
    "Adadelta": ("accum accum_update", {**DECAY, **RATE}),
    "Adagrad": ("accum", RATE),
    "Adagrad of fixed slots": ("accum", {"update_slots": False, **RATE}),
    "AdagradDA": (
        "gradient_accumulator gradient_squared_accumulator",
        {"l1": 0.1, "l2": 0.2, "global_step": 3, **RATE},
    ),
    "AdagradV2": ("accum", {"epsilon": 1e-7, **RATE}),
    "CenteredRMSProp": ("mg ms mom", {"momentum": 0.8, "rho": 0.9, "epsilon": 9.0, **RATE}),
    "Ftrl": ("accum linear", {"lr_power": -0.5, **FTRL}),
    "Ftrl times rate": (
        "accum linear",
        {"lr_power": -0.6, "multiply_linear_by_lr": True, **FTRL},
    ),
    "FtrlV2": ("accum linear", {"l2_shrinkage": 0.3, "lr_power": -0.5, **FTRL}),
    "KerasMomentum": ("accum", {"momentum": 0.9, "use_nesterov": True, **RATE}),
    "Momentum": ("accum", {"momentum": 0.9, **RATE}),
    "Momentum of Nesterov": ("accum", {"momentum": 0.9, "use_nesterov": True, **RATE}),
    "ProximalAdagrad": ("accum", {"l1": 0.1, "l2": 0.2, **RATE}),
    "ProximalAdagrad without l1": ("accum", {"l1": 0.0, "l2": 0.2, **RATE}),
    "ProximalGradientDescent": ("", {"l1": 0.1, "l2": 0.2, "alpha": 0.1}),
    "RMSProp": ("ms mom", {"momentum": 0.8, **DECAY, **RATE}),
}


def step(name, dims):
    """Return the step, and the variables that it works on."""
    slots, operands = STEPS[name]
    names = ["var", *slots.split()]
    variables = [tf.Variable(np.abs(numbers(*dims, seed=n)) + 0.1) for n in range(len(names))]

    def apply(gradient, indices):
        handles = dict(zip(names, (v.handle for v in variables), strict=True))
        op = getattr(tf.raw_ops, "ResourceSparseApply" + name.split()[0])
        op(**handles, **operands, grad=gradient, indices=indices)
        return [variable.read_value() for variable in variables]

    return apply


@pytest.mark.parametrize("name", STEPS)
def test_a_step_on_rows(name):
    twice = np.array([3, 0, 3, 4, 3, 0], np.int64)
    check(step(name, (5, 2)), numbers(6, 2, seed=9), twice, tolerance=1e-5)
    check(step(name, (4,)), numbers(3, seed=9), np.array([2, 2, 1], np.int32), tolerance=1e-5)


def test_no_rows():
    for count in (0, None):
        specs = [tf.TensorSpec([count, 2]), tf.TensorSpec([count], tf.int64)]
        inputs = np.zeros((0, 2), np.float32), np.zeros(0, np.int64)
        check(step("RMSProp", (5, 2)), *inputs, specs=specs, tolerance=0.0)


def test_as_many_rows_as_the_call_says():
    specs = [tf.TensorSpec([None, 2, 3]), tf.TensorSpec([None], tf.int32)]
    rows = np.array([1, 1, 0, 1], np.int32)
    check(step("Ftrl", (5, 2, 3)), numbers(4, 2, 3), rows, specs=specs, tolerance=1e-5)


def test_a_row_that_is_not_there():
    apply = step("Adagrad", (5, 2))
    program = trace(apply, [tf.TensorSpec([2, 2]), tf.TensorSpec([2], tf.int32)])
    with pytest.raises(ExecutionError, match="indices are not in"):
        program.evaluate([numbers(2, 2), np.array([4, 5], np.int32)])


@pytest.mark.parametrize(
    ("gradient", "indices", "message"),
    [
        ([3, 2], [2], "grad must be the same size as indices"),
        ([2, 3], [2], "must match in their inner dimensions"),
    ],
)
def test_operands_that_do_not_fit(gradient, indices, message):
    apply = step("Adagrad", (5, 2))
    with pytest.raises((UnsupportedError, ValueError), match=message):
        trace(apply, [tf.TensorSpec(gradient), tf.TensorSpec(indices, tf.int32)])
