# SPDX-License-Identifier: Apache-2.0
"""`ingot opt`: runs passes, or the pipeline up to a stage, on a module and prints the result.

It does what hlo-opt does. `--passes` runs exactly these passes, in order; `--stage` compiles for a
platform and prints the program at a stage; without either, the module after all HLO passes is
printed. Kernels, as text, go through kernel passes (`tools.kernel_opt`).
"""

from __future__ import annotations

import sys
from typing import cast

import click
from rich.console import Console
from rich.table import Table

from ingot.client.compilation import default_context
from ingot.client.compile import compile
from ingot.client.executables.executable import Executable
from ingot.client.executables.inspected_stages import stages_refused
from ingot.client.executables.staged import StagedExecutable
from ingot.client.options import STAGES, Stage
from ingot.client.reports.dump import AFTER, BEFORE, Dump
from ingot.formats.hlo_text import parse, print_module
from ingot.formats.load import dump
from ingot.gpu.kernels import STAGES as GPU_STAGES
from ingot.gpu.kernels import text_of
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pipeline
from ingot.hlo.rewrite.runner import run_passes
from ingot.hlo.verifier import verify
from ingot.support.xla_flags import current_xla_flags
from ingot.tools.changes import Changes, See, seeing
from ingot.tools.kernel_opt import FORMAT, SUFFIX, optimized, summaries
from ingot.tools.passes import make, option_text, options_of, registry, split_list, summary
from ingot.tools.programs import loading
from ingot.tools.programs.options import switch

XLA_STAGES: dict[str, Stage] = {
    "hlo-backend": "hlo",
    "llvm-before-optimizations": "llvm",
    "buffer-assignment": "buffers",
}
"""The names of stages in XLA's hlo-opt -> our nearest stage."""
HLO_STAGES = ("hlo_before", "hlo", "fusions", "rewrites")
"""Stages that kernel passes have no part in."""
SEPARATOR = "// -----"

LOGS = {"fusions": "fusion_log", "rewrites": "rewrites"}
"""Stages that are not the program but a log of decisions."""


@click.command(name="opt")
@click.argument("file", required=False)
@click.option("--passes", default="", metavar="A,B{OPTION=VALUE}", help="Passes, in order.")
@switch("--list-passes", "List every pass with its options.")
@click.option(
    "--stage", type=click.Choice([*STAGES, *GPU_STAGES, *LOGS, *XLA_STAGES]), help="Stage to print."
)
@switch("--list-stages", "List the stages.")
@click.option("--platform", type=click.Choice(["cpu"]), default="cpu", help="Compile for this.")
@click.option("--input-format", "--format", type=click.Choice([*loading.INPUT_FORMATS, FORMAT]),
              help="Default: by data.")  # fmt: skip
@switch("--split-input-file", f"Several modules, with '{SEPARATOR}' between them.")
@switch("--emit-proto", "Write an HloModuleProto, not text.")
@click.option("--no-metadata", is_flag=True, help="Leave metadata={...} out of HLO text.")
@switch("--print-changed", "Print what each pass changes, as a unified diff, before the result.")
@click.option("-o", "--output", type=click.Path(), help="File to write; default: print.")
@click.pass_context
def command(
    context: click.Context,
    file: str | None,
    passes: str,
    list_passes: bool,
    stage: str | None,
    list_stages: bool,
    platform: str,
    input_format: str | None,
    split_input_file: bool,
    emit_proto: bool,
    no_metadata: bool,
    print_changed: bool,
    output: str | None,
) -> int:
    """Run passes or the pipeline up to a stage on the module in FILE (- is standard input).

    A FILE of kernels (NAME.kernel, or --format=kernel) goes through kernel passes.
    """
    if list_passes or list_stages:
        _list(list_passes)
        return 0
    if file is None:
        context.fail("give the FILE of a module; - is standard input")
    if input_format == FORMAT or (not input_format and file.endswith(SUFFIX)):
        if stage or emit_proto or split_input_file:
            context.fail("kernels have --passes, neither --stage, --emit-proto nor parts")
        _optimize_kernels(file, passes, print_changed, output)
        return 0
    if passes and stage:
        context.fail("--passes and --stage exclude each other")
    stage = XLA_STAGES.get(stage or "", stage)
    for flag, given in (("--emit-proto", emit_proto), ("--no-metadata", no_metadata)):
        if given and stage not in (None, "hlo", "hlo_before"):
            context.fail(f"{flag} is for HLO, not for the stage {stage}")
    if emit_proto and split_input_file:
        context.fail("--emit-proto and --split-input-file exclude each other")
    modules = _modules(file, input_format or "", split_input_file)
    stage = stage or "hlo"
    changes = Changes(of_kernels=stage not in HLO_STAGES) if print_changed else None
    texts = [_text(module, passes, stage, not no_metadata, changes) for module in modules]
    if emit_proto:
        loading.write_bytes(dump(parse(texts[0]), "hlo_proto"), output)
    else:
        whole = f"\n{SEPARATOR}\n".join(text.rstrip("\n") for text in texts)
        loading.write_bytes(whole.encode("utf-8", "surrogateescape") + b"\n", output)
    return 0


