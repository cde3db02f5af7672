# SPDX-License-Identifier: Apache-2.0
"""XLA's own flags in `XLA_FLAGS` that Ingot honours, so that habits and scripts still work.

`_SETTINGS` lists the flags that do something here, `_WITHOUT_EFFECT` those that are accepted
because they ask for what Ingot does anyway. Any other flag is an error with the nearest known
name, but only when at least one flag is for Ingot: an `XLA_FLAGS` full of flags of another
XLA in the same process is not ours to judge.

Syntax as in XLA (`xla/parse_flags_from_env.cc`): flags separated by blanks, values may be quoted,
a Boolean may stand bare, and a value that does not start with `-` names a file holding the flags.

Example:
    >>> parse("--xla_dump_to=/tmp/x --xla_disable_hlo_passes=cse,dce").disable_hlo_passes
    ('cse', 'dce')
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingot.support import flags
from ingot.support.diagnostics import FlagError
from ingot.support.records import record
from ingot.support.text import did_you_mean

VARIABLE = "XLA_FLAGS"
STANDARD_OUTPUT = "-"


@record
class XlaFlags:
    """The values in force; the field names are XLA's without the prefix `xla_`."""

    dump_to: str = ""
    dump_hlo_as_text: bool = False
    dump_hlo_as_long_text: bool = False
    dump_hlo_as_proto: bool = False
    dump_hlo_as_dot: bool = False
    dump_hlo_as_html: bool = False
    dump_hlo_snapshots: bool = False
    dump_hlo_pass_re: str = ""
    dump_hlo_pipeline_re: str = ""
    dump_hlo_module_re: str = ""
    dump_max_hlo_modules: int = 0
    dump_include_timestamp: bool = False
    dump_compress_protos: bool = False
    disable_hlo_passes: tuple[str, ...] = ()
    force_host_platform_device_count: int = 1

    @property
    def dump_folder(self) -> str:
        """Where dumps go: a folder, `-` for standard output (a format, no folder), "" for none."""
        graphs = self.dump_hlo_as_dot or self.dump_hlo_as_html
        asks_for_format = self.dump_hlo_as_text or self.dump_hlo_as_long_text or graphs
        return self.dump_to or (STANDARD_OUTPUT if asks_for_format else "")

    def dumps_module(self, name: str) -> bool:
        """Return whether the module called `name` is dumped."""
        return bool(self.dump_folder) and re.search(self.dump_hlo_module_re, name) is not None

    def dumps_pass(self, name: str, pipeline: str = "") -> bool:
        """Return whether modules are dumped around the pass called `name` of a pipeline.

        If only one of the two expressions is set, it must match; if both are set, both must.
        """
        patterns = ((self.dump_hlo_pass_re, name), (self.dump_hlo_pipeline_re, pipeline))
        asked = [(pattern, text) for pattern, text in patterns if pattern]
        return bool(asked) and all(re.search(pattern, text) for pattern, text in asked)


