"""`ingot serve --stdio`: compiles and runs programs for hosts that cannot load C libraries.

Reads requests from standard input, writes one answer for each to standard output, in order, and
ends with the input. docs/serve.md is the protocol. Invariant: nothing but answers reaches standard
output: what else is printed in this process goes to standard error.
"""

from __future__ import annotations

import io
import os
import sys

import click

from ingot.support.diagnostics import ExecutionError, IngotError
from ingot.tools.framing import FORMS, Message, Reader, Writer
from ingot.tools.session import Session, failure


@click.command(name="serve")
@click.option("--stdio", is_flag=True, help="Serve the process that started this one (required).")
@click.option("--form", type=click.Choice([*FORMS]), default="packets", show_default=True,
              help="Size and raw bytes, or a line of JSON with base64.")  # fmt: skip
def command(stdio: bool, form: str) -> None:
    """Compile and run programs as requests on standard input say (docs/serve.md)."""
    if not stdio:
        raise click.UsageError("there is one way to serve: --stdio")
    requests, answers = take_pipes()
    serve(requests, answers, *FORMS[form])


def take_pipes() -> tuple[io.BufferedReader, io.BufferedWriter]:
    """Return the two pipes, and let nobody else read from or print to them."""
    sys.stdout.flush()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def serve(
    requests: io.BufferedIOBase, answers: io.BufferedIOBase, read: Reader, write: Writer
) -> None:
    """Answer requests until they end, or one asks to shut down.

    Raises:
        ResourceError: INGOT0411, the input ends inside of a message.
    """
    session = Session()
    while not session.over:
        try:
            request = read(requests)
        except ExecutionError as problem:
            write(answers, Message(failure(problem)))
            continue
        if request is None:
            return
        answer = session.answer(request)
        try:
            write(answers, answer)
        except IngotError as problem:
            write(answers, Message({**failure(problem), "id": request.header.get("id")}))
