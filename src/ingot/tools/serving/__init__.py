# SPDX-License-Identifier: Apache-2.0
"""`ingot serve`: a supervisor that never computes, a worker that may be replaced, and their frames.

* `supervisor`: the process that the host talks to: forwards frames and replaces a lost worker;
* `serve_worker`: the process that holds programs and arrays, and runs what may crash;
* `session`: one method for each request, on programs and arrays by number;
* `fields`: checked fields of a request's header;
* `framing`: messages as bytes on a pipe: a JSON header, followed by raw bytes;
* `interrupts`: Ctrl-C for one piece of work: marks where an interrupt may raise.
"""
