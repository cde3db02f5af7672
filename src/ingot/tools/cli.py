# SPDX-License-Identifier: Apache-2.0
"""The command line: subcommands on demand, errors as diagnostics, exit statuses.

Exit status 0: done; 1: the input is wrong, or results differ; 2: the command line is wrong.
Flags may be written with dashes or, as XLA's tools write them, with underscores and as
`--flag=true`; `--xla_*` flags count as if they were in `XLA_FLAGS`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ingot.support.diagnostics import IngotError
from ingot.support.flags import unknown_variables
from ingot.support.text import did_you_mean
from ingot.support.xla_flags import VARIABLE
from ingot.tools import COMMANDS


class CommandGroup(click.Group):
    """Loads the file of a subcommand when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand."""
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(f"ingot.tools.{cmd_name}").command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; the error for an unknown one suggests the nearest."""
        if args and args[0] not in COMMANDS:
            hint = did_you_mean(args[0], COMMANDS) or f"commands: {', '.join(COMMANDS)}"
            ctx.fail(f"there is no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
def ingot() -> None:
    """Compile, run and look into HLO programs."""


def with_dashes(arguments: Sequence[str]) -> list[str]:
    """Return arguments with XLA's spellings of flags (`--random_seed`, `--x=false`) made ours."""
    made: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == "--":
            return [*made, *arguments[number:]]
        flag, sign, value = argument.partition("=")
        if not flag.startswith("--"):
            made.append(argument)
        elif value in ("true", "false"):
            made.append(("--" if value == "true" else "--no-") + flag[2:].replace("_", "-"))
        else:
            made.append(flag.replace("_", "-") + sign + value)
    return made


def without_xla_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that are not flags of XLA itself, and add those to `XLA_FLAGS`."""
    given = [argument for argument in arguments if argument.startswith("--xla_")]
    if given:
        os.environ[VARIABLE] = " ".join([os.environ.get(VARIABLE, ""), *given]).strip()
    return [argument for argument in arguments if argument not in given]


def main(arguments: Sequence[str]) -> int:
    """Run a subcommand; return the exit status."""
    ours = with_dashes(without_xla_flags(arguments))
    for text in unknown_variables():
        print(f"warning: {text}", file=sys.stderr)
    try:
        status: Any = ingot.main(ours, prog_name="ingot", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 1
    except IngotError as error:
        text = error.diagnostic.render()  # It may show bytes of a file that are no UTF-8.
        print(text.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
        return 1
    except BrokenPipeError:  # `ingot opt … | head`
        sys.stderr.close()
        return 0
    return status if isinstance(status, int) else 0
