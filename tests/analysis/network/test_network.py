# SPDX-License-Identifier: Apache-2.0
"""Costs of collectives: formulas worked out by hand, identities, and the simulation beside them."""

from __future__ import annotations

import pytest

from ingot.analysis.network.description import ALGORITHMS, Channel, Network
from ingot.analysis.network.events import messages_of, simulate
from ingot.analysis.network.formulas import (
    FORMULAS,
    Placement,
    phase_seconds,
    phases_of,
    seconds_of,
)
from ingot.support.diagnostics import ArgumentError

MICRO = 1e-6
OPCODES = sorted({opcode for opcode, _ in FORMULAS})


def one_node(devices: int, algorithm: str) -> Network:
    """2 us and 1 GB/s."""
    return Network.parse(f"{devices} devices, inside 2us 1GB/s, {algorithm}")


def cost(opcode: str, algorithm: str, devices: int, size: float) -> float:
    """Return the seconds on one node."""
    network = one_node(devices, algorithm)
    return seconds_of(opcode, size, Placement(devices, devices, 0), network)[0]


@pytest.mark.parametrize(
    "text",
    [
        "8, inside 2us 300GB/s, ring",
        "16 nodes of 8, inside 2us 300GB/s, between 10us 25GB/s, direct",
        "512 nodes of 1, inside 0.5us 3.25GB/s, between 10us 25GB/s, tree",
    ],
)
def test_a_network_is_read_back_from_its_text(text: str) -> None:
    network = Network.parse(text)
    assert str(network) == text
    assert Network.parse(str(network)) == network


def test_a_text_may_leave_out_what_follows() -> None:
    network = Network.parse(" 4 devices , inside 1 us 2 GB/s ")
    assert (network.nodes, network.devices, network.algorithm) == (1, 4, "direct")
    assert network.inside == network.between == Channel(1e-6, 2e9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not of the form"),
        ("8 devices", "not of the form"),
        ("2 nodes of 8, inside 2us 300GB/s", "what is between its nodes is missing"),
        ("8, inside 2us 0GB/s", "the bandwidth inside is 0"),
        ("8, inside 2..us 1GB/s", "has no number"),
        ("8, inside 2us 1GB/s, star", "'star' is none of direct, ring, tree"),
        ("0 nodes of 8, inside 2us 1GB/s, between 2us 1GB/s", "has no device"),
    ],
)
def test_a_text_that_describes_no_network_is_refused(text: str, why: str) -> None:
    with pytest.raises(ArgumentError, match=why) as caught:
        Network.parse(text)
    assert "for example" in caught.value.diagnostic.hint


@pytest.mark.parametrize(
    ("opcode", "algorithm", "microseconds"),
    [
        # 4 devices, 4 MB each, 2 us and 1 GB/s: (p-1)(a + n/p b) a phase of parts.
        ("reduce-scatter", "ring", 3 * (2 + 1000)),
        ("all-reduce", "ring", 6 * (2 + 1000)),
        ("all-gather", "ring", 3 * (2 + 4000)),
        ("all-gather", "tree", 2 * 2 + 4000 + 8000),
        ("reduce-scatter", "tree", 2 * 2 + 1000 + 2000),
        ("all-reduce", "tree", 4 * 2 + 2 * 3000),
        ("all-to-all", "direct", 3 * (2 + 1000)),
        ("all-to-all", "tree", 2 * (2 + 2000)),
        ("collective-broadcast", "direct", 3 * (2 + 4000)),
        ("collective-broadcast", "tree", 2 * (2 + 4000)),
        ("all-reduce", "direct", 6 * (2 + 1000)),
    ],
)
def test_formulas_by_hand(opcode: str, algorithm: str, microseconds: float) -> None:
    assert cost(opcode, algorithm, 4, 4e6) == pytest.approx(microseconds * MICRO)


def test_small_all_reduces_of_ingot_gather_whole_operands() -> None:
    assert cost("all-reduce", "direct", 4, 4000) == pytest.approx(3 * (2 + 4) * MICRO)


