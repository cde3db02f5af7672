# SPDX-License-Identifier: Apache-2.0
"""What a compilation made, for people to look at: texts, files, memory and costs.

* `inspection`: the stages of a compilation, for people to look at: what `Executable.as_text` and
  others show;
* `analyses`: the memory and the costs of a compiled program, by JAX's names;
* `compiled`: what the compilers of all targets return: an artifact and what the stages on the way
  made;
* `dump`: the stages of one compilation as files, named as XLA names them;
* `memory_report`: which allocations and values take the memory of a program: XLA's
  `-memory-usage-report.txt`;
* `reproducer`: failures inside a compilation become an `InternalError` that names a file with the
  module.
"""
