# SPDX-License-Identifier: Apache-2.0
"""Reports: what `ingot.explain` returns, and its three outputs, text, JSON and page.

The content is in `viz.content`. Invariant: pages and coloured text are imported when they are asked
for, since they need packages that not every installation has.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from ingot.support.diagnostics import ArgumentError, ResourceError
from ingot.support.records import record
from ingot.viz.content import ReportContent

SCHEMA = 2
"""Version of the schema of `Report.to_json`; it changes if a field is removed or changes its
meaning."""


@record
class Report(ReportContent):
    """The report on a program's compilation: `str` for text, `to_json` for data, `save` for a page.

    Its fields are those of `ReportContent`.
    """

    def to_json(self) -> str:
        """Return all fields as JSON, with `schema` for the version of the schema."""
        content: dict[str, Any] = {"schema": SCHEMA, **dataclasses.asdict(self)}
        return json.dumps(content)

    def to_html(self) -> str:
        """Return one page that needs no network and no other file.

        Raises:
            UnsupportedError: INGOT0363, jinja2 is not installed.
        """
        from ingot.viz.page import page

        return page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON (`.json`) or as a page (`.html`, `.htm`).

        Raises:
            ArgumentError: INGOT0513, the name of the file ends in something else.
            ResourceError: INGOT0411, the file cannot be written.
            UnsupportedError: INGOT0363, jinja2 is not installed.
        """
        target = Path(path)
        if target.suffix not in (".json", ".html", ".htm"):
            raise ArgumentError(
                f"a report cannot be saved as '{target.name}'",
                hint="end the name in .html for a page or .json for data; str(report) is the text",
            )
        text = self.to_json() if target.suffix == ".json" else self.to_html()
        try:
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise ResourceError(
                f"{target} cannot be written: {error.strerror}", code="INGOT0411"
            ) from error

    def __str__(self) -> str:
        from ingot.viz.terminal import plain

        return plain(self)

    def __rich__(self) -> Any:
        """Return what rich prints."""
        from ingot.viz.terminal import rich_text

        return rich_text(self)
