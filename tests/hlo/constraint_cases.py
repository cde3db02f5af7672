# SPDX-License-Identifier: Apache-2.0
"""Bad instructions, one for each constraint of an op, as HLO text; who refuses them, and where.

A line of `constraints/*.txt` is `label: result op(operand shapes), attributes`. The module around
it has a parameter for each operand, and the computations of `_COMPUTATIONS` that the line names.
The page docs/constraints.md shows the first case of each label.

Example:
    >>> print(module_text(Case("add_c1", "f32[2]", "add", ("f32[2]", "f32[3]"), "")))
    HloModule m
    <BLANKLINE>
    ENTRY %main {
      %p0 = f32[2] parameter(0)
      %p1 = f32[3] parameter(1)
      ROOT %r = f32[2] add(%p0, %p1)
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ingot.formats.hlo_text import parse
from ingot.support.diagnostics import IngotError

FOLDER = Path(__file__).parent / "constraints"
FILES = ("elementwise", "shaping", "indexing", "computing", "structural")
_LINE = re.compile(r"(\w+): (.+?) ([a-z][a-z0-9\-]*)\((.*)")


def _scalar(name: str, takes: str, gives: str, body: str) -> str:
    return f"%{name} {{\n{takes}  ROOT %{name}.r = {gives} {body}\n}}"


def _parameters(name: str, *shapes: str) -> str:
    rows = (f"  %{name}.{n} = {shape} parameter({n})\n" for n, shape in enumerate(shapes))
    return "".join(rows)


def _binary(name: str, element: str, gives: str, body: str) -> str:
    takes = _parameters(name, f"{element}[]", f"{element}[]")
    return _scalar(name, takes, gives, body.format(f"%{name}.0, %{name}.1"))


def _zero(name: str, gives: str, value: str) -> str:
    return _scalar(name, _parameters(name, "f32[]"), gives, f"constant({value})")


_COMPUTATIONS = {
    "add": _binary("add", "f32", "f32[]", "add({})"),
    "add_s32": _binary("add_s32", "s32", "s32[]", "add({})"),
    "less": _binary("less", "f32", "pred[]", "compare({}), direction=LT"),
    "both": _scalar(
        "both",
        _parameters("both", "f32[]", "f32[]", "f32[]", "f32[]"),
        "(f32[], f32[])",
        "tuple(%both.0, %both.1)",
    ),
    "step": _binary("step", "f32", "(f32[], f32[])", "tuple({})"),
    "to_f32": _zero("to_f32", "f32[]", "0"),
    "to_s32": _zero("to_s32", "s32[]", "0"),
    "to_pred": _zero("to_pred", "pred[]", "false"),
    "to_preds": _zero("to_preds", "pred[1]", "{false}"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A bad instruction: its label, declared result, op, operands' shapes, and attributes."""

    label: str
    result: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    def __str__(self) -> str:
        return f"{self.result} {self.opcode}({', '.join(self.operands)}){self.attributes}"


def read_cases() -> list[Case]:
    """Return all cases, in the files' order."""
    lines = (line for name in FILES for line in (FOLDER / f"{name}.txt").read_text().splitlines())
    return [_read(line) for line in lines if line and not line.startswith("#")]


def _read(line: str) -> Case:
    found = _LINE.fullmatch(line)
    assert found is not None, line
    label, result, opcode, rest = found.groups()
    operands, attributes = _operands(rest)
    return Case(label, result, opcode, tuple(operands), attributes)


def _operands(text: str) -> tuple[list[str], str]:
    """Return the operands before the bracket that closes them, and what stands behind it."""
    depth, start, found = 0, 0, []
    for place, character in enumerate(text):
        if character == ")" and depth == 0:
            last = text[start:place].strip()
            return [*found, last] if last else found, text[place + 1 :]
        if character == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
        depth += (character in "([{") - (character in ")]}")
    raise AssertionError(text)


def module_text(case: Case) -> str:
    """Return a module whose root is the bad instruction."""
    names = dict.fromkeys(re.findall(r"%(\w+)", case.attributes))
    rows = [f"  %p{n} = {shape} parameter({n})" for n, shape in enumerate(case.operands)]
    operands = ", ".join(f"%p{n}" for n in range(len(case.operands)))
    root = f"  ROOT %r = {case.result} {case.opcode}({operands}){case.attributes}"
    entry = "\n".join(["ENTRY %main {", *rows, root, "}"])
    return "\n\n".join(["HloModule m", *(_COMPUTATIONS[name] for name in names), entry])


def refusal(case: Case) -> IngotError | None:
    """Return the error that the module's text gives, if it gives one."""
    try:
        parse(module_text(case))
    except IngotError as error:
        return error
    return None


def place_of(error: BaseException) -> str:
    """Return `file.py: function` of the check that an error comes from."""
    for one in _chain(error):
        frames = list(_frames(one.__traceback__))
        if frames and frames[-1][1] == "require":
            file, function = frames[-2]
            return f"{Path(file).name}: {function}"
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _frames(traceback: TracebackType | None) -> Iterator[tuple[str, str]]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield code.co_filename, code.co_name
        traceback = traceback.tb_next
