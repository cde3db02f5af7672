# SPDX-License-Identifier: Apache-2.0
"""The meaning of calls and attributes, in one place for all stages after the IR.

`hlo` defines what a module is and when it is well formed; a custom call's target, a group of
devices or a frontend attribute is text there. This package interprets that text:

* custom calls: which code one names (`custom_calls`, `call_layouts`, `foreign_calls`), and those
  that are ordinary computations (`call_meanings`, with `onednn` and `dynamic_windows`) or checks
  (`assertions`, whose messages are `run_errors`);
* devices: which of them meet in a collective op (`device_groups`, `device_ranges`, `channels`);
* attributes of a module: `frontend_attributes`, `entry_layouts`, `memory_kinds`, which result takes
  a given buffer (`buffer_donation`), `trip_counts`;
* ops: what they do with dynamic dimensions (`dynamic_sizes`), what a fold computes (`reducers`) and
  starts from (`identities`).

Invariant: the evaluator, the formats, the passes and the backends all use this package, so they
agree. Nothing here edits a program for speed; that is the job of `passes`.
"""