def _list(passes: bool) -> None:
    """Print the passes, or else the stages."""
    if passes:
        show_passes()
    else:
        click.echo("\n".join([*STAGES, *GPU_STAGES, *LOGS]))


def _optimize_kernels(file: str, passes: str, print_changed: bool, output: str | None) -> None:
    """Run kernel passes on the kernels in a file."""
    text = loading.read_bytes(file).decode("utf-8", "surrogateescape")
    made = optimized(text, file, passes, Changes(of_kernels=True) if print_changed else None)
    loading.write_bytes(made.encode("utf-8", "surrogateescape"), output)


def _modules(file: str, input_format: str, split: bool) -> list[Module]:
    """Return the module in a file, or those between separators."""
    if not split:
        return [loading.load(file, input_format)]
    parts = loading.read_bytes(file).decode("utf-8", "surrogateescape").split(SEPARATOR)
    return [loading.load_text(part, file, input_format) for part in parts if part.strip()]


def _text(
    module: Module, passes: str, stage: str, with_metadata: bool, changes: Changes | None
) -> str:
    """Return the text that the options ask for, of one module."""
    if passes:
        run_some(module, passes, None if changes is None else changes.see)
        text = print_module(module)
    elif changes is None:
        text = at_stage(compile(module), stage)
    else:
        text = at_stage(compile(module, context=seeing(changes.see, default_context())), stage)
    return text if with_metadata else print_module(parse(text), with_metadata=False)


def run_some(module: Module, passes: str, see: See | None) -> None:
    """Run the passes of a text such as `a,b{option=value}`; dumps show them as a pipeline.

    Args:
        module: the module, which is changed.
        passes: names and options.
        see: called with the module before the first pass, and after each that changed it.
    """
    chosen = tuple(make(name) for name in split_list(passes))
    verify(module)
    dump = Dump(module.name, current_xla_flags())
    dump.module(BEFORE, module)
    context = default_context()
    if dump.active:
        context.dump = dump.stage
    if see is not None:
        context = seeing(see, context)
    run_passes(Pipeline("opt", chosen), module, context)
    dump.module(AFTER, module)


def at_stage(executable: Executable | StagedExecutable, stage: str) -> str:
    """Return the text of a stage.

    Raises:
        UnsupportedError: a stage of GPU code, and there is none for one of the kernels.
    """
    if stage in GPU_STAGES:
        if isinstance(executable, StagedExecutable):
            hint = "give its arrays sizes that do not depend on data"
            raise stages_refused(executable.source, "on a GPU", hint)
        return text_of(executable.module, stage)
    if stage in LOGS:
        return "".join(f"{line}\n" for line in getattr(executable, LOGS[stage]))
    return executable.as_text(cast("Stage", stage))


def show_passes() -> None:
    """Print the registry of passes, and the kernel passes after them."""
    table = Table(box=None, pad_edge=False)
    for title in ("pass", "options", "what it does"):
        table.add_column(title)
    for name, found in registry().items():
        table.add_row(name, ", ".join(map(option_text, options_of(found))), summary(found))
    for name, text in summaries():
        table.add_row(name, "", f"On kernels: {text[0].lower()}{text[1:]}")
    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False, markup=False).print(table)
