# SPDX-License-Identifier: Apache-2.0
"""The child of `trials`: reads, compiles and runs a program, and reports how it fails.

A request is a line of JSON (bounds, seed), then the program; the answer is an `Outcome` as JSON. A
program fails if it is refused with an error, or has other results than with the evaluator. A
program that compiles and runs but that the evaluator refuses does not fail, since there is no
reference.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import sys
import traceback
from dataclasses import asdict

from ingot.evaluator import Value
from ingot.formats.hlo_text import parse
from ingot.hlo.module import Module
from ingot.semantics.device_groups import grid_of
from ingot.support.channel import Channel, ChannelError
from ingot.support.diagnostics import IngotError, InternalError
from ingot.support.worker import Worker, forked, inherited, prepare
from ingot.tools.programs.cases import inputs_in
from ingot.tools.programs.comparing import Bounds, Comparison, compare
from ingot.tools.programs.inputs import random_inputs, symbols
from ingot.tools.programs.literals import as_arguments
from ingot.tools.programs.options import DEFAULT_SIZE
from ingot.tools.programs.platforms import PLATFORMS
from ingot.tools.reduction.trials import COMPILED, CRASH, Outcome

_OF_INGOT = "/ingot/"


def tried(text: str, bounds: Bounds, seed: int) -> Outcome:
    """Return how a program fails."""
    try:
        module = parse(text)
        program = PLATFORMS["cpu"](module)
    except Exception as error:
        return of_error(error, compiled=False)
    rows = [_inputs(module, text, seed)] * grid_of(module).devices
    print(COMPILED, file=sys.stderr, flush=True)
    try:
        got = program(rows)
    except Exception as error:
        return of_error(error)
    try:
        want = PLATFORMS["evaluator"](module)(rows)
    except IngotError:
        return Outcome()
    found = (compare(n, *pair, bounds) for n, pair in enumerate(zip(got, want, strict=True)))
    return next((_differs(one) for one in found if not one.agrees), Outcome())


def _inputs(module: Module, text: str, seed: int) -> list[Value]:
    given = inputs_in(text)
    if given or not module.entry.parameters:
        return as_arguments(module, given, "the case")
    return random_inputs(module, seed, dict.fromkeys(symbols(module), DEFAULT_SIZE))


def _differs(found: Comparison) -> Outcome:
    return Outcome("differs", f"output {found.output} differs in {found}")


def of_error(error: Exception, *, compiled: bool = True) -> Outcome:
    """Return the failure of an exception: its code, the pass, and for a bug its location."""
    detail = str(error)
    if not isinstance(error, IngotError):
        return Outcome(f"{type(error).__name__}{_location(error)}", detail, compiled)
    facts = error.diagnostic
    words = [facts.code, *([f"in {facts.pass_name}"] if facts.pass_name else [])]
    if isinstance(error, InternalError):
        words.append(_location(error.__cause__ or error).strip())
    return Outcome(" ".join(word for word in words if word), detail, compiled)


def _location(error: BaseException) -> str:
    """Return a text that names the last function of Ingot that an exception passed."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if _OF_INGOT in frame.filename]
    if not inner:
        return ""
    frame = inner[-1]
    return f" at {frame.filename.rpartition(_OF_INGOT)[2]}:{frame.name}"


def serve(channel: Channel) -> None:
    """Answer until the parent ends; a process that crashes is replaced.

    Programs run in a copy of this process, which has all imports, so starting a new copy takes
    milliseconds.
    """
    child: Worker | None = None
    while True:
        request = channel.receive()
        if request is None:
            return
        child = child or forked(_answer)
        answer = None
        with contextlib.suppress(ChannelError):
            child.channel.send(request)
            answer = child.channel.receive()
        if answer is None:
            answer = _message(Outcome(f"{CRASH}{child.how_it_ended()}"))
            child.kill()
            child = None
        channel.send(answer)


def _answer(channel: Channel) -> None:
    """Answer until the channel ends."""
    faulthandler.enable()
    while True:
        request = channel.receive()
        if request is None:
            return
        head, _, text = bytes(request).partition(b"\n")
        given = json.loads(head)
        bounds = Bounds(given["absolute"], given["relative"])
        channel.send(
            _message(tried(text.decode("utf-8", "surrogateescape"), bounds, given["seed"]))
        )


def _message(found: Outcome) -> bytes:
    return json.dumps(asdict(found)).encode()


if __name__ == "__main__":
    prepare()
    serve(inherited(sys.argv[1:]))
