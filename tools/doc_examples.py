# SPDX-License-Identifier: Apache-2.0
r"""Run the examples of the pages in docs/ and of README.md, and keep what they print up to date.

A block of `python`, `sh` or `bash` that is followed by a block of `text` prints exactly that; a
Python block that is not must run. The Python blocks of a page share their names. Each page has a
process of its own, because examples add ops and rules. Places in this checkout are shown relative
to its root. Examples are compiled for AVX2, so that pages say the same on every machine that has
it.

Example:
    .venv/bin/python tools/doc_examples.py             # writes what is behind
    .venv/bin/python tools/doc_examples.py --check docs/architecture.md
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(
    r"^```(?P<kind>python|sh|bash)\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
_TRACE_NUMBER = re.compile(r"(__inference_\w+?_)\d+")
"""TensorFlow numbers traced functions; the numbers say nothing."""
_INCIDENTAL = re.compile(
    r"(?<=\.py:)\d+|(?<=\bk_)[0-9a-f]{16}|(?<=%v)\d+|\b(?:memory|compute|latency)(?=-bound)"
)
"""Lines of the source, kernels' fingerprints, LLVM's registers, and what limits a kernel, which the
rates of the machine decide: a page is not behind for these."""


def pages() -> list[Path]:
    """Return the pages that have examples."""
    candidates = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*"))]
    return [p for p in candidates if p.suffix == ".md" and _BLOCK.search(p.read_text("utf-8"))]


def run_python(code: str, names: dict[str, object], page: Path) -> str:
    """Run a block; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), names)
    return printed.getvalue()


def run_shell(code: str, kind: str = "sh") -> str:
    """Run the commands of a block with this Python; return what they printed.

    Each line of `sh` is a command; a block of `bash` is one script.
    """
    output = ""
    for line in code.strip().splitlines() if kind == "sh" else [shlex.join(["bash", "-c", code])]:
        words = shlex.split(line)
        settings: dict[str, str] = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
        command = [sys.executable if words[0] == "python" else words[0], *words[1:]]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": path, **settings}
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise RuntimeError(f"'{line}' failed:\n{result.stderr[-3000:]}")
        output += result.stdout
    return output


def tidy(text: str) -> str:
    """Return printed text as a page shows it."""
    text = _TRACE_NUMBER.sub(r"\1N", text.replace(f"{ROOT}/", ""))
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


def refreshed(page: Path) -> str:
    """Return the page's text with the output of its examples as it is now."""
    # A module that can be imported: TorchDynamo looks for the module of the classes that it traces.
    name = f"page_{page.stem}"  # `tensorflow` alone is a package
    module = sys.modules[name] = types.ModuleType(name)
    names = vars(module)

    def run(block: re.Match[str]) -> str:
        code, whole = block["code"], block[0]
        is_python = block["kind"] == "python"
        if not is_python and block["printed"] is None:
            return whole  # commands for a reader, such as `make demo`
        printed = run_python(code, names, page) if is_python else run_shell(code, block["kind"])
        if block["printed"] is None:
            return whole
        start = block.start("printed") - block.start()
        return whole[:start] + tidy(printed) + whole[block.end("printed") - block.start() :]

    return _BLOCK.sub(run, page.read_text(encoding="utf-8"))


def bring_up_to_date(page: Path, write: bool) -> bool:
    """Run one page's examples; return whether the page was up to date."""
    text, old = refreshed(page), page.read_text(encoding="utf-8")
    if text == old or (not write and _INCIDENTAL.sub("", text) == _INCIDENTAL.sub("", old)):
        return True
    if write:
        page.write_text(text, encoding="utf-8")
    print(f"{page.relative_to(ROOT)}: {'written' if write else 'behind; run `make docs`'}")
    return False


def main(arguments: list[str]) -> int:
    """Write or check the pages named, or all; return the exit status."""
    write = "--check" not in arguments
    named = [Path(name).resolve() for name in arguments if name != "--check"]
    if len(named) == 1:
        return 0 if bring_up_to_date(named[0], write) or write else 1
    status = 0
    for page in named or pages():
        flags = [] if write else ["--check"]
        command = [sys.executable, str(Path(__file__).resolve()), *flags, str(page)]
        status |= subprocess.run(command, check=False).returncode
    return status


if __name__ == "__main__":
    # Here, and not where the file is imported: a test imports it into the process of other tests.
    os.environ["INGOT_CPU_LEVEL"] = "avx2"
    sys.exit(main(sys.argv[1:]))
