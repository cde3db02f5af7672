# SPDX-License-Identifier: Apache-2.0
"""What is known of a program: what Ingot made of it, and what was measured on all engines.

Plain data: a worker makes it, the main process shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a whole run gave.

    Attributes:
        quality: held-out accuracy, or for `fused_reduce` the relative error.
        losses: the loss of each step.
        seconds: of the whole run, tracing and compiling included.
    """

    quality: float
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(slots=True)
class Measured:
    """Numbers by engine.

    Attributes:
        engines: their names; the first one is Ingot.
        first_calls: seconds of "trace" and of the "first" call.
        steps: seconds per step, one number for each round.
        outcomes: what a whole run gave.
    """

    engines: tuple[str, ...]
    first_calls: dict[str, dict[str, float]] = field(default_factory=dict)
    steps: dict[str, list[float]] = field(init=False)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = {engine: [] for engine in self.engines}

    def ratio(self, engine: str) -> float:
        """Return how many times longer a step takes than Ingot's: the median of the rounds."""
        pairs = zip(self.steps[engine], self.steps[self.engines[0]], strict=True)
        return median(theirs / ours for theirs, ours in pairs)

    def compile_seconds(self, engine: str) -> float:
        """Return what the first call took beyond a step."""
        return self.first_calls[engine]["first"] - median(self.steps[engine])


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel call: what it computes, whose lines those are, what it moves."""

    kind: str
    opcodes: tuple[str, ...]
    lines: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    flops: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one compiled function.

    Attributes:
        ops: TensorFlow ops in the traced graph, called functions included.
        unfused_bytes: what those ops read and write, one by one.
        instructions: HLO instructions before the passes.
        kernels: in the order in which they run.
        copies: copies beside the kernels, and the bytes that each one moves.
        decisions: for each edge between instructions, whether it was fused and why.
        texts: the program at each stage that the demo shows.
    """

    ops: int
    unfused_bytes: int
    instructions: int
    kernels: tuple[Kernel, ...]
    copies: tuple[int, ...]
    decisions: tuple[str, ...]
    texts: dict[str, str]

    @property
    def bytes_read(self) -> int:
        """Bytes read per step."""
        return sum(kernel.bytes_read for kernel in self.kernels) + sum(self.copies)

    @property
    def bytes_written(self) -> int:
        """Bytes written per step."""
        return sum(kernel.bytes_written for kernel in self.kernels) + sum(self.copies)

    @property
    def flops(self) -> int:
        """Arithmetic operations per step."""
        return sum(kernel.flops for kernel in self.kernels)

    def reasons(self) -> list[tuple[str, int]]:
        """Return the decisions without the names, with how often each was taken."""
        decisions = (re.sub(r"^%\S+ (.*fused) into \S+:", r"\1:", text) for text in self.decisions)
        return Counter(decisions).most_common()
