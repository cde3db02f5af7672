# SPDX-License-Identifier: Apache-2.0
"""The page that lists XLA's passes beside ours names passes that there are, and leaves none out."""

from __future__ import annotations

import re
from pathlib import Path

from ingot.tools.passes import registry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "xla_passes.md"
OWN = frozenset(
    {
        "all-reduce-code-motion",  # XLA:GPU's
        "attention-fusion",
        "async-to-sync",  # XLA:CPU's emitter does it
        "complex-expander",
        "depthwise-strips",
        "defuser",  # XLA takes dumped fusions as they are
        "domain_remover",  # run by the partitioner there
        "dot-strength-reduction",  # XLA's is of algsimp, off on CPU
        "feed-expander",
        "fft-lengths",
        "grouped-filter-gradients",
        "hlo-memory-scheduler",
        "latency-hiding-scheduler",  # XLA:GPU's; the runtime of XLA:CPU runs what is ready
        "mulhi-expander",
        "pair-reductions",
        "ragged-dot-rewriter",
        "reducer-expander",
        "scaled-dot-rewriter",
        "scan_expander",
        "send-recv-to-permute",
        "separable-windows",
        "split-updates",
        "while-loop-all-reduce-code-motion",  # XLA:GPU's
        "while-loop-dot-code-motion",
        "while-loop-product-layout",
        "while-loop-stack-motion",
        "wide-concatenates",
    }
)
"""Passes of ours that XLA:CPU's pipeline has no counterpart of."""


def test_the_page_names_passes_that_there_are() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    ours = " ".join(row.split("|")[2] for row in rows)
    named = {name for name in re.findall(r"`([a-z_-]+)`", ours) if re.search("[-_]", name)}
    # Passes that other tests define are known too, where they ran in this process.
    passes = {n for n, found in registry().items() if found.__module__.startswith("ingot.")}
    known = passes | {"bitcast-convert"}
    assert named <= known, f"no passes: {named - known}"
    mentioned = set(re.findall(r"`([a-z_-]+)`", ours)) | OWN
    assert passes <= mentioned, f"not on the page: {passes - mentioned}"
