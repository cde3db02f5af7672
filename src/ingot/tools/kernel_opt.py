# SPDX-License-Identifier: Apache-2.0
"""`ingot opt` on kernels: runs kernel passes on the text of kernels and prints the results.

A file holds one kernel, or several after their labels, as `ingot opt --stage=kernel` prints them.
Kernel passes are for loops; other kernels are printed unchanged.

Invariant: the printed text can be parsed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.client.compilation import default_context
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.kernel.ir import ConvolutionKernel, Kernel, LoopKernel, general_kernel
from ingot.kernel.parse import is_listing, parse_kernel, parse_kernels
from ingot.kernel.passes.pipeline import (
    KERNEL_PASSES,
    KernelPass,
    passes_for,
    run_kernel_passes,
)
from ingot.kernel.text import kernel_text
from ingot.support.diagnostics import ExecutionError
from ingot.support.records import replace
from ingot.support.text import did_you_mean
from ingot.tools.changes import Changes
from ingot.tools.passes import split_list

FORMAT = "kernel"
"""The options' name of the format."""

SUFFIX = ".kernel"
"""The suffix of files in this format."""


def optimized(text: str, source_name: str, passes: str, changes: Changes | None) -> str:
    """Return the text of kernels after passes.

    Args:
        text: the text of the kernels.
        source_name: its name in errors.
        passes: names, separated by commas; empty: the kernel passes of a compilation.
        changes: prints the changes of each pass.

    Raises:
        ParseError: the text is not that of kernels.
        ExecutionError: INGOT0520 there is no such pass.
        InternalError: INGOT0932 a pass left a kernel that is not valid.
    """
    chosen = [_kernel_pass(name.strip()) for name in split_list(passes)]
    context = replace(default_context(), verify_each=True)
    if changes is not None:
        context.dump = changes.see
    if not is_listing(text):
        return kernel_text(_run(parse_kernel(text, source_name), chosen, context, ""))
    kernels = parse_kernels(text, source_name)
    made = {name: _run(kernel, chosen, context, name) for name, kernel in kernels.items()}
    return "\n".join(f"{name}: {kernel_text(kernel)}" for name, kernel in made.items())


def summaries() -> Iterator[tuple[str, str]]:
    """Yield the name of each kernel pass and what it does."""
    for item in KERNEL_PASSES:
        yield item.name, (item.run.__doc__ or "").strip().split("\n")[0]


def _kernel_pass(name: str) -> KernelPass:
    known = {item.name: item for item in KERNEL_PASSES}
    if name not in known:
        raise ExecutionError(
            f"there is no kernel pass '{name}'",
            code="INGOT0520",
            hint=did_you_mean(name, known) or f"these are all: {', '.join(known)}",
        )
    return known[name]


def _run(kernel: Kernel, chosen: list[KernelPass], context: PassContext, label: str) -> Kernel:
    is_convolution = isinstance(kernel, ConvolutionKernel)
    loops = general_kernel(kernel)
    if not isinstance(loops, LoopKernel):
        return kernel
    passes = chosen or passes_for(is_convolution)
    made = run_kernel_passes(loops, context, passes=passes, label=label)
    return replace(kernel, general=made) if is_convolution else made
