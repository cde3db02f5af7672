"""Options of the commands that run a module: how to read it, what to run it on, how to compare.

Beneath `run` and `bisect`. `module_options` adds the options to a command, which gets them as one
`ModuleOptions` named `given`. Invariant: the same options give the same inputs in every command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ingot.evaluator import Value
from ingot.hlo.module import Module
from ingot.tools import loading
from ingot.tools.comparing import Bounds
from ingot.tools.inputs import random_inputs, symbols
from ingot.tools.literals import as_arguments, read_literals

DEFAULT_SIZE = 4
"""A symbolic size that `--size` does not name."""
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ModuleOptions:
    """What the options say.

    Attributes:
        seed: of the first inputs; each further iteration takes the next number.
        bounds: errors that are allowed.
        sizes: values of symbolic sizes.
        inputs: file of literals to run on instead of random inputs, or nothing.
        input_format: format of the modules, or nothing to find it out.
    """

    seed: int
    bounds: Bounds
    sizes: dict[str, int]
    inputs: str
    input_format: str

    def inputs_of(self, module: Module, iteration: int = 0) -> list[Value]:
        """Return the inputs of an iteration: those of the file, or random ones."""
        if self.inputs:
            return as_arguments(module, read_literals(self.inputs), self.inputs)
        sizes = dict.fromkeys(symbols(module), DEFAULT_SIZE) | self.sizes
        return random_inputs(module, self.seed + iteration, sizes)


def module_options(command: Command) -> Command:
    """Add the options to a command; beneath `click.command`, above the command's own options."""

    @functools.wraps(command)
    def call(
        *arguments: Any,
        random_seed: int,
        abs_error_bound: float,
        rel_error_bound: float,
        size: dict[str, int],
        input_literals_file: str,
        input_format: str | None,
        **others: Any,
    ) -> Any:
        bounds = Bounds(abs_error_bound, rel_error_bound)
        given = ModuleOptions(random_seed, bounds, size, input_literals_file, input_format or "")
        return command(*arguments, given=given, **others)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call  # pyright: ignore[reportReturnType]  (click keeps the type)


def _read_sizes(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, int]:
    """Return the sizes that `NAME=NUMBER` says."""
    sizes: dict[str, int] = {}
    for text in given:
        name, sign, number = text.partition("=")
        if not sign or not number.isdigit():
            raise click.BadParameter(f"'{text}' is not NAME=NUMBER", ctx=context, param=option)
        sizes[name.lstrip("?")] = int(number)
    return sizes


_OPTIONS = (
    click.option("--random-seed", default=42, show_default=True, help="Seed of random inputs."),
    click.option("--abs-error-bound", default=1e-3, show_default=True),
    click.option("--rel-error-bound", default=1e-3, show_default=True),
    click.option("--size", multiple=True, callback=_read_sizes, metavar="NAME=NUMBER",
                 help=f"A symbolic size; default {DEFAULT_SIZE}."),
    click.option("--input-literals-file", default="", help="Inputs: .npz, .npy or HLO literals."),
    click.option("--input-format", type=click.Choice(loading.INPUT_FORMATS),
                 help="Default: by data."),
)  # fmt: skip