@pytest.mark.parametrize("devices", [2, 3, 5, 8, 64])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(algorithm: str, devices: int) -> None:
    size = 1e8
    whole = cost("all-reduce", algorithm, devices, size)
    parts = cost("reduce-scatter", algorithm, devices, size)
    parts += cost("all-gather", algorithm, devices, size / devices)
    assert whole == pytest.approx(parts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_costs_grow_with_size_and_with_slower_channels(opcode: str, algorithm: str) -> None:
    sizes = [0, 1, 1 << 10, 1 << 16, 1 << 20, 1 << 26]
    times = [cost(opcode, algorithm, 8, size) for size in sizes]
    assert times == sorted(times)
    assert times[0] > 0
    slow = Network.parse(f"2 nodes of 4, inside 2us 1GB/s, between 9us 1GB/s, {algorithm}")
    assert seconds_of(opcode, 1e6, Placement(8, 4, 1), slow)[0] > cost(opcode, algorithm, 8, 1e6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_a_device_alone_pays_nothing(opcode: str, algorithm: str) -> None:
    assert cost(opcode, algorithm, 1, 1e9) == 0


def test_small_collectives_are_mostly_latency() -> None:
    network, placement = one_node(8, "ring"), Placement(8, 8, 0)
    assert seconds_of("all-gather", 10, placement, network)[1]
    assert not seconds_of("all-gather", 1e6, placement, network)[1]


def test_groups_share_the_channel_of_their_node() -> None:
    network = Network.parse("2 nodes of 4, inside 1us 100GB/s, between 1us 1GB/s, ring")
    # One group of all has one message that leaves each node in a round; four groups have four.
    (whole,) = phases_of("all-gather", "ring", 8, 1e6)
    assert phase_seconds(whole, Placement(8, 4, 1), network) == pytest.approx(7 * 1001 * MICRO)
    (pair,) = phases_of("all-gather", "ring", 2, 1e6)
    assert phase_seconds(pair, Placement(2, 1, 4), network) == pytest.approx(4001 * MICRO)


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize(
    "text",
    [
        "{} devices, inside 3us 2GB/s, {}",
        "{} nodes of 1, inside 1us 9GB/s, between 3us 2GB/s, {}",
    ],
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_the_simulation_is_the_formula(
    opcode: str, algorithm: str, text: str, devices: int
) -> None:
    network = Network.parse(text.format(devices, algorithm))
    local = devices if network.nodes == 1 else 1
    placement = Placement(devices, local, int(network.nodes > 1))
    phases = phases_of(opcode, algorithm, devices, 4e6)
    simulated = simulate(messages_of(phases, [range(devices)]), network)
    assert simulated == pytest.approx(seconds_of(opcode, 4e6, placement, network)[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("opcode", OPCODES)
def test_on_nodes_of_several_devices_the_formula_is_an_upper_bound(
    opcode: str, algorithm: str
) -> None:
    network = Network.parse(f"4 nodes of 4, inside 1us 10GB/s, between 5us 1GB/s, {algorithm}")
    groups = [range(first, 16, 4) for first in range(4)]
    phases = phases_of(opcode, algorithm, 4, 4e6)
    simulated = simulate(messages_of(phases, groups), network)
    formula = seconds_of(opcode, 4e6, Placement(4, 1, 4), network)[0]
    assert simulated <= formula * (1 + 1e-9)
    assert simulated > formula / 2


def test_messages_of_a_device_go_one_after_another() -> None:
    network = Network.parse("4 devices, inside 1us 1GB/s")
    # Two senders for one receiver: the second waits for the way in, not for the latency.
    assert simulate([[(0, 2, 1000.0), (1, 2, 1000.0)]], network) == pytest.approx(3e-6)
    assert simulate([[(0, 1, 1000.0), (2, 3, 1000.0)]], network) == pytest.approx(2e-6)
    assert simulate([], network) == 0
