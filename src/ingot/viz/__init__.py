# SPDX-License-Identifier: Apache-2.0
"""Reports on the compilation of a program, with reasons, as data, as text and as a page.

`gather` reads an executable and makes the records of `report`; `terminal` and `page` show them.
`ingot.tools.explaining`, which knows the front ends, finds the executables of a function.
"""

from ingot.viz.report import Report

__all__ = ["Report"]
