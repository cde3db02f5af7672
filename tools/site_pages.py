# SPDX-License-Identifier: Apache-2.0
"""Pages of the documentation site that stand outside of docs/: a hook of mkdocs (`mkdocs.yml`).

The pages in docs/ are written for a reader of the repository: they link to benchmark pages and to
source files by their places there. For the site this hook adds each file that a page links to,
shows source files as code, makes the start page of README.md, and writes the reference of the
Python API from the names that `ingot` exports.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\((?!https?:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
# A page of the site -> the file in the repository that it is made of.
_NAMES = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
_SHOWN_AS_CODE = {".py": "python", "": "text", ".toml": "toml"}


def on_files(files: Files, config: Any) -> Files:
    """Add README.md as the start page, the API reference, and what the pages link to."""
    sources = {name: ROOT / source for name, source in _NAMES.items()}
    sources |= {file.src_uri: Path(file.abs_src_path) for file in files.documentation_pages()}
    waiting = list(sources.values())
    while waiting:
        page = waiting.pop()
        for target in _linked(page):
            name = _site_name(target)
            if name not in sources and not _is_in_docs(target):
                sources[name] = target
                if target.suffix == ".md":
                    waiting.append(target)
    for name, source in sources.items():
        if not _is_in_docs(source):
            files.append(_added(config, name, source))
    files.append(File.generated(config, "reference.md", content=_reference()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to files in the repository lead to their pages on the site."""
    here = page.file.src_uri
    source = ROOT / _NAMES.get(here, "") if here in _NAMES else ROOT / "docs" / here
    if page.file.generated_by and here not in _NAMES:
        source = ROOT / here  # a file that is linked to has its place in the repository as its name

    def moved(link: re.Match[str]) -> str:
        target = (source.parent / link["path"]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]
        place = os.path.relpath(_site_name(target), os.path.dirname(here) or ".")
        return f"]({place}{link['anchor'] or ''})"

    return _LINK.sub(moved, markdown)


def _linked(page: Path) -> list[Path]:
    if page.suffix != ".md":
        return []
    found = (page.parent / link["path"] for link in _LINK.finditer(page.read_text("utf-8")))
    files = (path.resolve() for path in found if path.is_file())
    return [path for path in files if path.is_relative_to(ROOT)]


def _is_in_docs(path: Path) -> bool:
    return path.is_relative_to(ROOT / "docs")


def _site_name(path: Path) -> str:
    """Return where a file of the repository stands on the site; source files become pages."""
    if _is_in_docs(path):
        return path.relative_to(ROOT / "docs").as_posix()
    name = path.relative_to(ROOT).as_posix()
    for page, source in _NAMES.items():
        if source == name:
            return page
    return f"{name}.md" if path.suffix in _SHOWN_AS_CODE else name


def _added(config: Any, name: str, source: Path) -> File:
    language = _SHOWN_AS_CODE.get(source.suffix)
    if language is None:
        return File.generated(config, name, abs_src_path=str(source))
    title = source.relative_to(ROOT).as_posix()
    code = source.read_text("utf-8")
    return File.generated(config, name, content=f"# {title}\n\n````{language}\n{code}\n````\n")


def _reference() -> str:
    """Return the page that mkdocstrings fills: each public name, by the module that defines it."""
    import ingot

    lines = [
        "# Python API",
        "",
        "What `import ingot` gives. [The API](api.md) shows how it is used.",
    ]
    for name in ingot.__all__:
        lines += ["", f"::: {ingot._HOMES.get(name, 'ingot')}.{name}"]
    return "\n".join(lines) + "\n"
