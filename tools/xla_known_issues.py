# SPDX-License-Identifier: Apache-2.0
"""Run programs around XLA's known issues three ways, and write what each gives to a page.

TensorFlow without compilation, TensorFlow's own XLA, and Ingot each run every program of
`xla_known_issue_programs` in a process of their own.

Example:
    .venv/bin/python tools/xla_known_issues.py             # writes docs/xla_known_issues.md
    .venv/bin/python tools/xla_known_issues.py --engine ingot    # prints one engine's answers
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "xla_known_issues.md"
ENGINES = ("tensorflow", "xla", "ingot")
_HEAD = """# XLA's known issues, run

[XLA's list of known issues](https://www.tensorflow.org/xla/known_issues), and what users report
beside it. Each program runs without compilation, with TensorFlow's own XLA (`jit_compile=True`),
and with Ingot (the same, after `ingot.tensorflow.enable()`). `tools/xla_known_issues.py` writes
this page; a test holds Ingot's answers beside TensorFlow's.

"""


def answers(engine: str) -> dict[str, str]:
    """Return what each program gives in this process."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import logging

    import tensorflow as tf

    import ingot.tensorflow

    logging.getLogger("ingot.tensorflow").setLevel(logging.ERROR)
    if engine == "ingot":
        ingot.tensorflow.enable()
    found: dict[str, str] = {}
    for name, program in programs().items():
        tf.random.set_seed(7)

        def jit(function: Any, **options: Any) -> Any:
            return tf.function(function, jit_compile=engine != "tensorflow", **options)

        try:
            found[name] = _text(program(jit))
        except Exception as error:  # what a program raises is its answer
            message = getattr(error, "message", "") or str(error)
            found[name] = f"{type(error).__name__}: {_first_line(message)}"
    return found


def programs() -> dict[str, Any]:
    """Return the programs by name, in order."""
    sys.path.insert(0, str(ROOT / "tools"))
    import xla_known_issue_programs

    return xla_known_issue_programs.PROGRAMS


def run(engine: str) -> dict[str, str]:
    """Return what each program gives in a process of its own."""
    command = [sys.executable, __file__, "--engine", engine]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def page(found: dict[str, dict[str, str]]) -> str:
    """Return the page's text for the answers of each engine."""
    text = _HEAD
    for name, program in programs().items():
        source = textwrap.dedent(inspect.getsource(program))
        body = textwrap.dedent("".join(source.splitlines(keepends=True)[2:]))
        what = (program.__doc__ or "").strip()
        text += f"## {name}\n\n{what}\n\n```py\n{body}```\n\n| | |\n|---|---|\n"
        for engine, title in zip(ENGINES, ("TensorFlow", "XLA", "Ingot"), strict=True):
            answer = found[engine][name].replace("|", "\\|")
            text += f"| {title} | `{answer}` |\n"
        text += "\n"
    return text.rstrip() + "\n"


def _text(value: Any) -> str:
    import numpy as np
    import tensorflow as tf

    parts = [
        np.array2string(np.asarray(item), precision=5, separator=", ", threshold=20)
        if tf.is_tensor(item)
        else str(item)
        for item in tf.nest.flatten(value)
    ]
    return "; ".join(" ".join(part.split()) for part in parts)


_SKIPPED = ("Detected at node", "<stack traces", "Graph execution error", "Ingot cannot", "[[")
_FRAMES = re.compile(r'File "[^"]*", line \d+, in .*\n+.*\n')
_NOISE = re.compile(r"\[_XlaMustCompile=[^]]*\]|\{\{[^}]*\}\} ?|(?<=_)\d+\b")


def _first_line(message: str) -> str:
    """Return the line of an error that says what is wrong."""
    lines = [line.strip() for line in _FRAMES.sub("", message).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(_SKIPPED)] or lines or [""]
    return _NOISE.sub("", kept[0])[:160]


def main() -> None:
    """Write the page, or print one engine's answers as JSON."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--engine", choices=ENGINES)
    given = options.parse_args()
    if given.engine:
        print(json.dumps(answers(given.engine)))
        return
    PAGE.write_text(page({engine: run(engine) for engine in ENGINES}), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
