# SPDX-License-Identifier: Apache-2.0
"""Diagnostics: the errors that every layer raises.

A `Diagnostic` says what is wrong, where (HLO text span, instruction, the user's own file:line),
why, and what to do. It is data; the exception classes below carry one and print it. Codes are
stable (`INGOT0123`), with a section in docs/errors.md each. Front ends translate the exception to
their framework's class and keep the text.

Example:
    >>> error = UnsupportedError("op 'foo' has no CPU code", code="INGOT0300", hint="use 'bar'")
    >>> print(error)
    error[INGOT0300]: op 'foo' has no CPU code
      hint: use 'bar'
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.support.records import record


@record
class Span:
    """A location in a text: 1-based line and column, with the line itself for the caret."""

    line: int
    column: int
    source_line: str
    source_name: str = "<hlo>"

    def lines(self) -> Iterator[str]:
        """Yield the location, the line, and a caret under the column, aligned by the same tabs."""
        before = self.source_line[: self.column - 1].ljust(self.column - 1)
        blank = "".join("\t" if character == "\t" else " " for character in before)
        yield f"  --> {self.source_name}:{self.line}:{self.column}"
        yield f"   | {self.source_line}"
        yield f"   | {blank}^"


@record
class SourceLocation:
    """The location (file and line) in the user's program that a front end traced."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@record
class Diagnostic:
    """One finding: message, code, and everything known about where it comes from."""

    message: str
    code: str = "INGOT0001"
    span: Span | None = None
    instruction: str = ""
    op_type: str = ""
    op_name: str = ""
    location: SourceLocation | None = None
    pass_name: str = ""
    notes: tuple[str, ...] = ()
    hint: str = ""

    def render(self) -> str:
        """Return the diagnostic as the text that users see."""
        return f"error[{self.code}]: {self.render_facts()}"

    def render_facts(self) -> str:
        """Return the text without the headline: the message, then a line for each fact."""
        lines = [self.message]
        if self.span is not None:
            lines.extend(self.span.lines())
        if self.instruction:
            lines.append(f"  instruction: {self.instruction}")
        if self.op_type:
            node = f" (node '{self.op_name}')" if self.op_name else ""
            lines.append(f"  op: {self.op_type}{node}")
        elif self.op_name:
            lines.append(f"  node: {self.op_name}")
        if self.location is not None:
            lines.append(f"  at: {self.location}")
        if self.pass_name:
            lines.append(f"  pass: {self.pass_name}")
        lines.extend(f"  note: {note}" for note in self.notes)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class IngotError(Exception):
    """Base of everything that Ingot raises on purpose; `.diagnostic` holds the facts."""

    default_code = "INGOT0001"

    def __init__(
        self,
        message: str | Diagnostic,
        *,
        code: str = "",
        span: Span | None = None,
        instruction: str = "",
        op_type: str = "",
        op_name: str = "",
        location: SourceLocation | None = None,
        pass_name: str = "",
        notes: tuple[str, ...] = (),
        hint: str = "",
    ) -> None:
        """Carry `message`, either a whole `Diagnostic` or its text with the known facts."""
        if isinstance(message, Diagnostic):
            self.diagnostic = message
        else:
            self.diagnostic = Diagnostic(
                message,
                code or self.default_code,
                span,
                instruction,
                op_type,
                op_name,
                location,
                pass_name,
                notes,
                hint,
            )
        super().__init__(self.diagnostic.render())

    def __reduce__(self) -> tuple[type[IngotError], tuple[Diagnostic]]:
        # The exception's own arguments are the rendered text; a copy must carry the facts.
        return type(self), (self.diagnostic,)


class ParseError(IngotError):
    """A text or data does not have the format that it should have."""

    default_code = "INGOT0100"


class VerifyError(IngotError):
    """A module breaks a constraint of an op or of the graph; `code` or notes name the label."""

    default_code = "INGOT0200"


class UnsupportedError(IngotError):
    """Something is valid, but this backend or front end does not support it."""

    default_code = "INGOT0300"


class ResourceError(IngotError):
    """A limit of the machine was reached: memory, threads, files."""

    default_code = "INGOT0400"


class ExecutionError(IngotError):
    """A compiled program was called with arguments that it does not accept, or failed running.

    Attributes:
        status: absl's name for the failure (`INVALID_ARGUMENT`), where a foreign call or an
            assertion gave one.
    """

    default_code = "INGOT0500"
    status = ""


class ArgumentError(IngotError, TypeError):
    """A function of Ingot's was called from Python with something of the wrong type."""

    default_code = "INGOT0513"


class FlagError(IngotError):
    """A flag (`INGOT_*`, `XLA_FLAGS`) has a value that it does not take."""

    default_code = "INGOT0600"


class InternalError(IngotError):
    """An invariant of Ingot is broken: always a bug."""

    default_code = "INGOT0900"
