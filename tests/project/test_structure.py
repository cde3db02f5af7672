# SPDX-License-Identifier: Apache-2.0
"""The project's own rules, held by tests: layers, file sizes, docstrings, nothing unfinished."""

import ast
import importlib
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from tools.recursion import cycles

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
UNFINISHED_WORDS = ("TODO", "FIXME", "XXX", "HACK")


def relative(path):
    return path.relative_to(ROOT).as_posix()


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unfinished(text):
    """Return the places in `text` that say that something is missing, as (line, what)."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        words = token.string.replace(":", " ").replace("(", " ").split()
        if token.type == tokenize.COMMENT and any(word in words for word in UNFINISHED_WORDS):
            yield token.start[0], token.string
        if token.type == tokenize.NAME and token.string == "NotImplementedError":
            yield token.start[0], token.string


@pytest.mark.slow
def test_layers_hold():
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert program, "import-linter belongs to the extra `dev`"
    command = [program, "--no-logo", "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_no_file_is_too_long():
    tool = load_tool("file_size")
    lengths = tool.file_lengths()
    assert "src/ingot/__init__.py" in lengths
    assert tool.too_long(lengths, tool.EXEMPT) == []


def test_each_source_file_begins_with_its_licence():
    assert load_tool("licence_headers").lacking() == []


def test_a_file_without_its_licence_is_found(tmp_path):
    tool = load_tool("licence_headers")
    (tmp_path / "src").mkdir()
    path = tmp_path / "src" / "a.py"
    path.write_text('"""A module."""\n', encoding="utf-8")
    assert tool.lacking(tmp_path) == [path]
    path.write_text(f'{tool.header(path)}\n"""A module."""\n', encoding="utf-8")
    assert tool.lacking(tmp_path) == []


def test_file_size_rule_can_fail():
    tool = load_tool("file_size")
    lengths = {"short.py": tool.LIMIT, "long.py": tool.LIMIT + 1, "table.py": 9999}
    (complaint,) = tool.too_long(lengths, {"table.py": "data"})
    assert complaint.startswith("long.py: 601 lines")


FOLDERS = sorted({path.parent for path in SOURCES})
"""One test for each: one for each file would cost more in starting tests than in reading files."""


def texts_of(folder):
    return {relative(path): path.read_text(encoding="utf-8") for path in folder.glob("*.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_modules_say_what_they_are(folder):
    docstrings = {name: ast.get_docstring(ast.parse(t)) for name, t in texts_of(folder).items()}
    silent = [name for name, text in docstrings.items() if len((text or "").split()) < 5]
    assert silent == []


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_nothing_is_left_unfinished(folder):
    found = {name: list(unfinished(text)) for name, text in texts_of(folder).items()}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_switches_are_read_through_the_registry_only(folder):
    reads = re.compile(r"""(?:environ|getenv)\W+(?:get\W+)?INGOT_\w+""")
    found = {name: reads.findall(text) for name, text in texts_of(folder).items()}
    wrong = {name: places for name, places in found.items() if places}
    assert wrong == {}, "declare a Flag in ingot/support/flags.py"


def test_unfinished_code_is_found():
    text = "x = 1  # TODO: more\nraise NotImplementedError\ny = 'TODO'\n"
    assert [line for line, _ in unfinished(text)] == [1, 2]


def test_import_is_light_and_public_names_have_homes():
    code = (
        "import sys, ingot; print('numpy' in sys.modules, sorted(ingot.__all__) == ingot.__all__)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]


def test_public_names_are_the_ones_declared():
    import ingot

    here = {"load_executable"}  # it belongs to two packages: its argument decides which
    assert set(ingot._HOMES) | here == set(ingot.__all__)
    for name, home in ingot._HOMES.items():
        assert getattr(ingot, name) is getattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match="no attribute 'compille'"):
        ingot.compille  # noqa: B018


@pytest.mark.slow
def test_generated_pages_are_up_to_date():
    assert load_tool("make_docs").main(["--check"]) == 0


IR = {
    f"ingot.hlo.{name}"
    for name in (
        *("computation", "instruction", "interfaces", "module", "opdef", "operand_order"),
        "structure",
    )
}
"""The graph itself: a module owns computations, these own instructions, which know their owners."""


def imports_of(path, modules):
    """Return the modules that a file imports, also for the type checker or in functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def import_cycles(sources):
    """Return groups of modules that import each other; the package itself, a face, is left out."""
    modules = {
        relative(path).removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        .replace("/", "."): path
        for path in sources
    }  # fmt: skip
    names = set(modules) - {"ingot"}
    return cycles({name: set(imports_of(modules[name], names)) & names for name in names})


def test_modules_do_not_import_each_other():
    found = [set(group) for group in import_cycles(SOURCES)]
    assert [group for group in found if group != IR] == []
    assert IR in found, "its exemption is needed no more"


def test_passes_edit_instructions_through_their_computation():
    """It counts edits: what is remembered of a computation would be stale otherwise."""
    setter = re.compile(r"(?<!self)\.(attributes|shape|operands|control_predecessors) = ")
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in SOURCES
        if "passes" in path.parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if setter.search(line)
    ]
    assert not found, found
