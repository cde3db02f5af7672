# SPDX-License-Identifier: Apache-2.0
"""The process that a host talks to: it reads requests from the pipe and lets a worker answer them.

It has one thread and one loop over events: bytes from the host, an answer or the end of the worker,
a timeout, the end of the host. It computes nothing, so no program can crash or block it: a worker
that dies is replaced; one that takes too long or must stop gets an interrupt and, if that does not
help, is killed.

Frames and answers are forwarded unchanged: a frame is parsed here only if it may concern this
process (`_CONCERNS`), or if this process must answer it.

Invariants: every message gets one answer, in order; this process starts no thread, so that it may
fork; numbers of programs and arrays are never given out twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import signal
import time
from collections import deque

from ingot.support.channel import Bytes, Channel, ChannelError
from ingot.support.diagnostics import ExecutionError, IngotError, ResourceError
from ingot.support.records import mutable, record
from ingot.support.worker import Worker, forked
from ingot.tools.serving.fields import Header, seconds_field
from ingot.tools.serving.framing import Encoding, Message, read_header
from ingot.tools.serving.serve_worker import HEAD, serve
from ingot.tools.serving.session import CANCELLED, failure

_PART_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20
"""Bytes of a pipe's buffer, and of one call of read or write: each wakes the other process."""
_MOST_WAITING = 64
_MOST_WAITING_BYTES = 64 << 20
"""The most queued requests, and bytes of them, before reading stops."""
_GRACE_SECONDS = 2.0
"""Seconds that a worker has after an interrupt before it is killed."""
_LONGEST_WAIT = 3600.0
_CONCERNS = (b"cancel", b"shutdown", b"timeout", b"\\u", b"\0")
"""A header without any of these does not concern this process: it has no such request, no time
limit, no escaped letters, no UTF-16."""


@record
class Limits:
    """The limits of one request.

    Attributes:
        size: bytes of a message.
        seconds: its time; 0 for no limit.
        memory: bytes of data that the worker may have; 0 for no limit.
    """

    size: int
    seconds: float
    memory: int


@mutable
class _Request:
    """A request that is queued or runs.

    Attributes:
        frame: the host's frame; empty if it could not be read.
        header: its header if that was parsed; empty for an invalid one, which the worker answers.
        answer: its answer, if that is known before its turn.
        limit: the seconds that it may run; 0 for no limit.
        deadline: when it is interrupted or, after an interrupt, killed.
        reason: why it was interrupted.
    """

    frame: bytes
    header: Header | None = None
    answer: Header | None = None
    limit: float = 0.0
    deadline: float = math.inf
    reason: IngotError | None = None


class HostGoneError(Exception):
    """The host no longer reads answers."""


