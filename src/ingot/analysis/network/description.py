# SPDX-License-Identifier: Apache-2.0
"""A network in a few numbers: nodes of equal size, a channel inside them, one between them.

A message of b bytes takes `latency + b / bytes_per_second`. Each device sends and receives one
message at a time, both at once; the devices of a node share one channel to the other nodes, which
are all equally far. Devices are numbered node after node.

Source: Hockney, "The communication challenge for MPP", 1994 (latency and bandwidth, "alpha-beta").

Example:
    >>> network = Network.parse("16 nodes of 8, inside 2us 300GB/s, between 10us 25GB/s, ring")
    >>> network.devices, network.between.seconds(25e6)
    (128, 0.00101)
    >>> str(network)
    '16 nodes of 8, inside 2us 300GB/s, between 10us 25GB/s, ring'
"""

from __future__ import annotations

import re

from ingot.support.diagnostics import ArgumentError
from ingot.support.records import record
from ingot.support.regex import regex

ALGORITHMS = ("direct", "ring", "tree")
"""How data goes round: from each device to each, as Ingot's own runtime does it; from neighbour to
neighbour; or in rounds of doubling distance."""
_CHANNEL = r"(?P<{0}_latency>[\d.]+)\s*us\s+(?P<{0}_rate>[\d.]+)\s*GB/s"
_TEXT = regex(
    r"(?:(?P<nodes>\d+)\s+nodes?\s+of\s+)?(?P<devices>\d+)(?:\s+devices?)?"
    r"\s*,\s*inside\s+" + _CHANNEL.format("inside") + r"(?:\s*,\s*between\s+"
    r"" + _CHANNEL.format("between") + r")?(?:\s*,\s*(?P<algorithm>\w+))?"
)


@record
class Channel:
    """The cost of a message: seconds before its first byte arrives, and bytes per second."""

    latency: float
    bytes_per_second: float

    def seconds(self, count: float) -> float:
        """Return the seconds of a message of `count` bytes."""
        return self.latency + count / self.bytes_per_second

    def __str__(self) -> str:
        return f"{self.latency * 1e6:.4g}us {self.bytes_per_second / 1e9:.4g}GB/s"


@record
class Network:
    """Nodes of devices.

    Attributes:
        nodes: how many there are.
        devices_per_node: devices of each.
        inside: between two devices of a node.
        between: between two nodes; all devices of a node share it.
        algorithm: one of `ALGORITHMS`.
    """

    nodes: int
    devices_per_node: int
    inside: Channel
    between: Channel
    algorithm: str = ALGORITHMS[0]

    @property
    def devices(self) -> int:
        """The devices of all nodes."""
        return self.nodes * self.devices_per_node

    def node(self, device: int) -> int:
        """Return the node of a device."""
        return device // self.devices_per_node

    @staticmethod
    def parse(text: str) -> Network:
        """Return the network of a text; one node needs no `between`.

        Raises:
            ArgumentError: INGOT0513, it describes no network.
        """
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise _unreadable(text, "it is not of the form of the hint")
        inside = _channel(text, found, "inside")
        nodes = int(found["nodes"] or 1)
        if nodes > 1 and not found["between_rate"]:
            raise _unreadable(text, "what is between its nodes is missing")
        between = _channel(text, found, "between") if found["between_rate"] else inside
        algorithm = found["algorithm"] or ALGORITHMS[0]
        if algorithm not in ALGORITHMS:
            raise _unreadable(text, f"'{algorithm}' is none of {', '.join(ALGORITHMS)}")
        network = Network(nodes, int(found["devices"]), inside, between, algorithm)
        if not network.devices:
            raise _unreadable(text, "it has no device")
        return network

    def __str__(self) -> str:
        nodes = f"{self.nodes} nodes of " if self.nodes > 1 else ""
        between = f", between {self.between}" if self.nodes > 1 else ""
        return f"{nodes}{self.devices_per_node}, inside {self.inside}{between}, {self.algorithm}"


def _channel(text: str, found: re.Match[str], name: str) -> Channel:
    try:
        latency, rate = float(found[f"{name}_latency"]), float(found[f"{name}_rate"])
    except ValueError:
        raise _unreadable(text, f"the network {name} has no number") from None
    if not rate:
        raise _unreadable(text, f"the bandwidth {name} is 0")
    return Channel(latency * 1e-6, rate * 1e9)


def _unreadable(text: str, why: str) -> ArgumentError:
    return ArgumentError(
        f"'{text}' describes no network: {why}",
        hint="for example '16 nodes of 8, inside 2us 300GB/s, between 10us 25GB/s, ring', or "
        "'8 devices, inside 2us 300GB/s' for one node",
    )
