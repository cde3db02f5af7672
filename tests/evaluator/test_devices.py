# SPDX-License-Identifier: Apache-2.0
"""Evaluation on several devices: numbers by hand, and devices that do not meet."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate, evaluate_replicated
from ingot.evaluator.devices import Board
from ingot.support.diagnostics import ExecutionError, VerifyError

HEAD = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
"""


def replicated(body: str, replicas: int, partitions: int = 1) -> list[list[float]]:
    text = HEAD + "ENTRY e { x = f32[2] parameter(0) ROOT " + body + " }"
    inputs = [[np.float32([n, 10 * n])] for n in range(replicas * partitions)]
    found = evaluate_replicated(ingot.parse_hlo(text), inputs, replicas, partitions)
    return [np.asarray(value).tolist() for value in found]


def test_sums_and_parts() -> None:
    assert (
        replicated("r = f32[2] all-reduce(x), replica_groups={}, to_apply=add", 3) == [[3, 30]] * 3
    )
    scattered = "r = f32[1] reduce-scatter(x), replica_groups={{1,0}}, dimensions={0}, to_apply=add"
    assert replicated(scattered, 2) == [[10], [1]]
    assert (
        replicated("r = f32[4] all-gather(x), replica_groups={{1,0}}, dimensions={0}", 2)
        == [[1, 10, 0, 0]] * 2
    )
    assert replicated("r = f32[2] all-to-all(x), replica_groups={}, dimensions={0}", 2) == [
        [0, 1],
        [0, 10],
    ]


def test_values_passed_between_devices() -> None:
    permuted = "r = f32[2] collective-permute(x), source_target_pairs={{1,0},{2,1}}"
    assert replicated(permuted, 3) == [[1, 10], [2, 20], [0, 0]]
    sent = "r = f32[2] collective-broadcast(x), replica_groups={{1,0}}"
    assert replicated(sent, 3) == [[1, 10], [1, 10], [0, 0]]


def test_partitions() -> None:
    summed = "r = f32[2] all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=add"
    assert replicated(summed, 2, 2) == [[1, 10], [1, 10], [5, 50], [5, 50]]


def test_as_many_inputs_as_devices() -> None:
    module = ingot.parse_hlo("HloModule m, replica_count=2 ENTRY e { ROOT r = u32[] replica-id() }")
    with pytest.raises(VerifyError, match="INGOT0214"):
        evaluate_replicated(module, [[]])
    assert evaluate(ingot.parse_hlo("HloModule m ENTRY e { ROOT r = u32[] replica-id() }"), []) == 0


def test_who_waits_in_vain_gives_up() -> None:
    board = Board(patience=0.01)
    with pytest.raises(ExecutionError, match="did not meet"):
        board.exchange("op", (0, 1), 0, 5)


def test_a_failure_reaches_those_who_wait() -> None:
    board, errors = Board(), list[BaseException]()

    def wait() -> None:
        try:
            board.exchange("op", (0, 1), 0, 5)
        except ExecutionError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    board.fail()
    thread.join(timeout=10)
    assert len(errors) == 1
