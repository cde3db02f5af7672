# SPDX-License-Identifier: Apache-2.0
"""What calls and attributes mean to the stages behind the IR: one answer for all that ask.

`hlo` says what a module is and when it is well formed; a custom call's target, a group of devices
or a frontend attribute is text there. This package reads that text: which code a custom call names
(`custom_calls`, `call_layouts`), which calls are ordinary computations (`call_meanings`, with
`onednn` and `dynamic_windows`) or checks (`assertions`), who meets whom in a collective op
(`device_groups`, `channels`), what ops do with dynamic dimensions (`dynamic_sizes`) and which
result takes a given buffer (`buffer_donation`, `memory_kinds`).

Invariant: the evaluator, the formats, the passes and the backends ask here, so none of them has an
opinion of its own. Nothing here edits a program for speed; that is `passes`.
"""
