# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that run a module: how to read it, what to run it on, how to compare.

`run`, `bisect`, `diff` and `reduce` use it. `module_options` adds the options to a command, which
gets them as one `ModuleOptions` named `given`. Invariant: the same options give the same inputs in
every command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

import click

from ingot.evaluator import Value
from ingot.formats.hlo_proto import parse_snapshot
from ingot.frontends.loading import is_exported_file, load_exported_file
from ingot.hlo.literal import Array
from ingot.hlo.module import Module
from ingot.semantics.device_groups import MOST_DEVICES, grid_of
from ingot.support.diagnostics import ArgumentError
from ingot.support.records import record
from ingot.tools.programs import loading
from ingot.tools.programs.cases import inputs_in
from ingot.tools.programs.comparing import Bounds
from ingot.tools.programs.inputs import LARGE, NORMAL, ZEROS, random_inputs, symbols
from ingot.tools.programs.literals import as_arguments, leaves, read_iterations

DEFAULT_SIZE = 4
"""The value of a symbolic size that `--size` does not name."""
_MOST_DIGITS = 18
COMMENT = b"//"
Command = TypeVar("Command", bound=Callable[..., Any])


@record
class ModuleOptions:
    """The values of the options.

    Attributes:
        seed: the seed of the first inputs; each further iteration takes the next number.
        bounds: the allowed errors.
        sizes: values of symbolic sizes.
        inputs: file of literals to run on instead of random inputs, or nothing.
        input_format: format of the modules, or nothing to find it out.
        floats: the distribution of random floats: a name of `inputs`.
        replicas: the number of replicas; 0 for that of the module's header.
        partitions: the number of partitions; 0 for that of the module's header.
        noted: inputs in the files that were read: a snapshot's arguments, or those in the comments
            of a text (`cases`).
    """

    seed: int
    bounds: Bounds
    sizes: dict[str, int]
    inputs: str
    input_format: str
    floats: str = NORMAL
    replicas: int = 0
    partitions: int = 0
    noted: dict[Module, list[Array]] = field(default_factory=dict[Module, list[Array]])

    def load(self, path: str) -> Module:
        """Return the module in a file, for the grid of devices of the options."""
        if not self.input_format and is_exported_file(path):
            return self._on_grid(load_exported_file(path))
        return self.load_data(loading.read_bytes(path), path)

    def load_data(self, data: bytes, path: str) -> Module:
        """Return the module in data; inputs that it holds are those of `inputs_of`."""
        if loading.is_proto(data, self.input_format):
            snapshot = parse_snapshot(data)
            if snapshot.arguments:
                arguments = snapshot.arguments
                self.noted[snapshot.module] = [leaf for one in arguments for leaf in leaves(one)]
            return self._on_grid(snapshot.module)
        module = loading.load_data(data, path, self.input_format)
        if data.startswith(COMMENT):
            self.noted[module] = inputs_in(data.decode("utf-8", "surrogateescape"), path)
        return self._on_grid(module)

    def _on_grid(self, module: Module) -> Module:
        """Return a module with the options' numbers of devices in its header."""
        for name, count in (("replica_count", self.replicas), ("num_partitions", self.partitions)):
            if count:
                module.extra[name] = str(count)
        return module

    def inputs_of(self, module: Module, iteration: int = 0) -> list[list[Value]]:
        """Return the inputs of each device in an iteration: those of a file, or random ones.

        Those of `--input-literals-file` take precedence over those in the module's file.
        """
        devices = grid_of(module).devices
        if self.inputs:
            given = read_iterations(self.inputs)
            row = as_arguments(module, given[iteration % len(given)], self.inputs)
            return [row] * devices
        noted = self.noted.get(module)
        if noted:
            return [as_arguments(module, noted, "the module's file")] * devices
        names = symbols(module)
        for name in self.sizes:
            if name not in names:
                raise ArgumentError(
                    f"--size={name}=...: the module has no symbolic size '{name}'",
                    hint=f"it has {', '.join(sorted(names)) or 'none'}",
                )
        sizes = dict.fromkeys(names, DEFAULT_SIZE) | self.sizes
        seeds = range(self.seed + iteration * devices, self.seed + (iteration + 1) * devices)
        return [random_inputs(module, seed, sizes, self.floats) for seed in seeds]


def module_options(command: Command) -> Command:
    """Add the options to a command; stands under `click.command`, above its own options."""

    @functools.wraps(command)
    def call(
        *arguments: Any,
        random_seed: int,
        abs_error_bound: float,
        rel_error_bound: float,
        size: dict[str, int],
        input_literals_file: str,
        input_format: str | None,
        random_init_input_literals: bool,
        use_large_float_range: bool,
        num_replicas: int,
        num_partitions: int,
        **others: Any,
    ) -> Any:
        floats = LARGE if use_large_float_range else NORMAL
        given = ModuleOptions(
            random_seed,
            Bounds(abs_error_bound, rel_error_bound),
            size,
            input_literals_file,
            input_format or "",
            floats if random_init_input_literals else ZEROS,
            num_replicas,
            num_partitions,
        )
        return command(*arguments, given=given, **others)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call  # pyright: ignore[reportReturnType]  (click keeps the type)


def _read_sizes(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, int]:
    """Return the sizes of texts `NAME=NUMBER`."""
    sizes: dict[str, int] = {}
    for text in given:
        name, sign, number = text.partition("=")
        if not sign or not number.isdecimal() or len(number) > _MOST_DIGITS:
            raise click.BadParameter(f"'{text}' is not NAME=NUMBER", ctx=context, param=option)
        sizes[name.lstrip("?")] = int(number)
    return sizes


def switch(name: str, help_text: str, *, default: bool = False) -> Callable[[Any], Any]:
    """Return an option that is on or off: `--name`, `--no-name`; `cli` takes `--name=false` too."""
    return click.option(f"{name}/--no-{name[2:]}", default=default, help=help_text)


_OPTIONS = (
    click.option("--random-seed", type=click.IntRange(0), default=42, show_default=True,
                 help="Seed of random inputs."),
    click.option("--abs-error-bound", default=1e-3, show_default=True),
    click.option("--rel-error-bound", default=1e-3, show_default=True),
    click.option("--size", multiple=True, callback=_read_sizes, metavar="NAME=NUMBER",
                 help=f"A symbolic size; default {DEFAULT_SIZE}."),
    click.option("--input-literals-file", default="",
                 help="Inputs: .npz, .npy, .pb (protos, snapshots) or HLO literals."),
    switch("--random-init-input-literals", "Random inputs; else zeros.", default=True),
    switch("--use-large-float-range", "Random floats of every magnitude."),
    click.option("--num-replicas", type=click.IntRange(0, MOST_DEVICES), default=0,
                 help="Replicas that run the module; default: its header."),
    click.option("--num-partitions", type=click.IntRange(0, MOST_DEVICES), default=0,
                 help="Partitions that run the module; default: its header."),
    click.option("--input-format", type=click.Choice(loading.INPUT_FORMATS),
                 help="Default: by data."),
)  # fmt: skip
