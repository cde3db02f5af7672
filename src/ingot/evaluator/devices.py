# SPDX-License-Identifier: Apache-2.0
"""Devices of an evaluation, and the board where they exchange values.

Every collective is one exchange: each device of a group contributes its operands and gets those of
all, in the group's order; the op's rule does the rest. A device that waits too long raises an
error, so a program whose devices do not meet fails instead of hanging.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.semantics.device_groups import Grid
from ingot.support.diagnostics import ExecutionError
from ingot.support.flags import COLLECTIVE_TIMEOUT
from ingot.support.records import mutable

Group = tuple[int, ...]


class Board:
    """Where devices leave values for each other."""

    def __init__(self, patience: float | None = None) -> None:
        """Make an empty board; a device that waits longer than `patience` seconds gives up.

        The default is `INGOT_COLLECTIVE_TIMEOUT`, as for compiled programs.
        """
        self._condition = threading.Condition()
        self._patience = COLLECTIVE_TIMEOUT.value() if patience is None else patience
        self._values: dict[Hashable, dict[int, Any]] = defaultdict(dict)
        self._counts: dict[Hashable, int] = defaultdict(int)
        self._failed = False

    def fail(self) -> None:
        """Let everyone who waits, now or later, give up."""
        with self._condition:
            self._failed = True
            self._condition.notify_all()

    def exchange(self, op: Hashable, group: Group, device: int, value: Any) -> list[Any]:
        """Contribute `value`; return those of all devices of `group` for the same run of `op`."""
        with self._condition:
            turn = self._turn((op, group, device))
            given = self._values[op, group, turn]
            given[device] = value
            self._condition.notify_all()
            self._wait(lambda: len(given) == len(group), f"{op} of devices {group}")
            return [given[one] for one in group]

    def send(self, channel: Hashable, source: int, target: int, value: Any) -> None:
        """Leave a value for `target`."""
        with self._condition:
            turn = self._turn(("send", channel, source, target))
            self._values["message", channel, source, target, turn][0] = value
            self._condition.notify_all()

    def receive(self, channel: Hashable, source: int, target: int) -> Any:
        """Return the next value that `source` left for `target`."""
        with self._condition:
            turn = self._turn(("receive", channel, source, target))
            box = self._values["message", channel, source, target, turn]
            self._wait(lambda: bool(box), f"channel {channel} from {source} to {target}")
            return box[0]

    def _turn(self, key: Hashable) -> int:
        self._counts[key] += 1
        return self._counts[key]

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        self._condition.wait_for(lambda: self._failed or done(), self._patience)
        if not done():
            raise ExecutionError(
                f"devices did not meet: {what}",
                code="INGOT0507",
                hint="every device of a group must run the same collectives in the same order",
            )


@mutable
class Device:
    """The device that an evaluation runs on.

    Attributes:
        number: its number in the grid.
        grid: replicas and partitions.
        board: where it meets the others; a single device never waits.
        infeed: the values that `infeed` takes, in order.
        outfeed: the values that `outfeed` has sent.
        receives: each `recv` so far, which its results name by their index here: `recv-done` may be
            elsewhere, for example in the next step of a loop.
    """

    number: int = 0
    grid: Grid = field(default_factory=Grid)
    board: Board = field(default_factory=lambda: Board(patience=0.0))
    infeed: deque[Any] = field(default_factory=deque[Any])
    outfeed: list[Any] = field(default_factory=list[Any])
    receives: list[Instruction] = field(default_factory=list[Instruction])


_device: ContextVar[Device | None] = ContextVar("ingot_evaluator_device", default=None)


def current_device() -> Device:
    """Return the device that evaluates now; a program that was not replicated has a single one."""
    return _device.get() or Device()  # A single instruction may be evaluated outside a program.


@contextmanager
def some_device() -> Generator[None]:
    """Evaluate on the current device, or else on a single one."""
    if _device.get() is not None:
        yield
        return
    with on_device(Device()):
        yield


@contextmanager
def on_device(device: Device) -> Generator[Device]:
    """Evaluate on `device` for the extent of a `with` block, in this thread."""
    token = _device.set(device)
    try:
        yield device
    finally:
        _device.reset(token)
