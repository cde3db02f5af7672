# SPDX-License-Identifier: Apache-2.0
"""`ingot translate`: a module from one format into another.

HLO text, `HloModuleProto`, HLO snapshots both ways; StableHLO (MLIR text, bytecode, portable
artifacts) in.
"""

from __future__ import annotations

import click

from ingot.formats.load import dump
from ingot.hlo.verifier import verify
from ingot.tools.programs import loading


@click.command(name="translate")
@click.argument("file")
@click.option("--from", "source", type=click.Choice(loading.INPUT_FORMATS),
              help="Format of FILE; default: found out from the data.")  # fmt: skip
@click.option("--to", "target", type=click.Choice(loading.OUTPUT_FORMATS), default="hlo_text",
              show_default=True, help="Format to write.")  # fmt: skip
@click.option("-o", "--output", help="File to write; default: standard output.")
def command(file: str, source: str | None, target: str, output: str | None) -> int:
    """Convert the module in FILE (- is standard input) to another format."""
    module = loading.load(file, source or "")
    verify(module)
    loading.write_bytes(dump(module, loading.format_of(target)), output)
    return 0
