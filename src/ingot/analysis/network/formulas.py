# SPDX-License-Identifier: Apache-2.0
"""Formulas: the rounds of messages of each collective, by algorithm, and their time.

An algorithm is a few phases. In each round of a phase every device of the group sends one message
of equal size. The time of a phase is that of its rounds one after another; if the group lies on
several nodes, it is at least the time of a node's channel.

Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
MPICH", 2005 (ring, recursive doubling and halving, pairwise exchange); Bruck et al., "Efficient
algorithms for all-to-all communications", 1997; Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", 2009 (ring all-reduce); Rabenseifner, "Optimization of
collective reduction operations", 2004 (all-reduce as reduce-scatter and all-gather).

Example: 4 devices reduce 4 MB round a ring: 6 rounds of 1 MB.
    >>> phases_of("all-reduce", "ring", 4, 4e6)
    (3 ring of 1000000, 3 ring of 1000000)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingot.analysis.network.description import Network
from ingot.semantics.device_groups import folds_parts

RING, PAIRS, LEAP, FAN = "ring", "pairs", "leap", "fan"


class Phase(NamedTuple):
    """Rounds of messages.

    Attributes:
        pattern: who sends to whom: `ring`, each to the next one; `pairs`, in round r each to the
            r-th after it; `leap`, each to the one `distance` after it; `fan`, the first one to each
            other, one after another.
        rounds: how many.
        size: bytes of each message.
        distance: that of a `leap`.
    """

    pattern: str
    rounds: int
    size: float
    distance: int = 1

    def __repr__(self) -> str:
        distance = f" {self.distance}" if self.pattern == LEAP else ""
        return f"{self.rounds} {self.pattern}{distance} of {self.size:.0f}"


class Placement(NamedTuple):
    """Where groups lie.

    Attributes:
        size: devices of a group.
        local: devices of a group on one node, at most.
        sharing: groups that use the channel of one node, at most; 0 if each lies on one node.
    """

    size: int
    local: int
    sharing: int


Phases = tuple[Phase, ...]


def _gather(pattern: str) -> Callable[[int, float], Phases]:
    return lambda n, size: (Phase(pattern, n - 1, size),)


def _parts(pattern: str) -> Callable[[int, float], Phases]:
    return lambda n, size: (Phase(pattern, n - 1, size / n),)


def _leaps(n: int) -> list[int]:
    """Return the distances 1, 2, 4, ... below `n`."""
    return [1 << k for k in range((n - 1).bit_length())]


def _gather_tree(n: int, size: float) -> Phases:
    """Recursive doubling: all-gather of `size` bytes of each; the rest is sent last."""
    return tuple(Phase(LEAP, 1, size * min(leap, n - leap), leap) for leap in _leaps(n))


def _scatter_tree(n: int, size: float) -> Phases:
    """Recursive halving, the reverse of `_gather_tree`."""
    return tuple(reversed(_gather_tree(n, size / n)))


def _reduce_ring(n: int, size: float) -> Phases:
    return (Phase(RING, n - 1, size / n), Phase(RING, n - 1, size / n))


def _reduce_direct(n: int, size: float) -> Phases:
    """Return Ingot's own: small operands are gathered, large ones exchanged by parts."""
    if folds_parts(size, n):
        return (Phase(PAIRS, n - 1, size / n), Phase(PAIRS, n - 1, size / n))
    return (Phase(PAIRS, n - 1, size),)


def _reduce_tree(n: int, size: float) -> Phases:
    """Rabenseifner's: recursive halving, then recursive doubling."""
    return (*_scatter_tree(n, size), *_gather_tree(n, size / n))


def _exchange_tree(n: int, size: float) -> Phases:
    """Bruck's: in each round half of the parts go on, at most."""
    return tuple(Phase(LEAP, 1, size / n * min(n // 2, n - leap), leap) for leap in _leaps(n))


def _broadcast_tree(n: int, size: float) -> Phases:
    """Return a binomial tree."""
    return tuple(Phase(LEAP, 1, size, leap) for leap in reversed(_leaps(n)))


FORMULAS: dict[tuple[str, str], Callable[[int, float], Phases]] = {
    ("all-gather", "direct"): _gather(PAIRS),
    ("all-gather", "ring"): _gather(RING),
    ("all-gather", "tree"): _gather_tree,
    ("all-reduce", "direct"): _reduce_direct,
    ("all-reduce", "ring"): _reduce_ring,
    ("all-reduce", "tree"): _reduce_tree,
    ("all-to-all", "direct"): _parts(PAIRS),
    ("all-to-all", "ring"): _parts(PAIRS),
    ("all-to-all", "tree"): _exchange_tree,
    ("collective-broadcast", "direct"): _gather(FAN),
    ("collective-broadcast", "ring"): _gather(FAN),
    ("collective-broadcast", "tree"): _broadcast_tree,
    ("reduce-scatter", "direct"): _parts(PAIRS),
    ("reduce-scatter", "ring"): _parts(RING),
    ("reduce-scatter", "tree"): _scatter_tree,
}
"""Phases by opcode and algorithm, of `n` devices with operands of `size` bytes each."""


def phases_of(opcode: str, algorithm: str, devices: int, size: float) -> Phases:
    """Return the phases of a collective of `devices` devices; none if the device is alone.

    `opcode` and `algorithm` are a key of `FORMULAS`; `size` is bytes of one device's operand.
    """
    return FORMULAS[opcode, algorithm](devices, size) if devices > 1 else ()


def phase_seconds(phase: Phase, placement: Placement, network: Network) -> float:
    """Return the time of a phase.

    With latency a, bandwidth B inside and B' between nodes, and messages of b bytes, r rounds take
    `r a + max(r b / B, f b / B')`, where f messages of all rounds leave the same node.
    """
    rounds, size = phase.rounds, phase.size
    leaving = _leaving(phase, placement)
    if not leaving:
        return rounds * network.inside.seconds(size)
    inside = rounds * size / network.inside.bytes_per_second
    between = leaving * size / network.between.bytes_per_second
    return rounds * network.between.latency + max(inside, between)


def _leaving(phase: Phase, placement: Placement) -> int:
    """Return how many messages of all rounds leave one node, at most."""
    n, local, sharing = placement
    if phase.pattern == RING:
        return phase.rounds * sharing
    if phase.pattern == LEAP:
        return min(phase.distance, local) * sharing
    return (local if phase.pattern == PAIRS else 1) * (n - local) * sharing


def seconds_of(
    opcode: str, size: float, placement: Placement, network: Network
) -> tuple[float, bool]:
    """Return the time of a collective, and whether latency is most of it.

    Args:
        opcode: that of `FORMULAS`.
        size: bytes of one device's operand.
        placement: where its groups lie.
        network: the network, with the algorithm.
    """
    phases = phases_of(opcode, network.algorithm, placement.size, size)
    total = sum(phase_seconds(phase, placement, network) for phase in phases)
    empty = [phase._replace(size=0.0) for phase in phases]
    latency = sum(phase_seconds(phase, placement, network) for phase in empty)
    return total, latency > total / 2
