# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML file: the templates in `templates/`, filled in by jinja2.

Everything that is visible before a click is in the page's own HTML, so it can be read, searched and
printed without scripts; the code of the kernels is data that the script shows on demand.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from importlib import resources
from typing import Any

from ingot.support.diagnostics import UnsupportedError
from ingot.support.text import format_seconds, format_size
from ingot.support.versions import VERSION
from ingot.viz import graph, terminal
from ingot.viz.content import ProgramReport, ReportContent
from ingot.viz.flame import execution_flame, flame_of

TEMPLATE = "report.html.j2"
CODE = ("hlo", "kernel_ir", "schedule", "llvm_ir")
"""The fields of a kernel that hold its code."""


def page(report: ReportContent) -> str:
    """Return the page of a report.

    Raises:
        UnsupportedError: INGOT0363, jinja2 is not installed.
    """
    try:
        jinja: Any = importlib.import_module("jinja2")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            "the page of a report needs jinja2",
            code="INGOT0363",
            hint="pip install 'ingot-compiler[cli]', or save the report as JSON",
        ) from error
    loader = jinja.FunctionLoader(read)
    environment = jinja.Environment(
        loader=loader, autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["bytes"] = format_size
    environment.filters["count"] = terminal.count_text
    environment.filters["seconds"] = format_seconds
    return environment.get_template(TEMPLATE).render(
        version=VERSION,
        report=report,
        programs=[_shown(program) for program in report.programs],
        by_size=_by_size(report),
        graph=graph,
        style=read("report.css"),
        script=read("report.js"),
        data=_data(report),
    )


def read(name: str) -> str:
    """Return the text of a template."""
    return (resources.files("ingot.viz") / "templates" / name).read_text(encoding="utf-8")


def _by_size(report: ReportContent) -> list[int]:
    """Return the numbers of the programs, the largest first: a script compiles small ones too."""
    programs = report.programs
    return sorted(range(len(programs)), key=lambda number: -programs[number].instructions_before)


def _shown(program: ProgramReport) -> dict[str, Any]:
    """Return the template's variables of a program, besides its records."""
    sizes = [kernel.live_bytes for kernel in program.kernels]
    return {
        "report": program,
        "picture": graph.picture_of(program),
        "opcodes": [terminal.opcodes_text(kernel) for kernel in program.kernels],
        "kinds": [graph.kind_of(kernel.opcodes) for kernel in program.kernels],
        "most_live": max(sizes, default=0),
        "is_timed": any(kernel.seconds is not None for kernel in program.kernels),
        "compile_seconds": program.compile_seconds,
        "flame": flame_of(program),
        "execution": execution_flame(program),
    }


def _data(report: ReportContent) -> str:
    """Return the kernels and lines as JSON that is safe in a script element."""
    rows = [_program_data(program) for program in report.programs]
    return json.dumps(rows).replace("<", "\\u003c")


def _program_data(program: ProgramReport) -> dict[str, Any]:
    """Return the script's data of a program; equal code, as of a model's layers, is stored once."""
    texts: dict[str, int] = {}
    kernels = [dataclasses.asdict(kernel) for kernel in program.kernels]
    for kernel in kernels:
        for stage in CODE:
            kernel[stage] = texts.setdefault(kernel[stage], len(texts))
    return {
        "kernels": kernels,
        "texts": list(texts),
        "lines": [dataclasses.asdict(line) for line in program.lines],
        "fusions": [dataclasses.asdict(item) for item in program.fusions],
    }
