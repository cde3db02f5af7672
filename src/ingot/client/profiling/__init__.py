# SPDX-License-Identifier: Apache-2.0
"""Profiles: which kernel ran when, as text and as a trace.

* `profile`: which kernel ran when, by the names of the program;
* `profile_table`: a profile as text: kernels by time, and the user's lines by the time of their
  kernels;
* `chrome_trace`: a profile as a trace in Chrome's format, which Perfetto shows, also offline;
* `timings`: what a profile holds: the events of a recording, each with what ran.
"""