class Supervisor:
    """The loop, with the pipes of one host."""

    def __init__(self, requests: int, answers: int, encoding: Encoding, limits: Limits) -> None:
        """Serve on two file descriptors; start the first worker."""
        self._requests, self._answers = requests, answers
        self._encoding, self._limits = encoding, limits
        self._decoder = encoding.decoder(limits.size)
        self._waiting: deque[_Request] = deque()
        self._waiting_bytes = 0
        self._running: _Request | None = None
        self._next_number = 1
        self._input_ended = False
        self._problem: ResourceError | None = None
        self._over = False
        self._poll: tuple[tuple[bool, int], select.poll] | None = None
        for pipe in (requests, answers):
            with contextlib.suppress(OSError):  # Not a pipe, or the user's limit is reached.
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._worker = self._new_worker()

    def run(self) -> None:
        """Serve until the input ends, the host asks for the end, or is gone.

        Raises:
            ResourceError: INGOT0411, the input ends inside of a message.
        """
        try:
            while not self._over:
                self._advance()
                if self._over or (self._input_ended and not self._running):
                    break
                self._wait()
        except HostGoneError:
            return
        finally:
            self._worker.kill()
        if self._problem is not None and not self._over:
            raise self._problem

    def _advance(self) -> None:
        """Write the answers that are known, and give the worker its next request."""
        while self._waiting and not self._running and not self._over:
            request = self._waiting.popleft()
            self._waiting_bytes -= len(request.frame)
            if request.answer is not None:
                self._write(request, request.answer)
            elif request.header and request.header.get("op") == "shutdown":
                self._over = True
                self._write(request, {"ok": True})
            else:
                self._start(request)

    def _start(self, request: _Request) -> None:
        try:
            asked = seconds_field(request.header or {}, "timeout")
        except ExecutionError as error:
            self._write(request, failure(error))
            return
        request.limit = min(filter(None, (asked, self._limits.seconds)), default=0.0)
        if request.limit:
            request.deadline = time.monotonic() + request.limit
        self._running = request
        try:
            self._worker.channel.send(request.frame)
        except ChannelError:
            pass  # Its end is seen when its answer is waited for.
        except (OSError, MemoryError):
            self._running = None
            self._write(request, failure(MemoryError()))

    def _header(self, request: _Request) -> Header:
        """Return the header of a request; empty if it is invalid."""
        if request.header is None:
            try:
                request.header = read_header(bytes(self._encoding.header(request.frame)))
            except IngotError:
                request.header = {}
        return request.header

    def _write(self, request: _Request, header: Header) -> None:
        """Write an answer of this process to a request."""
        said = self._header(request)
        if "id" in said:
            header = {**header, "id": said["id"]}
        self._write_raw(b"".join(self._encoding.parts(Message(header))))

    def _write_raw(self, answer: Bytes) -> None:
        """Write the bytes of an answer.

        Raises:
            HostGoneError: the host no longer reads.
        """
        view = memoryview(answer)
        try:
            while view:
                view = view[os.write(self._answers, view[:_PIPE_BYTES]) :]
        except BrokenPipeError:
            raise HostGoneError from None

    # ---- events

    def _wait(self) -> None:
        """Wait for the host, the worker or a deadline, and handle it."""
        deadline = self._running.deadline if self._running else math.inf
        seconds = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT)
        ready = dict(self._polled().poll(math.ceil(seconds * 1000)))
        if ready.get(self._answers, 0) & (select.POLLERR | select.POLLHUP):
            raise HostGoneError
        if self._worker.channel.fileno() in ready:
            self._receive()
        elif time.monotonic() >= deadline:
            self._late()
        if self._requests in ready:
            self._read()

    def _polled(self) -> select.poll:
        """Return the poll object for worker and host; for requests only while there is room."""
        is_full = len(self._waiting) >= _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES
        is_reading = not self._input_ended and not is_full
        wanted = (is_reading, self._worker.channel.fileno())
        if self._poll is None or self._poll[0] != wanted:
            poll = select.poll()
            poll.register(self._answers, 0)
            poll.register(self._worker.channel, select.POLLIN)
            if is_reading:
                poll.register(self._requests, select.POLLIN)
            self._poll = (wanted, poll)
        return self._poll[1]

    def _read(self) -> None:
        """Read the host's bytes; within a message, wait only for the host."""
        while True:
            data = os.read(self._requests, _PART_BYTES)
            self._input_ended = not data
            try:
                for item in self._decoder.feed(data) if data else self._decoder.end():
                    self._take(item)
            except ResourceError as error:
                self._problem = error
            if self._input_ended or self._running or self._waiting:
                return

    def _take(self, item: bytes | ExecutionError) -> None:
        """Queue a request; a cancellation takes effect at once."""
        if isinstance(item, ExecutionError):
            self._waiting.append(_Request(b"", {}, failure(item)))
            return
        request = _Request(item)
        head = self._encoding.header(item)
        if any(word in head for word in _CONCERNS):
            header = self._header(request)
            if header.get("op") == "cancel":
                request.answer = {"ok": True, "cancelled": self._cancel(header)}
        self._waiting.append(request)
        self._waiting_bytes += len(item)

    def _cancel(self, header: Header) -> bool:
        """Cancel the named request, or the oldest one; return whether there is one."""
        running = self._running
        # To the host, a request runs even if it is still queued here.
        asked = [r for r in (running, *self._waiting) if r is not None and r.answer is None]
        if "request" in header:
            asked = [r for r in asked if self._header(r).get("id") == header["request"]]
        else:
            del asked[1:]
        for request in asked:
            reason = ExecutionError("the request was cancelled", code=CANCELLED)
            if request is not running:
                request.answer = failure(reason)
            elif request.reason is None:
                self._interrupt(request, reason)
        return bool(asked)

    def _receive(self) -> None:
        """Handle the worker's answer, or its end."""
        try:
            data = self._worker.channel.receive()
        except ChannelError:
            data = None
        request, self._running = self._running, None
        if data is None or request is None:
            self._worker_ended(request)
            return
        self._next_number, is_right = HEAD.unpack_from(data)
        if request.reason is not None and not is_right:
            self._write(request, failure(request.reason))
        else:
            self._write_raw(memoryview(data)[HEAD.size :])

    def _late(self) -> None:
        """Interrupt a request that takes too long; after an interrupt, kill the worker."""
        request = self._running
        assert request is not None
        if request.reason is None:
            limit = ResourceError(
                f"the request took longer than its limit of {request.limit:g} s",
                code="INGOT0415",
                hint="--max-seconds and the field timeout set the limit",
            )
            self._interrupt(request, limit)
            return
        self._running = None
        self._worker_ended(request)

    def _interrupt(self, request: _Request, reason: IngotError) -> None:
        request.reason = reason
        request.deadline = time.monotonic() + _GRACE_SECONDS
        self._worker.signal(signal.SIGINT)

    # ---- the worker

    def _worker_ended(self, request: _Request | None) -> None:
        """Replace the worker, which is dead or must be killed; answer the request that it had."""
        self._worker.kill()
        how = self._worker.how_it_ended()
        self._worker = self._new_worker()
        if request is None:
            return
        reason = request.reason or ExecutionError(
            f"the process that held the programs and arrays ended with {how}",
            code="INGOT0524",
            hint="a new worker continues: compile the programs and put the arrays again",
        )
        self._write(request, {**failure(reason), "restarted": True})

    def _new_worker(self) -> Worker:
        def run(channel: Channel) -> None:
            os.close(self._requests)
            os.close(self._answers)
            serve(channel, self._encoding, self._next_number, self._limits.memory)

        return forked(run)