def boolean(text: str) -> bool:
    """Return the value of a Boolean flag; a bare flag is true."""
    values = {"": True, "true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ValueError("it takes true or false")
    return values[text.lower()]


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError("it takes a whole number from 1 on")
    return int(text)


def whole_number(text: str) -> int:
    """Return the number in a flag's text; ValueError if it is none."""
    if not text.removeprefix("-").isdigit():
        raise ValueError("it takes a whole number")
    return int(text)


def _regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it takes a regular expression: {error}") from error
    return text


def names(text: str) -> tuple[str, ...]:
    """Return the names in a flag's text, which commas separate."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


# XLA's flag -> (how to read it, what it does here). The field has the name without `xla_`.
Setting = tuple[Callable[[str], Any], str]
"""A row of a table of flags: how to read a value, and what the flag does."""
_SETTINGS: dict[str, Setting] = {
    "xla_dump_to": (str, "The folder for dumps; `-` for standard output."),
    "xla_dump_hlo_as_text": (boolean, "Dump HLO text (the default format)."),
    "xla_dump_hlo_as_long_text": (boolean, "Dump HLO text with everything known."),
    "xla_dump_hlo_as_proto": (boolean, "Dump HLO protos (`.hlo.pb`) beside the text."),
    "xla_dump_hlo_as_dot": (boolean, "Dump graphs for Graphviz (`.dot`) beside the text."),
    "xla_dump_hlo_as_html": (boolean, "Dump HLO as pages (`.html`) where names are links."),
    "xla_dump_hlo_snapshots": (
        boolean,
        "Dump each execution, with its arguments and result, as an `HloSnapshot`.",
    ),
    "xla_dump_hlo_pass_re": (_regular_expression, "Dump around the passes that match."),
    "xla_dump_hlo_pipeline_re": (
        _regular_expression,
        "Dump around the passes of the pipelines that match.",
    ),
    "xla_dump_hlo_module_re": (_regular_expression, "Dump only the modules that match."),
    "xla_dump_max_hlo_modules": (
        whole_number,
        "Dump at most this many modules of a process; 0 or less for all.",
    ),
    "xla_dump_include_timestamp": (
        boolean,
        "Begin the names of dumps with the time, in us since 1970.",
    ),
    "xla_dump_compress_protos": (boolean, "Compress dumped protos (`.hlo.pb.gz`)."),
    "xla_disable_hlo_passes": (names, "Passes to leave out, separated by commas."),
    "xla_force_host_platform_device_count": (_count, "Devices that JAX sees in this process."),
}

# Honoured here, but usually set for another XLA: other flags are not checked because of it.
_COMMON = {"xla_force_host_platform_device_count"}

# XLA's flag -> why nothing needs to be done.
_WITHOUT_EFFECT: dict[str, str] = {
    "xla_cpu_multi_thread_eigen": "Ingot has its own thread pool: INGOT_NUM_THREADS.",
    "xla_gpu_deterministic_ops": "Ingot is deterministic by construction.",
    "xla_dump_large_constants": "Constants are dumped whole.",
    "xla_cpu_enable_fast_math": "The floating-point licence is INGOT_FP.",
}


def split(text: str, variable: str) -> dict[str, str]:
    """Return the flags of `text`, the value of `variable`, as name -> value; a later one wins.

    Raises:
        FlagError: INGOT0600, a quote is open, or the file that `text` names cannot be read.
    """
    if text.strip() and not text.lstrip().startswith("-"):
        text = _read_file(text.strip(), variable)
    try:
        words = shlex.split(text, comments=False)
    except ValueError as error:
        raise FlagError(f"{variable} cannot be split into flags: {error}") from error
    values: dict[str, str] = {}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        values[name] = value
    return values


def read_value(name: str, value: str, setting: Setting, message: str) -> Any:
    """Return the value of a flag.

    Args:
        name: the flag, without dashes.
        value: its text.
        setting: its row of a table of flags.
        message: what to say if it cannot be read.

    Raises:
        FlagError: INGOT0600, the text has no such value.
    """
    parse_value, doc = setting
    try:
        return parse_value(value)
    except ValueError as error:
        raise FlagError(message, notes=(f"--{name}: {doc}",), hint=str(error)) from error


def parse(text: str) -> XlaFlags:
    """Return the settings of `text`, the value of `XLA_FLAGS`.

    Raises:
        FlagError: INGOT0600, a flag is unknown (and another one is for Ingot) or a value is wrong.
    """
    if not text.strip():
        return XlaFlags()
    values = split(text, VARIABLE)
    known = [*_SETTINGS, *_WITHOUT_EFFECT]
    for name in values if values.keys() & (_SETTINGS.keys() - _COMMON) else ():
        if name not in known:
            raise FlagError(
                f"{VARIABLE} holds --{name}, which Ingot does not know",
                notes=("Ingot knows " + ", ".join(f"--{flag}" for flag in sorted(known)),),
                hint=did_you_mean(name, known) or f"leave --{name} out",
            )
    return override(XlaFlags(), values)


def override(settings: XlaFlags, values: Mapping[str, str]) -> XlaFlags:
    """Return settings with other values of flags, by full names; unknown flags are ignored.

    Raises:
        FlagError: INGOT0600, a value is wrong.
    """
    known = {
        name.removeprefix("xla_"): read_value(
            name, value, _SETTINGS[name], f"--{name}={value} in {VARIABLE} cannot be read"
        )
        for name, value in values.items()
        if name in _SETTINGS
    }
    return replace(settings, **known) if known else settings


def _read_file(name: str, variable: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise FlagError(
            f"{variable} names the file {name!r}, which cannot be read: {error.strerror}",
            hint="flags start with --; anything else is the name of a file that holds the flags",
        ) from error


def current_xla_flags() -> XlaFlags:
    """Return the settings of the environment; `INGOT_DUMP_TO` overrides `--xla_dump_to`."""
    settings = parse(flags.environment(VARIABLE) or "")
    folder = flags.DUMP_TO.value()
    return replace(settings, dump_to=folder) if folder else settings


def markdown() -> str:
    """Return the reference section of XLA's flags."""
    lines = [
        "## XLA_FLAGS",
        "",
        "| flag | meaning |",
        "|---|---|",
        *(f"| `--{name}` | {doc} |" for name, (_, doc) in _SETTINGS.items()),
        *(f"| `--{name}` | No effect. {reason} |" for name, reason in _WITHOUT_EFFECT.items()),
    ]
    return "\n".join(lines) + "\n"
