# SPDX-License-Identifier: Apache-2.0
"""A simulation of messages, one by one, on a network.

A device sends its message of a round when it has sent and received those of the round before. A
message holds the sender's way out and the receiver's way in, and between nodes also both nodes'
channels; who comes first is served first. `formulas` are the closed form: equal on one node and on
nodes of one device, an upper bound else, since devices that need no channel run ahead here.

Example: three devices of a node, each to the next one, twice.
    >>> network = Network.parse("3 devices, inside 1us 1GB/s")
    >>> ring = [[(d, (d + 1) % 3, 1000.0) for d in range(3)] for _ in range(2)]
    >>> f"{simulate(ring, network) * 1e6:.1f} us"
    '4.0 us'
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ingot.analysis.network.description import Network
from ingot.analysis.network.formulas import FAN, LEAP, PAIRS, RING, Phase

Message = tuple[int, int, float]
"""Sender, receiver, bytes."""


def simulate(rounds: Iterable[Sequence[Message]], network: Network) -> float:
    """Return the seconds until all messages have arrived.

    Args:
        rounds: the messages of each round; a device sends and receives at most one in each.
        network: the network.
    """
    state = _State(network)
    for messages in rounds:
        state.run(messages)
    return max(state.ready.values(), default=0.0)


class _State:
    """When each device is ready for its next round, and when each way is free again."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.ready: defaultdict[int, float] = defaultdict(float)
        self._free: defaultdict[tuple[str, int], float] = defaultdict(float)

    def run(self, messages: Sequence[Message]) -> None:
        """Send the messages of a round; who can start first comes first."""
        arrived: defaultdict[int, float] = defaultdict(float)
        for message in sorted(messages, key=lambda row: (self._start(row), row)):
            end = self._send(message)
            for device in message[:2]:
                arrived[device] = max(arrived[device], end)
        self.ready.update(arrived)

    def _start(self, message: Message) -> float:
        sender, receiver, _ = message
        return max(self.ready[sender], self.ready[receiver])

    def _send(self, message: Message) -> float:
        """Return when a message has arrived; note until when it occupies its channels."""
        network, (sender, receiver, size) = self.network, message
        here, there = network.node(sender), network.node(receiver)
        channel = network.inside if here == there else network.between
        held = {("out", sender): network.inside, ("in", receiver): network.inside}
        if here != there:
            held |= {("leave", here): channel, ("enter", there): channel}
        start = max(self._start(message), *(self._free[way] for way in held))
        taken = {way: size / through.bytes_per_second for way, through in held.items()}
        for way, seconds in taken.items():
            self._free[way] = start + seconds
        return start + channel.latency + max(taken.values())


def messages_of(phases: Sequence[Phase], groups: Sequence[Sequence[int]]) -> list[list[Message]]:
    """Return the messages of each round of phases, of all groups at once."""
    return [
        [message for group in groups for message in _round(phase, number, group)]
        for phase in phases
        for number in range(phase.rounds)
    ]


def _round(phase: Phase, number: int, group: Sequence[int]) -> list[Message]:
    n = len(group)
    if phase.pattern == FAN:
        return [(group[0], group[number + 1], phase.size)]
    step = {RING: 1, PAIRS: number + 1, LEAP: phase.distance}[phase.pattern]
    return [(group[at], group[(at + step) % n], phase.size) for at in range(n)]
