# SPDX-License-Identifier: Apache-2.0
"""`ingot pjrt`: writes the PJRT plugin as a shared library, for hosts that load C libraries."""

from __future__ import annotations

from pathlib import Path

import click

from ingot.client.pjrt.library import write_library


@click.command(name="pjrt")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("libingot_pjrt.so"),
    show_default=True,
    help="File to write.",
)
def command(output: Path) -> None:
    """Write a shared library that exports GetPjrtApi.

    It loads this Python, so it works as long as this installation stays where it is.
    """
    size = write_library(output)
    click.echo(f"{output}: {size} bytes, exports GetPjrtApi")
