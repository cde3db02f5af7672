# SPDX-License-Identifier: Apache-2.0
"""The meaning of calls and attributes, in one place for all stages after the IR.

`hlo` defines what a module is and when it is well formed; a custom call's target, a group of
devices or a frontend attribute is text there. This package interprets that text: which code a
custom call names (`custom_calls`, `call_layouts`), which calls are ordinary computations
(`call_meanings`, with `onednn` and `dynamic_windows`) or checks (`assertions`), which devices meet
in a collective op (`device_groups`, `channels`), what ops do with dynamic dimensions
(`dynamic_sizes`) and which result takes a given buffer (`buffer_donation`, `memory_kinds`).

Invariant: the evaluator, the formats, the passes and the backends all use this package, so they
agree. Nothing here edits a program for speed; that is the job of `passes`.
"""
