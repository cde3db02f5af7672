# SPDX-License-Identifier: Apache-2.0
"""Reports on the compilation of a program, with reasons, as data, as text and as a page.

`gather` reads an executable and makes the records of `report`; `terminal` and `page` show them.
`ingot.tools.explaining`, which knows the front ends, finds the executables of a function.

The other files, those that import others first:

* `code`: the code of each kernel, out of the texts of its program: HLO, kernel IR, schedule, LLVM
  IR;
* `execution`: the events of a profile: times of a program's kernels, and the events of its last
  execution;
* `flow`: the data flow between the kernels of a scheduled module, for `gather`;
* `memory`: memory by kernel: which buffers are live while each kernel runs, from the buffer
  assignment;
* `step`: what one execution of a partitioned program would cost on a described network;
* `flame`: flame graphs of the time of compilation, and of the last execution;
* `graph`: the graph of a report's kernels, ready to draw: boxes, lines, and a remark about folding;
* `layout`: the layout of a drawn graph: nodes in layers, each below the nodes that it needs;
* `content`: the content of a report: a tree of records, from which text, JSON and page are made.
"""

from ingot.viz.report import Report

__all__ = ["Report"]
