# SPDX-License-Identifier: Apache-2.0
"""Reports: what the compiler made of a program and why, as data, as text and as a page.

`gather` reads an executable and makes the records of `report`; `terminal` and `page` show them.
Which function is which executable is for `ingot.tools.explaining`: it knows the front ends.
"""

from ingot.viz.report import Report

__all__ = ["Report"]
