# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells that are one op, and their gradients, against TensorFlow's kernels."""

import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers

RAW = tf.raw_ops
BATCH, INPUTS, UNITS, TIMES = 3, 4, 5, 6


def drawn(*dims, seed=0):
    return numbers(*dims, seed=seed, scale=0.7)


X, XS = drawn(BATCH, INPUTS), drawn(TIMES, BATCH, INPUTS)
CELL, H = drawn(BATCH, UNITS, seed=1), drawn(BATCH, UNITS, seed=2)
WEIGHTS, BIAS = drawn(INPUTS + UNITS, 4 * UNITS, seed=3), drawn(4 * UNITS, seed=4)
LOOKS = [drawn(UNITS, seed=seed) for seed in (5, 6, 7)]
LOST = [drawn(TIMES, BATCH, UNITS, seed=seed) for seed in (8, 9)]
NAMES = ("cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
GIVEN = dict(zip(NAMES, (CELL, H, WEIGHTS, *LOOKS, BIAS), strict=True))
RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")


@pytest.mark.parametrize("peephole", [False, True])
def test_lstm_cell(peephole):
    def run(x):
        made = RAW.LSTMBlockCell(
            x=x, **GIVEN, forget_bias=0.5, cell_clip=0.8, use_peephole=peephole
        )
        parts = {name: getattr(made, name) for name in RESULTS[:-1]}
        lost = {"cs_grad": LOST[0][0], "h_grad": LOST[1][0]}
        back = RAW.LSTMBlockCellGrad(x=x, **GIVEN, **parts, **lost, use_peephole=peephole)
        return (*made, *(back if peephole else back[:2]))

    check(run, X, tolerance=1e-5)


@pytest.mark.parametrize("steps", [TIMES, 4, 0])
@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_lstm_over_time(version, peephole, steps):
    forward = {"use_peephole": peephole, "cell_clip": 0.9}
    if version == 1:
        forward["forget_bias"] = 0.3
    over, back = (
        (RAW.BlockLSTM, RAW.BlockLSTMGrad)
        if version == 1
        else (RAW.BlockLSTMV2, RAW.BlockLSTMGradV2)
    )

    def run(x):
        count = {"seq_len_max": tf.constant(steps, tf.int64), "x": x, **GIVEN}
        made = over(**count, **forward)
        parts = {name: getattr(made, name) for name in RESULTS}
        lost = {"cs_grad": LOST[0], "h_grad": LOST[1], "use_peephole": peephole}
        found = back(**count, **parts, **lost)
        # What is past the last step, and without peepholes their gradients, TensorFlow's kernel
        # leaves unwritten.
        rest = found[1:] if peephole else (*found[1:4], found[7])
        return (*(rows[:steps] for rows in (*made, found[0])), *rest)

    check(run, XS, tolerance=1e-5)


def test_gru_cell():
    names = ("h_prev", "w_ru", "w_c", "b_ru", "b_c")
    weights = [drawn(INPUTS + UNITS, count * UNITS, seed=count) for count in (2, 1)]
    biases = [drawn(count * UNITS, seed=count + 2) for count in (2, 1)]
    given = dict(zip(names, (H, *weights, *biases), strict=True))

    def run(x):
        made = RAW.GRUBlockCell(x=x, **given)
        parts = {name: getattr(made, name) for name in ("r", "u", "c")}
        return (*made, *RAW.GRUBlockCellGrad(x=x, **given, **parts, d_h=LOST[0][0]))

    check(run, X, tolerance=1e-5)
