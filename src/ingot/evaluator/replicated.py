# SPDX-License-Identifier: Apache-2.0
"""Evaluates a program on several devices: one thread for each.

Example:
    >>> from ingot.formats.hlo_text import parse
    >>> text = "HloModule m, replica_count=2 ENTRY e { ROOT r = u32[] replica-id() }"
    >>> [int(value) for value in evaluate_replicated(parse(text), [[], []])]
    [0, 1]
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ingot.evaluator.devices import Board, Device, on_device
from ingot.evaluator.interpreter import evaluate
from ingot.evaluator.registry import Value
from ingot.hlo.module import Module
from ingot.semantics.device_groups import Grid, grid_of
from ingot.support.diagnostics import VerifyError


def evaluate_replicated(
    module: Module,
    arguments: Sequence[Sequence[Value]],
    num_replicas: int | None = None,
    num_partitions: int | None = None,
) -> list[Value]:
    """Return the value of the program on each device, by number (replica, then partition).

    Args:
        module: the program.
        arguments: the inputs of each device.
        num_replicas: replicas; default: what the module's header says.
        num_partitions: partitions; default: what the module's header says.

    Raises:
        VerifyError: INGOT0214, there are not as many inputs as devices.
        ExecutionError: INGOT0507, devices did not meet.
    """
    header = grid_of(module)
    grid = Grid(num_replicas or header.replicas, num_partitions or header.partitions)
    if len(arguments) != grid.devices:
        raise VerifyError(
            f"inputs for {len(arguments)} devices, the program runs on {grid.devices}",
            code="INGOT0214",
        )
    board = Board()
    results: list[Any] = [None] * grid.devices
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            with on_device(Device(number, grid, board)):
                results[number] = evaluate(module, arguments[number])
        except BaseException as error:
            errors.append(error)
            board.fail()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(grid.devices)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
